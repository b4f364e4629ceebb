/* A sheet that is drawn on as pixels and as SVG at once. Coordinates are pixels from the upper left corner. Public API only. */
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

enum { MF_LETTER = 12, MF_LETTER_HEIGHT = 14 }; /* of a letter, with the gap behind it */

/* White; the SVG's text goes to `svg`. False: no memory. */
bool mf_canvas_open(mf_canvas *c, int width, int height, FILE *svg);
/* Ends the SVG; false when writing it failed. The pixels are freed. */
bool mf_canvas_close(mf_canvas *c);
/* colour: 0xrrggbb */
void mf_canvas_line(mf_canvas *c, double x0, double y0, double x1, double y1, double thick, uint32_t colour);
/* Through all points, of which those that are not finite are gaps. */
void mf_canvas_curve(mf_canvas *c, const double *x, const double *y, int64_t count, uint32_t colour);
/* anchor: -1: it begins at x, 0: its middle is there, 1: its end. y is its middle. What is not ASCII is a question mark. */
void mf_canvas_text(mf_canvas *c, double x, double y, int anchor, const char *text);

#endif
