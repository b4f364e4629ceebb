/* The list of all workloads; every file's list must be entered here. */
#include "workload.h"

const workload_list *const workload_lists[] = { &map_workloads,      &dense_workloads,       &loop_workloads,
                                                &cnn_workloads,      &transformer_workloads, &sequence_workloads,
                                                &training_workloads, &resnet_workloads,      &transfer_workloads };
const int workload_list_count = sizeof workload_lists / sizeof *workload_lists;
