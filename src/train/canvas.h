/* A canvas that draws to pixels and to SVG at the same time. Coordinates are pixels from the upper left corner. Uses the public API
 * only. */
#ifndef MF_TRAIN_CANVAS_H
#define MF_TRAIN_CANVAS_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

typedef struct mf_canvas {
    int width, height;
    unsigned char *pixels; /* red, green, blue */
    FILE *svg;
} mf_canvas;

enum { MF_LETTER = 12, MF_LETTER_HEIGHT = 14 }; /* the advance width of a letter, and its height without descenders */

/* A white canvas; SVG is written to `svg`. False if out of memory. */
bool mf_canvas_open(mf_canvas *c, int width, int height, FILE *svg);
/* Ends the SVG and frees the pixels. False if writing failed. */
bool mf_canvas_close(mf_canvas *c);
/* colour: 0xrrggbb */
void mf_canvas_line(mf_canvas *c, double x0, double y0, double x1, double y1, double thick, uint32_t colour);
/* A polyline through the points; a point that is not finite is a gap. */
void mf_canvas_curve(mf_canvas *c, const double *x, const double *y, int64_t count, uint32_t colour);
/* anchor: -1, 0 or 1 if x is the left end, the middle or the right end of the text. y is its vertical middle. A byte that is not printable
 * ASCII is drawn as '?'. */
void mf_canvas_text(mf_canvas *c, double x, double y, int anchor, const char *text);

#endif
