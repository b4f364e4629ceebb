/* The profiler's internal interface: code that does something worth a slice notes when it began, and records it at the end.
 *     int64_t start = mf_profile_begin();  ...  if (start) mf_profile_...(start, ...);
 * Invariant: while no session is under way, this costs one relaxed load; a slice's label is immortal, so it outlives what it describes. */
#ifndef MF_RUNTIME_PROFILE_PROFILER_H
#define MF_RUNTIME_PROFILE_PROFILER_H

#include "ir/op.h"

typedef enum mf_track_kind { MF_TRACK_HOST, MF_TRACK_COMPILER, MF_TRACK_COLLECTIVES, MF_TRACK_ONCE, MF_TRACK_DEVICE } mf_track_kind;

#define MF_PROFILE_LOCATIONS 8

typedef struct mf_profile_label {                /* interned: padding is zero */
    const char *name;                            /* interned */
    const void *locations[MF_PROFILE_LOCATIONS]; /* return addresses, NULL after the last */
} mf_profile_label;

/* The equations of a slice; its label is made when it is first recorded. */
typedef struct mf_profile_source {
    const mf_eqn *const *eqns;
    int count;
    _Atomic(const mf_profile_label *) label;
} mf_profile_source;

typedef struct mf_profile_slice {
    int64_t start, end; /* nanoseconds */
    const mf_profile_label *label;
    int64_t bytes; /* that a collective took from each device; 0: none to report */
    int track, index;
} mf_profile_slice;

extern _Atomic bool mf_profile_on;
int64_t mf_profile_now(void);
int64_t mf_profile_now_coarse(void); /* the same clock, up to 10 ms behind, at a fraction of the cost */
static inline int64_t mf_profile_begin(void)
{
    return __builtin_expect(atomic_load_explicit(&mf_profile_on, memory_order_relaxed), 0) ? mf_profile_now() : 0;
}
/* The following functions end the slice now. index: the device; ignored on other tracks. */
void mf_profile_equations(int64_t start, mf_track_kind track, int index, mf_profile_source *source, int64_t bytes);
/* The same for equations that many lines share: the location is that of the run, if known. */
void mf_profile_equations_of(int64_t start, mf_track_kind track, int index, mf_profile_source *source, int64_t bytes, const void *location);
/* On the calling thread's track of this kind: the words, joined; the location is that of the current public call. */
void mf_profile_words(int64_t start, mf_track_kind track, const char *verb, const char *object);
/* On a device's track, from any thread. The name is interned; location: of the call, or NULL. */
void mf_profile_device(int64_t start, int index, const char *name, const void *location);

/* ---- between profiler.c and profiler_write.c */
/* Writes slices, which it reorders, and closes the file; false on failure. dropped: number of slices that found no room. */
bool mf_profile_write(void *file, mf_profile_slice *slices, int64_t count, int64_t begin, int64_t dropped);

#endif
