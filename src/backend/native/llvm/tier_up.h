/* The second tier: machine code for steps that prove hot. A step runs by tile kernels at first; a loop that LLVM compiles from a text
 * replaces them, and gives the same bits. The part above "texts" is for steps, the part below for the code that makes loops. */
#ifndef MF_BACKEND_NATIVE_LLVM_TIER_UP_H
#define MF_BACKEND_NATIVE_LLVM_TIER_UP_H

#include "backend/native/fusion/loop_step.h"
#include "backend/native/fusion/rows/row_fusion.h"

/* A compiled loop nest: runs iterations [from, to) of mf_loop_rows, see llvm/emit/emit_loop.c. in, out: pointers by slot. */
typedef void mf_loop_fn(void *const *in, void *const *out, int64_t from, int64_t to);
int64_t mf_loop_rows(const mf_group_plan *plan);

/* ---- two tiers (tier_up.c) */

typedef struct mf_loop_text mf_loop_text;
typedef struct mf_cached_loop mf_cached_loop;
typedef bool mf_loop_writer(const void *what, mf_loop_text *t); /* false: memory is out, or there is no text */

typedef enum mf_tiers {
    MF_TIERS_AS_ASKED,   /* MF_COMPILE_TIER; MF_TIERS_BACKGROUND if it is not set */
    MF_TIERS_BACKGROUND, /* the second tier is made by a thread of its own, once the first has worked for a while */
    MF_TIERS_FIRST,      /* tile kernels only */
    MF_TIERS_SECOND,     /* loops at once, if they pay */
    MF_TIERS_LOOPS,      /* loops at once, if there is a text, however small */
} mf_tiers;
extern _Atomic mf_tiers mf_native_tiers; /* for tests: the mode of compilations from now on */

typedef struct mf_tier_up {     /* of a step; immutable except for the atomics and the queue's part */
    _Atomic(mf_loop_fn *) loop; /* NULL: the first tier */
    mf_cached_loop *cached;     /* owner of `loop`; guarded by the queue's lock once the step runs */
    _Atomic int64_t spent;      /* estimated nanoseconds in the first tier */
    int64_t each;               /* estimated nanoseconds per run; 0: no second tier will come */
    mf_loop_writer *write;
    const void *what;
    struct mf_tier_up *next; /* in the queue; guarded by its lock */
} mf_tier_up;
typedef struct mf_tier_up_hints {
    double cost; /* nanoseconds of a run in the first tier */
    bool pays;   /* the loop is worth compiling if the program runs long */
    bool soon;   /* even if the program runs a few times only */
    bool large;  /* its text takes milliseconds to write, so it is looked up in the cache only once the step is hot */
} mf_tier_up_hints;
bool mf_tier_up_wanted(mf_tier_up_hints hints); /* whether the mode asks for a second tier, now or later */
/* Does what the mode asks for. False: there is no second tier and will be none. `what` lives as long as the step. The request ends with
 * the step's kernel. */
bool mf_tier_up_begin(mf_build *b, mf_tier_up *t, mf_loop_writer *write, const void *what, mf_tier_up_hints hints);
void mf_tier_up_ask(mf_tier_up *t);
void mf_tier_up_drain(void); /* waits until the queue is empty; for tests */
enum { MF_TIER_UP_AFTER = 2000000 };
/* Counts a run of `part` of `whole` in the first tier. The run that crosses the threshold requests the loop. */
static inline void mf_tier_up_count(mf_tier_up *t, int64_t part, int64_t whole)
{
    if (!t->each || atomic_load_explicit(&t->spent, memory_order_relaxed) >= MF_TIER_UP_AFTER)
        return;
    int64_t took = 1 + (part == whole ? t->each : (int64_t)((double)t->each * (double)part / (double)whole));
    int64_t before = atomic_fetch_add_explicit(&t->spent, took, memory_order_relaxed);
    if (before < MF_TIER_UP_AFTER && before + took >= MF_TIER_UP_AFTER)
        mf_tier_up_ask(t);
}
static inline mf_loop_fn *mf_tier_up_loop(mf_tier_up *t) { return atomic_load_explicit(&t->loop, memory_order_acquire); }
void mf_tier_up_counters(struct mf_compiler_counters *out);

/* ---- texts (loop_cache.c) */

/* The text of a loop nest; its function is named mf_loop. */
struct mf_loop_text {
    mf_text text;
    uint64_t hash;
};
bool mf_llvm_can(const mf_group *g); /* whether there is a text */
bool mf_llvm_can_rows(const mf_rows_plan *plan);
bool mf_llvm_can_sum(const mf_form *f); /* a product or fold within a loop */
bool mf_loop_write(const mf_group_plan *plan, mf_loop_text *t);
bool mf_loop_write_rows(const mf_rows_plan *plan, mf_loop_text *t);   /* the loop's `in` are the values, `out` the buffers */
bool mf_loop_write_repeat(const mf_loop_plan *plan, mf_loop_text *t); /* runs the rounds [from, to) of a scan */
void mf_loop_text_free(mf_loop_text *t);
/* Compiled loops by text. A loop that was got has to be released; up to mf_loop_cache_most unused ones are kept. */
struct mf_cached_loop {
    mf_loop_fn *run; /* NULL: LLVM cannot compile it */
    uint64_t hash;
    char *text;
    void *code;   /* for mf_llvm_free */
    int64_t last; /* number of the last get of it */
    int users;    /* guarded by the table's lock, like `last` */
};
mf_cached_loop *mf_loop_make(const mf_loop_text *t);                    /* compiles it unless it is in the table; NULL: memory is out */
mf_cached_loop *mf_loop_known(mf_loop_writer *write, const void *what); /* compiled before, or NULL; never waits */
void mf_loop_release(mf_cached_loop *l);                                /* l may be NULL */
int mf_loop_cache_count(void);
extern _Atomic int mf_loop_cache_most; /* set by tests */

#endif
