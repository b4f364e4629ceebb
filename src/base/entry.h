/* Entering the library: what every public function does first. MF_ENTER refuses to run in the child of a fork and records where the user
 * called, for the errors and equations made inside. Invariant: the address of the outermost public function counts, so a public function
 * that is written on others reports its own caller. */
#ifndef MF_BASE_ENTRY_H
#define MF_BASE_ENTRY_H

#include "base/error.h"

/* ---- forks */
/* The child of a fork has none of the library's threads, and locks that the parent's other threads held are never released. So in the child
 * every public function fails before it does anything: MF_PARENT_ONLY(result) returns the result that says so. For results that are
 * handles, statuses and texts there are names below. A process that forks before its first call may use the library in the child. */
enum { MF_PROCESS_FRESH, MF_PROCESS_USED, MF_PROCESS_FORKED };
extern _Atomic unsigned char mf_process;
bool mf_process_begin(void); /* called while mf_process is not MF_PROCESS_USED; false in the child of a fork */
static inline bool mf_process_forked(void) { return atomic_load_explicit(&mf_process, memory_order_relaxed) == MF_PROCESS_FORKED; }
#define MF_PARENT_ONLY(...)                                                                                                     \
    if (__builtin_expect(atomic_load_explicit(&mf_process, memory_order_relaxed) != MF_PROCESS_USED, 0) && !mf_process_begin()) \
    return __VA_ARGS__
#define MF_FORK_HANDLE UINT64_C(0x100000002) /* a reserved slot of base/handles/handle.c; never ends */
#define MF_FORKED      ((mf_value){ MF_FORK_HANDLE })
#define MF_FORK_STATUS MF_ERROR_ARGUMENT
#define MF_FORK_WORDS  mf_error_fork_object.message

/* ---- where the user called us */
/* The user's return address for the public entry point that is running. MF_ENTER(as MF_PARENT_ONLY) at the top of a public function
 * records it (outermost wins, so a wrapper built on other public functions reports its own caller); errors made inside pick it up. */
extern _Thread_local const void *mf_entry_address;
/* The number of other threads' handles that this thread has pinned (base/handles/handle.c). Those that a public function pins are unpinned
 * when it returns. */
extern _Thread_local uint32_t mf_pinned;
void mf_unpin_to(uint32_t count);
typedef struct mf_entry {
    const void *address;
    uint32_t pinned;
} mf_entry;
static inline void mf_entry_leave_(const mf_entry *before)
{
    mf_entry_address = before->address;
    if (mf_pinned != before->pinned)
        mf_unpin_to(before->pinned);
}
#define MF_ENTER(...)                                                                                                    \
    MF_PARENT_ONLY(__VA_ARGS__);                                                                                         \
    const mf_entry mf_entry_before_ __attribute__((cleanup(mf_entry_leave_), unused)) = { mf_entry_address, mf_pinned }; \
    if (!mf_entry_address)                                                                                               \
    mf_entry_address = __builtin_return_address(0)
/* The user's location: mf_entry_address, or a frame further out if that address lies in the library itself. Slow. NULL when there is
 * none. */
const void *mf_entry_location(void);
/* The functions that the library is calling, innermost first. An operation in a user's function has a location of its own; one in a
 * function of the library has the location of the call that led to it. */
typedef struct mf_callee mf_callee;
struct mf_callee {
    const void *back, *function, *entry;
    mf_callee *outer;
    mf_layer layer;
    int cancel; /* base/thread/cancel.h */
};
void mf_callee_begin(mf_callee *c, void (*function)(void), const void *back); /* back: the return address of the function that calls it */
void mf_callee_end(mf_callee *c);
bool mf_is_own_function(const void *function); /* whether it is the library's own code */

#endif
