/* What a training told, by name: the points of its curves. Public API only. */
#ifndef MF_TRAIN_SERIES_H
#define MF_TRAIN_SERIES_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

typedef struct mf_series {
    char *name; /* "train/loss" */
    double *steps, *values;
    int64_t count, room;
    bool told; /* in this run */
} mf_series;

typedef struct mf_series_list {
    mf_series *at;
    int count;
} mf_series_list;

/* A point of this run. The first one of a name takes the place of what earlier runs told from that step on. False: no memory. */
bool mf_series_add(mf_series_list *l, const char *name, double step, double value);
/* What earlier runs told, from a log book's lines; where a name goes back to an earlier step, the later run counts. Lines that are no log
 * book's are passed over. False: no memory. Numbers have a point, so the thread's locale is to be C's. */
bool mf_series_read(mf_series_list *l, FILE *lines);
void mf_series_end(mf_series_list *l);

#endif
