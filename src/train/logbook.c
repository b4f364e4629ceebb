/* The logbook: a training's metrics, written by a thread. Invariants: lines and events are written whole and in the order of the calls;
 * only the thread touches files and series while it is busy, so whoever else wants to read them waits until it is idle (drain);
 * mf_logbook_write does not wait for the values that it is given. */
#include "train/curves.h"
#include "train/event_file.h"

#include <manyfold/io.h>
#include <manyfold/train.h>

#include <errno.h>
#include <locale.h>
#include <math.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

enum { PATH = 4096 };

typedef struct page { /* the arguments of one mf_logbook_write */
    struct page *next;
    int64_t step;
    double time;
    mf_value metrics; /* kept */
} page;

struct mf_logbook {
    mf_logbook_options options;
    char *folder, *table;
    FILE *lines, *events;
    mf_series_list series;
    locale_t numbers; /* the C locale: the decimal separator must be a point */
    pthread_t thread;
    bool threaded;
    pthread_mutex_t lock; /* guards the members below */
    pthread_cond_t changed;
    page *first, **last;
    bool busy, stop;
    mf_value error; /* kept: the first error that no call has returned yet; unset: none */
};

/* What open returns if there is no memory for a logbook. */
static struct mf_logbook no_logbook;

static mf_value out_of_memory(void) { return mf_make_error(MF_ERROR_MEMORY, "a log book: out of memory"); }

/* Whether this is the child of a fork, which does not have the thread. Allocates nothing. */
static bool is_forked(void) { return mf_kind_of((mf_value){ 0 }) == MF_KIND_ERROR; }

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_REALTIME, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static void note(mf_logbook *b, mf_value error)
{
    mf_value kept = mf_keep(error);
    (void)pthread_mutex_lock(&b->lock);
    bool news = !b->error.handle;
    if (news)
        b->error = kept;
    (void)pthread_mutex_unlock(&b->lock);
    if (!news)
        mf_release(kept);
}

static void note_failed(mf_logbook *b, const char *name)
{
    note(b, mf_make_error(MF_ERROR_IO, "%s/%s: cannot be written: %s", b->folder, name, strerror(errno)));
}

/* Returns the first error that no call has returned yet, as a status, and clears it. */
static mf_status take_error(mf_logbook *b)
{
    (void)pthread_mutex_lock(&b->lock);
    mf_value error = b->error;
    b->error = (mf_value){ 0 };
    (void)pthread_mutex_unlock(&b->lock);
    if (!error.handle)
        return MF_OK;
    mf_status status = mf_block_until_ready(error);
    mf_release(error);
    return status;
}

static bool path_in(const mf_logbook *b, const char *name, char *path)
{
    errno = ENAMETOOLONG;
    return snprintf(path, PATH, "%s/%s", b->folder, name) < PATH;
}

/* ------------------------------------------------------------------ the numbers of a page */

typedef struct metric_value {
    char *name;
    double value;
} metric_value;

typedef struct metric_list {
    metric_value *at;
    int count, capacity;
    mf_value error;
} metric_list;

static void add(metric_list *e, const char *name, mf_value leaf)
{
    if (e->count == e->capacity) {
        int capacity = e->capacity ? e->capacity * 2 : 8;
        metric_value *more = realloc(e->at, (size_t)capacity * sizeof *more);
        if (!more) {
            e->error = out_of_memory();
            return;
        }
        e->at = more;
        e->capacity = capacity;
    }
    mf_status status = mf_block_until_ready(leaf);
    if (status) {
        const char *words = mf_error(leaf);
        e->error = mf_make_error(status, "%s: %s", *name ? name : "the metric", words ? words : "an error");
        return;
    }
    if (mf_size(leaf) != 1) {
        e->error = mf_make_error(MF_ERROR_TREE, "mf_logbook_write: %s: expected one number, found an array of shape %s",
                                 *name ? name : "the metric", mf_str_shape(mf_shape_of(leaf)));
        return;
    }
    metric_value made = { strdup(*name ? name : "value"), mf_item_f64(leaf) };
    if (made.name)
        e->at[e->count++] = made;
    else
        e->error = out_of_memory();
}

