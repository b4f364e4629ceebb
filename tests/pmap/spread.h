/* Runs a program as a job of several processes, and compares the results with those of one process. The processes are threads, joined by a
 * communicator that delivers messages late and out of order (threads_comm.h). */
#ifndef MF_TESTS_SPREAD_H
#define MF_TESTS_SPREAD_H

#include "known.h"

enum { SPREAD_PROCESSES = 32, SPREAD_INDICES = 64 };

/* One process of the job, or the only one. A map's devices form a grid: rows along its outermost axis, columns inside. */
typedef struct spread_here {
    const void *context;
    int rank, size;
    int axis_size, inner_size; /* the number of all rows, of all columns */
    int row_count, rows[SPREAD_INDICES], column_count, columns[SPREAD_INDICES];
    mf_device_list devices; /* for .devices; empty if the rows are in the order of the processes' devices */
    bool named;
} spread_here;

/* Returns a dict of trees: in "rows", each leaf has this process's rows along its first dimension; in "grid", also its columns along the
 * second; in "same", it is equal everywhere. */
typedef mf_value (*spread_program)(const spread_here *h);

/* Selects this process's rows, or rows and columns, from a tree made for all. */
mf_value spread_rows(const spread_here *h, mf_value all);
mf_value spread_grid(const spread_here *h, mf_value all);

/* Sets how reductions between processes work from now on: direct, by reduce-scatter, by recursive doubling, by recursive halving, and so
 * on. */
void spread_algorithm(int number);
/* This process fails in a call as soon as another one has read the partial sums that it lends; -1: none. */
void spread_fail_when_read(int process);
/* Each string in owners, which ends with NULL, assigns the devices in the order of the axis to processes: "00011111" divides eight among
 * two. Checks that all give equal bits. */
void spread_check(const char *name, spread_program program, const void *context, int axis_size, const char *const *owners);
/* The spreads of eight devices: 1x8, 2x4, 4x2, 8x1, 3+5, uneven, interleaved, reversed. */
extern const char *const spread_of_eight[];

/* The result of a program in each process as text; for an error its message, after "peer: " if another process caused it. */
typedef struct spread_texts {
    char of[SPREAD_PROCESSES][1024];
} spread_texts;
void spread_print(spread_program program, const void *context, int axis_size, const char *owners, spread_texts *words);

/* Runs a program of known.h over the rows of its inputs. shares: the minimum number of rows of each process, ended by 0; the last process
 * has the rest. inside: the number of devices for a row. Does nothing if there are fewer rows than processes. */
void spread_compare(known_program program, const char *name, const mf_value *in, int in_count, const int *shares, int inside);

#endif
