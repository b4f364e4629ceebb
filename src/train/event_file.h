/* TensorBoard's event files. Uses the public API only. */
#ifndef MF_TRAIN_EVENT_FILE_H
#define MF_TRAIN_EVENT_FILE_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

/* Writes the first event, which holds the file's version. Both functions return false if writing fails. */
bool mf_event_begin(FILE *f, double time);
/* Writes one event: a summary with `count` named values. */
bool mf_event_write(FILE *f, double time, int64_t step, const char *const *names, const double *values, int count);

#endif
