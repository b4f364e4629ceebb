/* The table of handles: slots in chunks that never move, found by index, guarded by generation. Every thread keeps some free slots of its
 * own, so making and ending handles takes no lock. Invariant: a slot's generation is odd exactly while a handle names it, and changes
 * whenever that begins or ends. */
#include "base/handle.h"

#include "base/alloc.h"

#include <pthread.h>

#define CHUNK_BITS  12
#define CHUNK_SLOTS (1u << CHUNK_BITS)
#define CHUNKS      (1u << 16)
#define MOST_SLOTS  (CHUNKS << CHUNK_BITS)
#define BATCH       64   /* slots that a thread takes at once */
#define KEEP_FREE   1024 /* more than so many and half go back */
#define ENDED       128  /* a power of two */

enum { SLOT_MEMORY = 1, SLOT_FORK = 2, SLOTS_RESERVED = 3 };

static mf_slot first_chunk[CHUNK_SLOTS] = {
    [SLOT_MEMORY] = { .generation = 1, .object = &mf_error_memory_object.object },
    [SLOT_FORK] = { .generation = 1, .object = &mf_error_fork_object.object },
};
static _Atomic(mf_slot *) chunks[CHUNKS] = { first_chunk };
static uint32_t made = SLOTS_RESERVED; /* guarded by lock, as is the list of free slots */
static uint32_t shared_free, shared_count;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

static _Thread_local uint32_t my_free, my_count;
static _Thread_local mf_error_object *my_stale; /* the error that the last stale handle gave */
/* The handles that this thread ended last, and where: their slots are the first to be used again. */
static _Thread_local struct ended {
    uint64_t handle;
    const void *where;
} my_ended[ENDED];
static _Thread_local uint32_t my_ended_count;

#define HANDLE(generation, index) ((uint64_t)(generation) << 32 | (index))
static const uint64_t memory_handle = HANDLE(1, SLOT_MEMORY), fork_handle = HANDLE(1, SLOT_FORK);

mf_slot *mf_slot_at(uint32_t index)
{
    return &atomic_load_explicit(&chunks[index >> CHUNK_BITS], memory_order_acquire)[index & (CHUNK_SLOTS - 1)];
}

mf_slot *mf_slot_of(uint64_t handle, uint32_t *index)
{
    uint32_t i = (uint32_t)handle, generation = (uint32_t)(handle >> 32);
    if (i >= MOST_SLOTS || !(generation & 1))
        return NULL;
    mf_slot *chunk = atomic_load_explicit(&chunks[i >> CHUNK_BITS], memory_order_acquire);
    mf_slot *slot = chunk ? &chunk[i & (CHUNK_SLOTS - 1)] : NULL;
    if (!slot || atomic_load_explicit(&slot->generation, memory_order_acquire) != generation)
        return NULL;
    *index = i;
    return slot;
}

/* ---- free slots */

static bool make_chunk(uint32_t which)
{
    if (which >= CHUNKS)
        return false;
    if (atomic_load(&chunks[which]))
        return true;
    mf_slot *chunk = mf_calloc(CHUNK_SLOTS, sizeof *chunk);
    if (chunk)
        atomic_store_explicit(&chunks[which], chunk, memory_order_release);
    return chunk != NULL;
}

static void put_mine(uint32_t index, mf_slot *slot)
{
    slot->after = my_free;
    my_free = index;
    my_count++;
}

static bool fetch_batch(void)
{
    pthread_mutex_lock(&lock);
    for (int n = 0; n < BATCH; n++) {
        uint32_t index = shared_free;
        if (index) {
            shared_free = mf_slot_at(index)->after;
            shared_count--;
        } else if (make_chunk(made >> CHUNK_BITS)) {
            index = made++;
        } else {
            break;
        }
        put_mine(index, mf_slot_at(index));
    }
    pthread_mutex_unlock(&lock);
    return my_free != 0;
}

static void give_back(uint32_t keep)
{
    pthread_mutex_lock(&lock);
    while (my_count > keep) {
        uint32_t index = my_free;
        mf_slot *slot = mf_slot_at(index);
        my_free = slot->after;
        my_count--;
        slot->after = shared_free;
        shared_free = index;
        shared_count++;
    }
    pthread_mutex_unlock(&lock);
}

void mf_handles_leave_thread(void)
{
    mf_error_object *stale = my_stale;
    my_stale = NULL;
    mf_drop(stale);
    give_back(0);
}

int64_t mf_handle_live_count(void)
{
    int64_t live = 0;
    pthread_mutex_lock(&lock);
    for (uint32_t i = SLOTS_RESERVED; i < made; i++)
        live += atomic_load_explicit(&mf_slot_at(i)->generation, memory_order_relaxed) & 1;
    pthread_mutex_unlock(&lock);
    return live;
}

