/* TensorBoard's event files. Public API only. */
#ifndef MF_TRAIN_EVENT_FILE_H
#define MF_TRAIN_EVENT_FILE_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

/* The first event, which says what kind of file it is. All are false when writing fails. */
bool mf_event_begin(FILE *f, double time);
/* Events of numbers: a summary with one value for each. */
bool mf_event_write(FILE *f, double time, int64_t step, const char *const *names, const double *values, int count);

#endif
