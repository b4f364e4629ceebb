/* Draws the curves of a training's metrics. Uses the public API only. */
#ifndef MF_TRAIN_CURVES_H
#define MF_TRAIN_CURVES_H

#include "train/series.h"

#include <manyfold.h>
#include <stdio.h>

/* Writes the picture as SVG to `svg` and returns its pixels, u8 (h, w, 3); an error if memory runs out or writing fails. */
mf_value mf_curves_draw(const mf_series *series, int count, FILE *svg);

#endif
