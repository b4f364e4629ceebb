/* Runs a program as the processes of a job would run it and holds their results beside those of one process. The processes are threads,
 * joined by a communicator whose messages come late and out of order (threads_comm.h). */
#ifndef MF_TESTS_SPREAD_H
#define MF_TESTS_SPREAD_H

#include "known.h"

enum { SPREAD_PROCESSES = 32, SPREAD_INDICES = 64 };

/* One process, or the only one. A map's devices are a grid of rows, by its outermost axis, and columns inside them. */
typedef struct spread_here {
    const void *context;
    int rank, size;
    int axis_size, inner_size; /* all rows, all columns */
    int row_count, rows[SPREAD_INDICES], column_count, columns[SPREAD_INDICES];
    mf_device_list devices; /* for .devices: none where the rows follow one another as the processes' devices do */
    bool named;
} spread_here;

/* Gives a dict of trees: in "rows" each leaf has the process's rows along its first dimension, in "grid" its columns along the second
 * too, and in "same" it is equal everywhere. */
typedef mf_value (*spread_program)(const spread_here *h);

/* Of a tree made for all rows, or rows and columns, those that are here. */
mf_value spread_rows(const spread_here *h, mf_value all);
mf_value spread_grid(const spread_here *h, mf_value all);

/* How reductions go between processes from now on: directly and whole, in pieces, relayed whole, in parts; and so on. */
void spread_way(int number);
/* This process fails in a call as soon as another one has read partial sums that it lends; -1: none does. */
void spread_fail_when_read(int process);
/* Each of owners, ended by NULL, says who has the devices in the order of the axis: "00011111" spreads eight over two processes. Equal bits
 * for all of them. */
void spread_check(const char *name, spread_program program, const void *context, int axis_size, const char *const *owners);
/* The spreads of eight devices: 1x8, 2x4, 4x2, 8x1, 3+5, uneven, interleaved, reversed. */
extern const char *const spread_of_eight[];

/* What came of a program in each process, as text; of an error its sentence, after "peer: " where another process is why. */
typedef struct spread_words {
    char of[SPREAD_PROCESSES][1024];
} spread_words;
void spread_tell(spread_program program, const void *context, int axis_size, const char *owners, spread_words *words);

/* A program of known.h over the rows of its inputs. shares: how many rows each process has at least, ended by 0; the last one has those
 * that are left. inside: devices that a row takes. Says nothing where there are fewer rows than processes. */
void spread_compare(known_program program, const char *name, const mf_value *in, int in_count, const int *shares, int inside);

#endif
