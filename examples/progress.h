/* A line that tells how far a loop is: a bar with rate and remaining time where stdout is a terminal, else a plain line every tenth of the
 * way, so that logs stay short. Invariant: nothing is written between the steps but what this prints, and a finished bar ends its line. */
#ifndef EXAMPLES_PROGRESS_H
#define EXAMPLES_PROGRESS_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <time.h>
#include <unistd.h>

typedef struct progress {
    const char *label, *unit;    /* "Epoch 1/3, batch", "images" */
    int64_t steps, done, before; /* of the loop; before: done when it started */
    double per_step;             /* units */
    double started, shown;       /* seconds */
    int tenths;                  /* already told */
    bool terminal, silent;
} progress;

static inline double progress_now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* before: steps that are done already. */
static inline progress progress_start(const char *label, const char *unit, int64_t before, int64_t steps, double per_step)
{
    double now = progress_now();
    return (progress){ .label = label,
                       .unit = unit,
                       .steps = steps,
                       .done = before,
                       .before = before,
                       .tenths = (int)(steps ? before * 10 / steps : 0),
                       .per_step = per_step,
                       .started = now,
                       .shown = now - 1,
                       .terminal = isatty(STDOUT_FILENO) };
}

static inline void progress_bar(const progress *p)
{
    enum { width = 30 };
    int64_t full = p->steps ? p->done * width / p->steps : width;
    printf("\r%s [", p->label);
    for (int i = 0; i < width; i++)
        putchar(i < full ? '#' : '.');
    putchar(']');
}

/* `said` is what the loop has to tell: "loss 0.4, accuracy 0.9". */
static inline void progress_step(progress *p, const char *said)
{
    p->done++;
    if (p->silent)
        return;
    double now = progress_now(), seconds = now - p->started;
    int tenths = (int)(p->done * 10 / (p->steps ? p->steps : 1));
    bool last = p->done >= p->steps;
    if (p->terminal ? now - p->shown < 0.1 && !last : tenths <= p->tenths)
        return;
    p->shown = now;
    p->tenths = tenths;
    double done = (double)(p->done - p->before), rate = seconds > 0 ? done * p->per_step / seconds : 0;
    int left = (int)(seconds / done * (double)(p->steps - p->done) + 0.5);
    if (p->terminal)
        progress_bar(p);
    else
        printf("%s", p->label);
    printf(" %lld/%lld: %s, %.0f %s/s, %d:%02d left%s", (long long)p->done, (long long)p->steps, said, rate, p->unit, left / 60, left % 60,
           p->terminal ? (last ? "\033[K\n" : "\033[K") : "\n");
    fflush(stdout);
}

#endif
