/* Curves: a panel for each last part of a name ("loss" of "train/loss"), two panels in a row. A panel has a title, a legend, axes with
 * round numbers, and a curve for each name. Invariant: of many points, the minimum and the maximum of each stretch are drawn, so no peak is
 * lost. */
#include "train/curves.h"

#include "train/canvas.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    WIDE = 640,
    HIGH = 420,
    LEFT = 112,
    RIGHT = 24,
    TOP = 68,
    BOTTOM = 62,
    STRETCHES = 480,
    COLOURS = 8,
    MOST_PANELS = 64,
    MOST_LEGEND = 64
};

static const uint32_t colours[COLOURS] = { 0x1f77b4, 0xff7f0e, 0x2ca02c, 0xd62728, 0x9467bd, 0x8c564b, 0xe377c2, 0x17becf };
#define GRID 0xdddddd
#define AXIS 0x666666

typedef struct range {
    double low, high;
} range;

typedef struct panel {
    mf_canvas *canvas;
    double left, top; /* in the picture */
    range x, y;
} panel;

static const char *last_part(const char *name)
{
    const char *slash = strrchr(name, '/');
    return slash ? slash + 1 : name;
}

/* ---- axes */

static void widen(range *r, double value)
{
    if (!isfinite(value))
        return;
    r->low = fmin(r->low, value);
    r->high = fmax(r->high, value);
}

/* Gives an empty range, or one of a single value, a width. */
static range proper(range r)
{
    if (!(r.low <= r.high))
        return (range){ 0, 1 };
    double margin = r.high > r.low ? 0 : fmax(fabs(r.low) * 0.1, 0.5);
    return (range){ r.low - margin, r.high + margin };
}

/* The step between ticks: 1, 2 or 5 times a power of ten, such that the range has about `about` steps. */
static double round_step(range r, int about)
{
    double raw = (r.high - r.low) / about, power = pow(10, floor(log10(raw)));
    double digit = raw / power;
    return power * (digit < 1.5 ? 1 : digit < 3.5 ? 2 : digit < 7.5 ? 5 : 10);
}

static double at_x(const panel *p, double x) { return p->left + LEFT + (x - p->x.low) / (p->x.high - p->x.low) * (WIDE - LEFT - RIGHT); }

static double at_y(const panel *p, double y)
{
    return p->top + HIGH - BOTTOM - (y - p->y.low) / (p->y.high - p->y.low) * (HIGH - TOP - BOTTOM);
}

static void draw_ticks(const panel *p, bool vertical)
{
    range r = vertical ? p->y : p->x;
    double step = round_step(r, vertical ? 5 : 4), first = ceil(r.low / step);
    double left = p->left + LEFT, right = p->left + WIDE - RIGHT, top = p->top + TOP, bottom = p->top + HIGH - BOTTOM;
    for (int i = 0; i < 20 && (first + i) * step <= r.high + step * 1e-9; i++) {
        char text[32];
        double value = (first + i) * step;
        snprintf(text, sizeof text, "%.6g", fabs(value) < step * 1e-6 ? 0.0 : value);
        if (vertical) {
            mf_canvas_line(p->canvas, left, at_y(p, value), right, at_y(p, value), 1, GRID);
            mf_canvas_text(p->canvas, left - 10, at_y(p, value), 1, text);
        } else {
            mf_canvas_line(p->canvas, at_x(p, value), top, at_x(p, value), bottom, 1, GRID);
            mf_canvas_text(p->canvas, at_x(p, value), bottom + 18, 0, text);
        }
    }
}

static void draw_frame(const panel *p, const char *title)
{
    double left = p->left + LEFT, right = p->left + WIDE - RIGHT, top = p->top + TOP, bottom = p->top + HIGH - BOTTOM;
    draw_ticks(p, true);
    draw_ticks(p, false);
    mf_canvas_line(p->canvas, left, top, left, bottom, 1.5, AXIS);
    mf_canvas_line(p->canvas, left, bottom, right, bottom, 1.5, AXIS);
    mf_canvas_text(p->canvas, (left + right) / 2, p->top + 20, 0, title);
    mf_canvas_text(p->canvas, (left + right) / 2, bottom + 42, 0, "step");
}

/* ---- curves */

static mf_value out_of_memory(void) { return mf_make_error(MF_ERROR_MEMORY, "the curves: out of memory"); }