/* ---- making and ending */

static uint64_t name(void *object, mf_scope *scope)
{
    if (atomic_load_explicit(&mf_process_forked, memory_order_relaxed)) /* what it holds belongs to the parent */
        return fork_handle;
    if (!object || object == &mf_error_memory_object)
        return memory_handle;
    if (!my_free && !fetch_batch()) {
        mf_drop(object);
        return memory_handle;
    }
    uint32_t index = my_free;
    mf_slot *slot = mf_slot_at(index);
    my_free = slot->after;
    my_count--;
    atomic_store_explicit(&slot->object, object, memory_order_relaxed);
    slot->scope = NULL;
    slot->closed = NULL;
    if (scope)
        mf_scope_take(scope, index, slot);
    uint32_t generation = atomic_load_explicit(&slot->generation, memory_order_relaxed) + 1;
    atomic_store_explicit(&slot->generation, generation, memory_order_release);
    return HANDLE(generation, index);
}

uint64_t mf_handle_new(void *object)
{
    if (object && object == (void *)my_stale)
        atomic_store(&my_stale->observed, false);
    return name(object, mf_scope_innermost());
}

uint64_t mf_handle_new_kept(void *object)
{
    (void)mf_scope_innermost(); /* sees to it that this thread's end is noticed */
    return name(object, NULL);
}

void mf_slot_end(uint32_t index, mf_slot *slot, const void *where)
{
    mf_object *object = atomic_load_explicit(&slot->object, memory_order_relaxed);
    slot->closed = where;
    atomic_store_explicit(&slot->object, NULL, memory_order_relaxed);
    uint32_t generation = atomic_fetch_add_explicit(&slot->generation, 1, memory_order_release);
    my_ended[my_ended_count++ % ENDED] = (struct ended){ HANDLE(generation, index), where };
    put_mine(index, slot);
    if (my_count > KEEP_FREE)
        give_back(KEEP_FREE / 2);
    mf_drop(object); /* last: what it runs may use the table */
}

static bool is_reserved(uint32_t index) { return index < SLOTS_RESERVED; }

void mf_handle_end(uint64_t handle)
{
    uint32_t index;
    mf_slot *slot = mf_slot_of(handle, &index);
    if (!slot || is_reserved(index) || !mf_scope_is_mine(slot->scope))
        return;
    (void)mf_scope_innermost();
    mf_scope_lose(index, slot);
    mf_slot_end(index, slot, mf_entry_address);
}

/* ---- reading */

/* Where the handle's scope was closed, as long as its slot has not been used again or this thread ended it lately. */
static const void *closed_at(uint64_t handle)
{
    uint32_t index = (uint32_t)handle, ended = (uint32_t)(handle >> 32) + 1;
    for (int i = 0; i < ENDED; i++)
        if (my_ended[i].handle == handle)
            return my_ended[i].where;
    if (index >= MOST_SLOTS || !atomic_load(&chunks[index >> CHUNK_BITS]))
        return NULL;
    const mf_slot *slot = mf_slot_at(index);
    return atomic_load_explicit(&slot->generation, memory_order_acquire) == ended ? slot->closed : NULL;
}

static mf_object *stale(uint64_t handle)
{
    mf_error_object *e = mf_error_new(MF_ERROR_SCOPE, "a value was used after the scope that owned it had been closed; hand it out with "
                                                      "mf_escape, store it with mf_assign, or keep it with mf_keep");
    if (e != &mf_error_memory_object)
        e->related = closed_at(handle);
    atomic_store(&e->observed, true); /* a mere look; whoever makes it a value of its own owes a look at it again: mf_handle_new */
    mf_error_object *before = my_stale;
    my_stale = e;
    (void)mf_scope_innermost();
    mf_drop(before);
    return &e->object;
}

mf_object *mf_handle_get(uint64_t handle)
{
    if (!handle)
        return NULL;
    if (atomic_load_explicit(&mf_process_forked, memory_order_relaxed))
        return &mf_error_fork_object.object;
    uint32_t index;
    mf_slot *slot = mf_slot_of(handle, &index);
    mf_object *o = slot ? atomic_load_explicit(&slot->object, memory_order_relaxed) : NULL;
    return o ? o : stale(handle);
}

mf_object *mf_handle_get_as(uint64_t handle, const mf_class *kind)
{
    uint32_t index;
    mf_slot *slot = mf_slot_of(handle, &index);
    mf_object *o = slot ? atomic_load_explicit(&slot->object, memory_order_relaxed) : NULL;
    return mf_object_is(o, kind) ? o : NULL;
}
