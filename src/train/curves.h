/* Curves of what a training told. Public API only. */
#ifndef MF_TRAIN_CURVES_H
#define MF_TRAIN_CURVES_H

#include "train/series.h"

#include <manyfold.h>
#include <stdio.h>

/* Draws all: the text to `svg`, the picture as a value, u8 (h, w, 3); an error where memory is short or writing fails. */
mf_value mf_curves_draw(const mf_series *series, int count, FILE *svg);

#endif