/* Collects the numbers of a tree. Children are named by their key or index, joined by '/'. */
static void collect(metric_list *e, const char *name, mf_value v)
{
    mf_kind kind = mf_kind_of(v);
    bool tree = kind == MF_KIND_TUPLE || kind == MF_KIND_LIST || kind == MF_KIND_DICT || kind == MF_KIND_NONE;
    if (!tree)
        add(e, name, v);
    for (int i = 0; tree && i < mf_len(v) && !e->error.handle; i++) {
        const char *key = mf_key(v, i);
        char number[16];
        snprintf(number, sizeof number, "%d", i);
        size_t size = strlen(name) + strlen(key ? key : number) + 2;
        char *path = malloc(size);
        if (!path) {
            e->error = out_of_memory();
            return;
        }
        snprintf(path, size, "%s%s%s", name, *name ? "/" : "", key ? key : number);
        collect(e, path, key ? mf_get(v, key) : mf_get(v, i));
        free(path);
    }
}

static void forget(metric_list *e)
{
    for (int i = 0; i < e->count; i++)
        free(e->at[i].name);
    free(e->at);
}

/* ------------------------------------------------------------------ writing */

static void put_string(FILE *f, const char *text)
{
    (void)putc('"', f);
    for (const char *c = text; *c; c++)
        if (*c == '"' || *c == '\\')
            fprintf(f, "\\%c", *c);
        else if ((unsigned char)*c < 0x20)
            fprintf(f, "\\u%04x", (unsigned char)*c);
        else
            (void)putc(*c, f);
    (void)putc('"', f);
}

static void put_number(FILE *f, double x)
{
    if (isfinite(x))
        fprintf(f, "%.9g", x); /* nine digits distinguish all f32 values */
    else
        fputs(isnan(x) ? "\"NaN\"" : x > 0 ? "\"Infinity\"" : "\"-Infinity\"", f);
}

static bool write_line(FILE *f, const page *p, const metric_list *e)
{
    fprintf(f, "{\"step\": %lld, \"time\": %.6f", (long long)p->step, p->time);
    for (int i = 0; i < e->count; i++) {
        fputs(", ", f);
        put_string(f, e->at[i].name);
        fputs(": ", f);
        put_number(f, e->at[i].value);
    }
    fputs("}\n", f);
    return fflush(f) == 0 && !ferror(f);
}

static bool write_events(FILE *f, const page *p, const metric_list *e)
{
    const char **names = malloc(((size_t)e->count + 1) * sizeof *names);
    double *values = malloc(((size_t)e->count + 1) * sizeof *values);
    bool whole = names && values;
    for (int i = 0; whole && i < e->count; i++) {
        names[i] = e->at[i].name;
        values[i] = e->at[i].value;
    }
    whole = whole && mf_event_write(f, p->time, p->step, names, values, e->count) && fflush(f) == 0;
    free(names);
    free(values);
    return whole;
}

static void write_page(mf_logbook *b, const page *p)
{
    MF_SCOPE;
    metric_list e = { 0 };
    locale_t before = uselocale(b->numbers);
    collect(&e, "", p->metrics);
    if (e.error.handle)
        note(b, e.error);
    if (b->lines && e.count && !write_line(b->lines, p, &e))
        note_failed(b, "metrics.jsonl");
    if (b->events && e.count && !write_events(b->events, p, &e))
        note_failed(b, "events.out.tfevents");
    bool whole = true;
    for (int i = 0; i < e.count; i++)
        whole = mf_series_add(&b->series, e.at[i].name, (double)p->step, e.at[i].value) && whole;
    if (!whole)
        note(b, out_of_memory());
    forget(&e);
    (void)uselocale(before);
}

/* Reads the lines of earlier runs. Ends an incomplete last line, left by a killed process, so that the next line does not continue it. */
static void read_lines(mf_logbook *b)
{
    char path[PATH];
    FILE *f = b->lines && path_in(b, "metrics.jsonl", path) ? fopen(path, "re") : NULL;
    if (!f)
        return;
    locale_t before = uselocale(b->numbers);
    if (!mf_series_read(&b->series, f))
        note(b, out_of_memory());
    if (fseek(f, -1, SEEK_END) == 0 && getc(f) != '\n')
        (void)putc('\n', b->lines);
    (void)uselocale(before);
    (void)fclose(f);
}

/* ------------------------------------------------------------------ the thread */