/* Draws at most two points of each stretch, its minimum and its maximum, in the order of the steps. */
static bool draw_curve(const panel *p, const mf_series *s, uint32_t colour)
{
    int64_t stretch = s->count > 2 * STRETCHES ? (s->count + STRETCHES - 1) / STRETCHES : 1, n = 0;
    double *x = malloc(((size_t)(s->count < 2 * STRETCHES ? s->count : 2 * STRETCHES) + 2) * 2 * sizeof *x), *y;
    if (!x)
        return false;
    y = x + (s->count < 2 * STRETCHES ? s->count : 2 * STRETCHES) + 2;
    for (int64_t i = 0; i < s->count; i += stretch) {
        int64_t least = i, greatest = i, end = i + stretch < s->count ? i + stretch : s->count;
        for (int64_t k = i; k < end; k++) {
            least = s->values[k] < s->values[least] || isnan(s->values[least]) ? k : least;
            greatest = s->values[k] > s->values[greatest] || isnan(s->values[greatest]) ? k : greatest;
        }
        int64_t both[2] = { least < greatest ? least : greatest, least < greatest ? greatest : least };
        for (int k = 0; k < 1 + (least != greatest); k++, n++) {
            x[n] = at_x(p, s->steps[both[k]]);
            y[n] = at_y(p, s->values[both[k]]);
        }
    }
    mf_canvas_curve(p->canvas, x, y, n, colour);
    free(x);
    return true;
}

static bool is_of(const mf_series *s, const char *title) { return strcmp(last_part(s->name), title) == 0; }

/* The name without its last part, which is the title: "train" of "train/loss"; the whole name if it has one part. */
static void legend_name(char *out, size_t size, const mf_series *s)
{
    int before = (int)(last_part(s->name) - s->name);
    snprintf(out, size, "%.*s", before ? before - 1 : MOST_LEGEND - 1, s->name);
}

/* The curves' names, each beside a stroke of its colour, as many as fit into the line. */
static void draw_legend(const panel *p, const mf_series *series, int count, const char *title)
{
    double x = p->left + LEFT, y = p->top + 46;
    int number = 0;
    for (int i = 0; i < count; i++)
        if (is_of(&series[i], title)) {
            char name[MOST_LEGEND];
            legend_name(name, sizeof name, &series[i]);
            double wide = 34 + MF_LETTER * (double)strlen(name);
            if (x + wide > p->left + WIDE)
                return;
            mf_canvas_line(p->canvas, x, y, x + 24, y, 3, colours[number++ % COLOURS]);
            mf_canvas_text(p->canvas, x + 32, y, -1, name);
            x += wide + 16;
        }
}

static bool draw_panel(panel *p, const mf_series *series, int count, const char *title)
{
    range x = { INFINITY, -INFINITY }, y = x;
    int number = 0;
    for (int i = 0; i < count; i++)
        for (int64_t k = 0; is_of(&series[i], title) && k < series[i].count; k++) {
            widen(&x, series[i].steps[k]);
            widen(&y, series[i].values[k]);
        }
    p->x = proper(x);
    p->y = proper(y);
    draw_frame(p, title);
    draw_legend(p, series, count, title);
    bool whole = true;
    for (int i = 0; i < count; i++)
        if (is_of(&series[i], title))
            whole = draw_curve(p, &series[i], colours[number++ % COLOURS]) && whole;
    return whole;
}

mf_value mf_curves_draw(const mf_series *series, int count, FILE *svg)
{
    const char *titles[MOST_PANELS];
    int panels = 0;
    for (int i = 0; i < count && panels < MOST_PANELS; i++) {
        int k = 0;
        while (k < panels && strcmp(titles[k], last_part(series[i].name)) != 0)
            k++;
        if (k == panels)
            titles[panels++] = last_part(series[i].name);
    }
    mf_canvas canvas;
    if (!mf_canvas_open(&canvas, panels > 1 ? 2 * WIDE : WIDE, HIGH * (panels > 1 ? (panels + 1) / 2 : 1), svg))
        return out_of_memory();
    bool whole = true;
    for (int i = 0; i < panels; i++) {
        int row = i / 2;
        panel p = { .canvas = &canvas, .left = i % 2 * WIDE, .top = row * HIGH };
        whole = draw_panel(&p, series, count, titles[i]) && whole;
    }
    mf_value image = mf_from_host(MF_U8, MF_SHAPE(canvas.height, canvas.width, 3), canvas.pixels);
    bool written = mf_canvas_close(&canvas);
    return !whole ? out_of_memory() : written ? image : mf_make_error(MF_ERROR_IO, "the curves: cannot be written");
}
