/* A training's metrics by name: the points of its curves. Uses the public API only. */
#ifndef MF_TRAIN_SERIES_H
#define MF_TRAIN_SERIES_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

typedef struct mf_series {
    char *name; /* "train/loss" */
    double *steps, *values;
    int64_t count, capacity;
    bool has_new; /* has points of this run */
} mf_series;

typedef struct mf_series_list {
    mf_series *at;
    int count;
} mf_series_list;

/* Adds a point of this run. The first point of a name removes the points of earlier runs from that step on. False if out of memory. */
bool mf_series_add(mf_series_list *l, const char *name, double step, double value);
/* Reads the points of earlier runs from a logbook's lines. If a name goes back to an earlier step, the points of the later run replace
 * those of the earlier one. Skips lines that are not a logbook's. False if out of memory. The thread must be in the C locale, because
 * numbers are written with a point. */
bool mf_series_read(mf_series_list *l, FILE *lines);
void mf_series_end(mf_series_list *l);

#endif