static void *work(void *context)
{
    mf_logbook *b = context;
    read_lines(b);
    (void)pthread_mutex_lock(&b->lock);
    b->busy = false;
    (void)pthread_cond_broadcast(&b->changed);
    for (;;) {
        while (!b->first && !b->stop)
            (void)pthread_cond_wait(&b->changed, &b->lock);
        page *p = b->first;
        if (!p)
            break;
        b->first = p->next;
        b->last = b->first ? b->last : &b->first;
        b->busy = true;
        (void)pthread_mutex_unlock(&b->lock);
        write_page(b, p);
        mf_release(p->metrics);
        free(p);
        (void)pthread_mutex_lock(&b->lock);
        b->busy = false;
        (void)pthread_cond_broadcast(&b->changed);
    }
    (void)pthread_mutex_unlock(&b->lock);
    return NULL;
}

static void drain(mf_logbook *b)
{
    (void)pthread_mutex_lock(&b->lock);
    while (b->first || b->busy)
        (void)pthread_cond_wait(&b->changed, &b->lock);
    (void)pthread_mutex_unlock(&b->lock);
}

/* All signals are blocked in the thread: they are for the program's own threads. */
static bool start_thread(mf_logbook *b)
{
    sigset_t all, before;
    sigfillset(&all);
    (void)pthread_sigmask(SIG_BLOCK, &all, &before);
    bool started = pthread_create(&b->thread, NULL, work, b) == 0;
    (void)pthread_sigmask(SIG_SETMASK, &before, NULL);
    return started;
}

/* ------------------------------------------------------------------ opening */

/* A logbook that was opened in the same second has the same file name; the number at the end makes it unique. */
static FILE *open_events(const mf_logbook *b, double time)
{
    char name[256], host[64] = "localhost", path[PATH];
    (void)gethostname(host, sizeof host - 1);
    for (int number = 0; number < 1000; number++) {
        snprintf(name, sizeof name, "events.out.tfevents.%lld.%s.%d.%d", (long long)time, host, (int)getpid(), number);
        FILE *f = path_in(b, name, path) ? fopen(path, "wxe") : NULL;
        if (f && mf_event_begin(f, time) && fflush(f) == 0)
            return f;
        if (f)
            (void)fclose(f);
        if (f || errno != EEXIST)
            return NULL;
    }
    return NULL;
}

static void open_files(mf_logbook *b)
{
    char path[PATH];
    struct stat s;
    if (mkdir(b->folder, 0777) != 0 && !(errno == EEXIST && stat(b->folder, &s) == 0 && S_ISDIR(s.st_mode))) {
        errno = errno == EEXIST ? ENOTDIR : errno;
        note(b, mf_make_error(MF_ERROR_IO, "%s: cannot be made: %s", b->folder, strerror(errno)));
        return;
    }
    if (!b->options.no_jsonl && !(b->lines = path_in(b, "metrics.jsonl", path) ? fopen(path, "ae") : NULL))
        note_failed(b, "metrics.jsonl");
    if (!b->options.no_tensorboard && !(b->events = open_events(b, now())))
        note_failed(b, "events.out.tfevents");
}

mf_logbook *mf_logbook_open_opt(const char *folder, const mf_logbook_options *o)
{
    MF_LAYER;
    MF_SCOPE;
    mf_logbook *b = calloc(1, sizeof *b);
    char *copy = b ? strdup(folder ? folder : "") : NULL; /* which cannot be made, and says so */
    if (!copy) {
        free(b);
        return &no_logbook;
    }
    if (o)
        b->options = *o;
    b->folder = copy;
    b->last = &b->first;
    (void)pthread_mutex_init(&b->lock, NULL);
    (void)pthread_cond_init(&b->changed, NULL);
    if (is_forked())
        return b;
    b->numbers = newlocale(LC_ALL_MASK, "C", (locale_t)0);
    open_files(b);
    b->busy = true; /* until the thread has read the existing lines */
    b->threaded = start_thread(b);
    if (!b->threaded) {
        b->busy = false;
        read_lines(b);
    }
    return b;
}

/* ------------------------------------------------------------------ the calls */

mf_status(mf_logbook_write)(mf_logbook *b, int64_t step, mf_value metrics)
{
    MF_LAYER;
    MF_SCOPE;
    if (is_forked())
        return mf_block_until_ready(mf_none());
    page *p = b == &no_logbook ? NULL : malloc(sizeof *p);
    if (!p)
        return mf_block_until_ready(out_of_memory());
    *p = (page){ .step = step, .time = now(), .metrics = mf_keep(metrics) };
    if (!b->threaded) {
        write_page(b, p);
        mf_release(p->metrics);
        free(p);
        return take_error(b);
    }
    (void)pthread_mutex_lock(&b->lock);
    *b->last = p;
    b->last = &p->next;
    (void)pthread_cond_broadcast(&b->changed);
    (void)pthread_mutex_unlock(&b->lock);
    return take_error(b);
}

