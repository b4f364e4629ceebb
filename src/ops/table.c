/* The table of ops, generated from ops.def, and look-up by name. Invariant: the hash index is built once and never changes; it holds
 * positions in the table, so nothing else lists the names. */
#include "ops/ops.h"
#include <stdatomic.h>
#include <string.h>

static const mf_op *const ops[] = {
#define X(name) &mf_op_##name,
#include "ops/ops.def"
#undef X
};
enum { OPS = sizeof ops / sizeof ops[0], SLOTS = 512 };
_Static_assert(OPS * 2 <= SLOTS, "the hash index is too small");

int mf_op_count(void) { return OPS; }

const mf_op *mf_op_at(int index) { return index >= 0 && index < OPS ? ops[index] : NULL; }

/* Slots hold an op's position plus one. Threads that build the index at the same time write the same values, so no lock is needed. */
static _Atomic short slots[SLOTS];
static _Atomic bool indexed;

static unsigned slot_of(const char *name, size_t length) { return (unsigned)mf_hash(name, length, 0) & (SLOTS - 1); }

static void build_index(void)
{
    short taken[SLOTS] = { 0 };
    for (int i = 0; i < OPS; i++) {
        unsigned s = slot_of(ops[i]->name, strlen(ops[i]->name));
        while (taken[s])
            s = (s + 1) & (SLOTS - 1);
        taken[s] = (short)(i + 1);
    }
    for (int s = 0; s < SLOTS; s++)
        atomic_store_explicit(&slots[s], taken[s], memory_order_relaxed);
    atomic_store_explicit(&indexed, true, memory_order_release);
}

const mf_op *mf_op_find(const char *name, int length)
{
    if (length < 0)
        return NULL;
    if (!atomic_load_explicit(&indexed, memory_order_acquire))
        build_index();
    for (unsigned s = slot_of(name, (size_t)length);; s = (s + 1) & (SLOTS - 1)) {
        short at = atomic_load_explicit(&slots[s], memory_order_relaxed);
        if (!at)
            return NULL;
        const char *found = ops[at - 1]->name;
        if (strncmp(found, name, (size_t)length) == 0 && !found[length])
            return ops[at - 1];
    }
}
