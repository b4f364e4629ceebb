/* Runs a program as the processes of a job would, each with its own rows of the inputs, and holds the rows of all of them beside those of
 * one process. */
#ifndef MF_TESTS_SPREAD_H
#define MF_TESTS_SPREAD_H

#include "known.h"

/* shares: how many rows each process has at least, ended by 0; the last one has those that are left. inside: devices that a row takes. Says
 * nothing where there are fewer rows than processes. */
void spread_compare(known_program program, const char *name, const mf_value *in, int in_count, const int *shares, int inside,
                    mf_value whole, int seed);

#endif