static void put_row(FILE *f, int wide, const mf_series *s)
{
    int64_t least = 0, greatest = 0;
    for (int64_t i = 1; i < s->count; i++) {
        least = s->values[i] < s->values[least] || isnan(s->values[least]) ? i : least;
        greatest = s->values[i] > s->values[greatest] || isnan(s->values[greatest]) ? i : greatest;
    }
    fprintf(f, "%-*s  %10.6g  %10.6g  %10.6g  %9.0f  %10.6g  %9.0f\n", wide, s->name, s->values[0], s->values[s->count - 1],
            s->values[least], s->steps[least], s->values[greatest], s->steps[greatest]);
}

const char *mf_logbook_table(mf_logbook *b)
{
    MF_LAYER;
    size_t size;
    if (is_forked())
        return NULL;
    if (b == &no_logbook)
        return "";
    drain(b);
    free(b->table);
    b->table = NULL;
    FILE *f = open_memstream(&b->table, &size);
    if (!f)
        return "";
    locale_t before = uselocale(b->numbers);
    const mf_series *series = b->series.at;
    int wide = (int)strlen("Metric");
    for (int i = 0; i < b->series.count; i++)
        wide = (int)strlen(series[i].name) > wide ? (int)strlen(series[i].name) : wide;
    fprintf(f, "%-*s  %10s  %10s  %10s  %9s  %10s  %9s\n", wide, "Metric", "First", "Last", "Least", "at step", "Greatest", "at step");
    for (int i = 0; i < b->series.count; i++)
        if (series[i].count)
            put_row(f, wide, &series[i]);
    (void)uselocale(before);
    return fclose(f) == 0 && b->table ? b->table : "";
}

/* Writes a temporary file and renames it, so that curves.svg is always complete. */
static void write_svg(mf_logbook *b, const char *text, size_t size)
{
    char path[PATH], beside[PATH];
    FILE *f = path_in(b, "curves.svg", path) && path_in(b, "curves.svg.tmp", beside) ? fopen(beside, "we") : NULL;
    bool whole = f && fwrite(text, 1, size, f) == size;
    whole = f && fclose(f) == 0 && whole && rename(beside, path) == 0;
    if (!whole)
        note_failed(b, "curves.svg");
}

static void draw(mf_logbook *b)
{
    char *text = NULL, path[PATH];
    size_t size = 0;
    locale_t before = uselocale(b->numbers);
    FILE *svg = open_memstream(&text, &size);
    mf_value image = svg ? mf_curves_draw(b->series.at, b->series.count, svg) : out_of_memory();
    if (svg && fclose(svg) != 0)
        image = out_of_memory();
    (void)uselocale(before);
    if (mf_is_error(image)) {
        note(b, image);
    } else {
        write_svg(b, text, size);
        if (!path_in(b, "curves.png", path) || mf_save_png(path, image) != MF_OK)
            note_failed(b, "curves.png");
    }
    free(text);
}

static void end(mf_logbook *b)
{
    mf_series_end(&b->series);
    (void)pthread_mutex_destroy(&b->lock);
    (void)pthread_cond_destroy(&b->changed);
    free(b->table);
    free(b->folder);
    if (b->numbers)
        freelocale(b->numbers);
    free(b);
}

mf_status mf_logbook_close(mf_logbook *b)
{
    MF_LAYER;
    MF_SCOPE;
    if (!b || b == &no_logbook || is_forked())
        return b && is_forked() ? mf_block_until_ready(mf_none()) : MF_OK;
    (void)pthread_mutex_lock(&b->lock);
    b->stop = true;
    (void)pthread_cond_broadcast(&b->changed);
    (void)pthread_mutex_unlock(&b->lock);
    if (b->threaded)
        (void)pthread_join(b->thread, NULL);
    if (b->lines && fclose(b->lines) != 0)
        note_failed(b, "metrics.jsonl");
    if (b->events && fclose(b->events) != 0)
        note_failed(b, "events.out.tfevents");
    if (!b->options.no_curves && b->series.count)
        draw(b);
    mf_status status = take_error(b);
    end(b);
    return status;
}
