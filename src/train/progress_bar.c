/* A progress bar on stdout. Invariant: a finished or closed bar ends its line. On a terminal the bar is redrawn in place; otherwise a line
 * is printed for every tenth of the loop. */
#include <manyfold/train.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { WIDTH = 30 };

struct mf_progress {
    char *label, *unit;          /* "Epoch 1/3, batch", "images" */
    int64_t steps, done, before; /* before: the steps that were done when the bar was opened */
    double per_step;             /* units in a step */
    double started, shown;       /* seconds; shown: when the bar was last drawn */
    int tenths;                  /* printed so far */
    bool terminal, silent;
};

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

mf_progress *mf_progress_open_opt(const char *label, int64_t steps, const mf_progress_options *o)
{
    mf_progress *p = calloc(1, sizeof *p);
    if (!p)
        return NULL;
    p->label = strdup(label ? label : "");
    p->unit = strdup(o && o->unit ? o->unit : "steps");
    p->steps = steps;
    p->done = p->before = o ? o->done : 0;
    p->per_step = o && o->per_step > 0 ? o->per_step : 1;
    p->silent = (o && o->silent) || steps < 0 || p->done < 0 || p->done > steps;
    p->tenths = (int)(steps > 0 && !p->silent ? (double)p->done * 10 / (double)steps : 0);
    p->started = now();
    p->shown = p->started - 1;
    p->terminal = isatty(STDOUT_FILENO);
    if (p->label && p->unit)
        return p;
    mf_progress_close(p);
    return NULL;
}

static void draw(const mf_progress *p)
{
    int full = p->steps ? (int)((double)p->done * WIDTH / (double)p->steps) : WIDTH;
    printf("\r%s [", p->label);
    for (int i = 0; i < WIDTH; i++)
        putchar(i < full ? '#' : '.');
    putchar(']');
}

static void print(const mf_progress *p, const char *said, double seconds, bool last)
{
    double done = (double)(p->done - p->before), rate = seconds > 0 ? done * p->per_step / seconds : 0;
    int64_t left = (int64_t)(seconds / done * (double)(p->steps - p->done) + 0.5);
    if (p->terminal)
        draw(p);
    else
        printf("%s", p->label);
    printf(" %lld/%lld: %s%s%.0f %s/s, %lld:%02d left%s", (long long)p->done, (long long)p->steps, said ? said : "", said ? ", " : "", rate,
           p->unit, (long long)left / 60, (int)(left % 60), p->terminal ? (last ? "\033[K\n" : "\033[K") : "\n");
    fflush(stdout);
}

void mf_progress_step(mf_progress *p, const char *said)
{
    if (!p || p->silent)
        return;
    p->done++;
    double at = now();
    int tenths = (int)((double)p->done * 10 / (double)(p->steps ? p->steps : 1));
    bool last = p->done >= p->steps;
    if (p->terminal ? at - p->shown < 0.1 && !last : tenths <= p->tenths)
        return;
    p->shown = at;
    p->tenths = tenths;
    print(p, said, at - p->started, last);
}

void mf_progress_close(mf_progress *p)
{
    if (!p)
        return;
    if (p->terminal && !p->silent && p->done > p->before && p->done < p->steps)
        putchar('\n');
    free(p->label);
    free(p->unit);
    free(p);
}
