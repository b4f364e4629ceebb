/* What a workload of bench/workloads.c is: a name, how to prepare it, and one call that is waited for. Its state lives in `held`, so that
 * one workload's memory is gone before the next one's is made. */
#ifndef BENCH_WORKLOAD_H
#define BENCH_WORKLOAD_H

#include <manyfold.h>

typedef struct workload {
    const char *name;
    void (*prepare)(const struct workload *w);
    void (*call)(void);
    int calls;            /* in a round: enough to make a round milliseconds long */
    int64_t size, factor; /* the workload's own parameters, named where it is defined */
    bool small;           /* runs in no time, on any number of devices: the suite runs it once */
    bool threads;         /* of its own: what a call allocates differs from run to run */
    mf_dtype dtype;
} workload;

typedef struct workload_list {
    const workload *rows;
    int count;
} workload_list;

/* One list a file. */
extern const workload_list map_workloads, dense_workloads, loop_workloads, cnn_workloads, transformer_workloads, sequence_workloads,
    training_workloads, resnet_workloads, transfer_workloads;
extern const workload_list *const workload_lists[]; /* all of them */
extern const int workload_list_count;

extern int devices;      /* as many as --devices says */
extern mf_value held[8]; /* the current workload's arrays */

void finish(mf_value v); /* waits for it; its error, if it has one, is the workload's */

/* Standard normal numbers of a key made from `seed`, f32; jax.random.normal(jax.random.PRNGKey(seed), shape) on the other side. */
mf_value normal(uint64_t seed, mf_shape shape);

#endif
