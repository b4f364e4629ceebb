/* A workload of bench/workloads.c: a name, a function that prepares it, and one that makes a call and waits for it. Its state is in `held`,
 * so that its memory is released before the next workload is prepared. */
#ifndef BENCH_WORKLOAD_H
#define BENCH_WORKLOAD_H

#include <manyfold.h>

typedef struct workload {
    const char *name;
    void (*prepare)(const struct workload *w);
    void (*call)(void);
    int calls;            /* in a round: enough to make a round milliseconds long */
    int64_t size, factor; /* the workload's own parameters, explained at its definition */
    bool small;           /* quick on any number of devices: the test suite runs it once */
    bool threads;         /* it has threads of its own, so what a call allocates differs from run to run */
    mf_dtype dtype;
} workload;

typedef struct workload_list {
    const workload *rows;
    int count;
} workload_list;

/* One list for each file. */
extern const workload_list map_workloads, dense_workloads, loop_workloads, cnn_workloads, transformer_workloads, sequence_workloads,
    training_workloads, resnet_workloads, transfer_workloads;
extern const workload_list *const workload_lists[]; /* all of them */
extern const int workload_list_count;

extern int devices;      /* from --devices */
extern mf_value held[8]; /* the current workload's arrays */

void finish(mf_value v); /* waits for v; an error of v is the workload's error */

/* Standard normal f32 numbers: jax.random.normal(jax.random.PRNGKey(seed), shape) on the peer's side. */
mf_value normal(uint64_t seed, mf_shape shape);

#endif
