/* The second tier: machine code for steps that prove hot. A step runs by tile kernels at once; a loop that LLVM has compiled from a text
 * replaces them, which gives the same bits. What is above the line "texts" is for steps, what is below for those that make the code. */
#ifndef MF_BACKEND_NATIVE_LLVM_TIER_UP_H
#define MF_BACKEND_NATIVE_LLVM_TIER_UP_H

#include "backend/native/fusion/loop_step.h"
#include "backend/native/fusion/rows/row_fusion.h"

/* A compiled loop nest: iterations [from, to) of mf_loop_rows, see llvm/emit/emit_loop.c. in, out: pointers by slot. */
typedef void mf_loop_fn(void *const *in, void *const *out, int64_t from, int64_t to);
int64_t mf_loop_rows(const mf_group_plan *plan);

/* ---- two tiers (tier_up.c) */

typedef struct mf_loop_text mf_loop_text;
typedef struct mf_cached_loop mf_cached_loop;
typedef bool mf_loop_writer(const void *what, mf_loop_text *t); /* false: memory is out, or there is no text */

typedef enum mf_tiers {
    MF_TIERS_AS_ASKED,   /* MF_COMPILE_TIER; in the background when it says nothing */
    MF_TIERS_BACKGROUND, /* the second, made by a thread of its own, once the first has been at work for a while */
    MF_TIERS_FIRST,      /* tile kernels only */
    MF_TIERS_SECOND,     /* loops at once, where they pay */
    MF_TIERS_LOOPS,      /* loops at once, wherever there is a text, however small */
} mf_tiers;
extern _Atomic mf_tiers mf_native_tiers; /* for tests: what compilations from now on do */

typedef struct mf_tier_up {     /* a step's; immutable but for the atomics and the queue's part */
    _Atomic(mf_loop_fn *) loop; /* NULL: the first tier */
    mf_cached_loop *cached;     /* that it is of; guarded by the queue's lock once the step runs */
    _Atomic int64_t spent;      /* nanoseconds in the first tier, estimated */
    int64_t each;               /* of a run; 0: there is no second tier to come */
    mf_loop_writer *write;
    const void *what;
    struct mf_tier_up *next; /* waiting, as the queue's lock allows */
} mf_tier_up;
typedef struct mf_tier_up_hints {
    double cost; /* nanoseconds of a run in the first tier */
    bool pays;   /* the loop is worth its compilation if the program runs long */
    bool soon;   /* even if it runs a few times only */
    bool large;  /* its text takes milliseconds to write: whether it is known already is asked once it is hot */
} mf_tier_up_hints;
bool mf_tier_up_wanted(mf_tier_up_hints hints); /* the mode asks for a second tier, now or later */
/* Does what the mode asks for. False: there is and will be no second tier. `what` lives as long as the step, with whose kernel it ends. */
bool mf_tier_up_begin(mf_build *b, mf_tier_up *t, mf_loop_writer *write, const void *what, mf_tier_up_hints hints);
void mf_tier_up_ask(mf_tier_up *t);
void mf_tier_up_drain(void); /* waits until nothing is waiting to be compiled; for tests */
enum { MF_TIER_UP_AFTER = 2000000 };
/* A run of `part` of `whole` in the first tier begins. One of all crosses the line. */
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

/* The text of a loop nest, whose function is called mf_loop. */
struct mf_loop_text {
    mf_text text;
    uint64_t hash;
};
bool mf_llvm_can(const mf_group *g); /* there is a text */
bool mf_llvm_can_rows(const mf_rows_plan *plan);
bool mf_llvm_can_sum(const mf_form *f); /* of a product or fold, within a loop */
bool mf_loop_write(const mf_group_plan *plan, mf_loop_text *t);
bool mf_loop_write_rows(const mf_rows_plan *plan, mf_loop_text *t);   /* the loop's `in` are the values, `out` the buffers */
bool mf_loop_write_repeat(const mf_loop_plan *plan, mf_loop_text *t); /* runs the rounds [from, to) of a scan */
void mf_loop_text_free(mf_loop_text *t);
/* Loops that were compiled, by their texts. Who gets one releases it; up to mf_loop_cache_most are kept that nobody uses. */
struct mf_cached_loop {
    mf_loop_fn *run; /* NULL: LLVM cannot compile it */
    uint64_t hash;
    char *text;
    void *code;   /* llvm.c's */
    int64_t last; /* when it was got last, in gets */
    int users;    /* guarded by the table's lock, as `last` is */
};
mf_cached_loop *mf_loop_make(const mf_loop_text *t);                    /* compiled now unless it is known; NULL: memory is out */
mf_cached_loop *mf_loop_known(mf_loop_writer *write, const void *what); /* compiled before, or NULL; waits for no compilation */
void mf_loop_release(mf_cached_loop *l);                                /* NULL: nothing */
int mf_loop_cache_count(void);
extern _Atomic int mf_loop_cache_most; /* for tests */

#endif
