/* The table of handles: slots in chunks that never move, found by index, guarded by a generation. Every thread keeps some free slots, so
 * making and ending handles takes no lock. Invariant: a slot's generation is odd exactly while a handle names it, and changes whenever a
 * handle begins or ends; a slot whose generations are used up is retired.
 * A handle that another thread may end is pinned while it is read. The reader increments the pin count and then checks the generation; the
 * thread that ends the handle changes the generation and then checks the count. So at least one of them sees the other: either the reader
 * finds the handle stale, or the last reader releases the object. */
#include "base/handles/handle.h"

#include "base/memory/alloc.h"

#include <inttypes.h>
#include <pthread.h>
#include <string.h>

#define CHUNK_BITS  12
#define CHUNK_SLOTS (1u << CHUNK_BITS)
#define CHUNKS      (1u << 16)
#define MOST_SLOTS  (CHUNKS << CHUNK_BITS)
#define BATCH       64   /* slots that a thread takes from the shared list at once */
#define KEEP_FREE   1024 /* with more free slots than this, a thread returns half */
#define ENDED       128  /* length of the ring my_ended; a power of two */
#define LATEST      4    /* pins searched first: a function looks each operand up several times */

enum { SLOT_MEMORY = 1, SLOT_FORK = 2, SLOTS_RESERVED = 3 };

static mf_slot first_chunk[CHUNK_SLOTS] = {
    [SLOT_MEMORY] = { .generation = 1, .object = &mf_error_memory_object.object },
    [SLOT_FORK] = { .generation = 1, .object = &mf_error_fork_object.object },
};
static _Atomic(mf_slot *) chunks[CHUNKS] = { first_chunk };
static uint32_t made = SLOTS_RESERVED; /* number of slots handed out so far; guarded by lock, like the shared free list */
static uint32_t shared_free, shared_count;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

static _Thread_local uint32_t my_free, my_count;
static _Thread_local mf_error_object *my_stale; /* the error that this thread's last stale handle gave */
/* The handles that this thread ended last, and where. Their slots are the first to be reused, so the slots no longer say where. */
static _Thread_local struct ended {
    uint64_t handle;
    const void *where;
} * my_ended; /* a ring of ENDED entries; NULL: none yet, or no memory for it */
static _Thread_local uint32_t my_ended_count;
/* The handles that this thread has pinned, the latest last; mf_pinned is their number. */
static _Thread_local uint64_t few_pins[8], *my_pins;
static _Thread_local uint32_t my_pins_capacity;
_Thread_local uint32_t mf_pinned;

#define HANDLE(generation, index) ((uint64_t)(generation) << 32 | (index))
static const uint64_t memory_handle = HANDLE(1, SLOT_MEMORY);
_Static_assert(MF_FORK_HANDLE == HANDLE(1, SLOT_FORK), "the child of a fork has the reserved handle");

mf_slot *mf_slot_at(uint32_t index)
{
    return &atomic_load_explicit(&chunks[index >> CHUNK_BITS], memory_order_acquire)[index & (CHUNK_SLOTS - 1)];
}

static inline mf_slot *slot_of(uint64_t handle)
{
    uint32_t i = (uint32_t)handle, generation = (uint32_t)(handle >> 32);
    if (i >= MOST_SLOTS || !(generation & 1))
        return NULL;
    mf_slot *chunk = atomic_load_explicit(&chunks[i >> CHUNK_BITS], memory_order_acquire);
    mf_slot *slot = chunk ? &chunk[i & (CHUNK_SLOTS - 1)] : NULL;
    return slot && atomic_load_explicit(&slot->generation, memory_order_acquire) == generation ? slot : NULL;
}

mf_slot *mf_slot_of(uint64_t handle, uint32_t *index)
{
    mf_slot *slot = slot_of(handle);
    if (slot)
        *index = (uint32_t)handle;
    return slot;
}

bool mf_handle_ended(uint64_t handle)
{
    uint32_t i = (uint32_t)handle, generation = (uint32_t)(handle >> 32);
    mf_slot *chunk = i < MOST_SLOTS && (generation & 1) ? atomic_load_explicit(&chunks[i >> CHUNK_BITS], memory_order_acquire) : NULL;
    uint32_t now = chunk ? atomic_load_explicit(&chunk[i & (CHUNK_SLOTS - 1)].generation, memory_order_acquire) : generation;
    return (int32_t)(now - generation) > 0;
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
    mf_unpin_to(0);
    mf_free(my_pins);
    my_pins = NULL;
    my_pins_capacity = 0;
    mf_free(my_ended);
    my_ended = NULL;
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
    if (!object || object == &mf_error_memory_object)
        return memory_handle;
    if (object == (void *)my_stale)
        mf_error_owe(my_stale);
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
    atomic_store_explicit(&slot->thread, NULL, memory_order_relaxed);
    atomic_store_explicit(&slot->closed, NULL, memory_order_relaxed);
    if (scope)
        mf_scope_take(scope, index, slot);
    uint32_t generation = atomic_load_explicit(&slot->generation, memory_order_relaxed) + 1;
    atomic_store_explicit(&slot->named, generation, memory_order_relaxed);
    atomic_store_explicit(&slot->generation, generation, memory_order_release);
    return HANDLE(generation, index);
}

uint64_t mf_handle_new(void *object) { return name(object, mf_scope_innermost()); }

uint64_t mf_handle_new_kept(void *object)
{
    (void)mf_scope_innermost(); /* ensures that the thread's end is noticed */
    return name(object, NULL);
}

uint64_t mf_handle_keep_one(_Atomic uint64_t *at, mf_object *o)
{
    uint64_t known = atomic_load(at), made = known ? known : mf_handle_new_kept(mf_retain(o));
    if (known || made == memory_handle)
        return made;
    if (atomic_compare_exchange_strong(at, &known, made))
        return made;
    mf_handle_end(made);
    return known;
}

/* Frees a slot whose object can no longer be reached through it. */
static void free_slot(uint32_t index, mf_slot *slot)
{
    mf_object *object = atomic_exchange_explicit(&slot->object, NULL, memory_order_relaxed);
    if (atomic_load_explicit(&slot->generation, memory_order_relaxed)) /* 0: the generation wrapped around, the slot is retired */
        put_mine(index, slot);
    if (my_count > KEEP_FREE)
        give_back(KEEP_FREE / 2);
    mf_drop(object); /* last, because the destructor may use the table */
}

/* Frees an ended slot unless another thread still pins it. */
static void free_if_last(uint32_t index, mf_slot *slot)
{
    uint32_t last = MF_SLOT_ENDED;
    if (atomic_compare_exchange_strong(&slot->pins, &last, 0))
        free_slot(index, slot);
}

void mf_slot_end(uint32_t index, mf_slot *slot, uint32_t generation, const void *where)
{
    atomic_store_explicit(&slot->closed, where, memory_order_relaxed);
    if (!atomic_compare_exchange_strong(&slot->generation, &generation, generation + 1))
        return;
    (void)mf_scope_innermost(); /* ensures that the slot is handed back when this thread ends */
    if (!my_ended)
        my_ended = mf_calloc(ENDED, sizeof *my_ended);
    if (my_ended)
        my_ended[my_ended_count++ % ENDED] = (struct ended){ HANDLE(generation, index), where };
    if (!atomic_load(&slot->pins)) {
        free_slot(index, slot);
        return;
    }
    atomic_fetch_or(&slot->pins, MF_SLOT_ENDED);
    free_if_last(index, slot);
}

static bool is_reserved(uint32_t index) { return index < SLOTS_RESERVED; }

void mf_handle_end(uint64_t handle)
{
    uint32_t index;
    mf_slot *slot = mf_slot_of(handle, &index);
    if (!slot || is_reserved(index))
        return;
    if (mf_slot_is_mine(slot))
        mf_scope_lose(index, slot);
    else if (!mf_slot_is_kept(slot))
        return;
    mf_slot_end(index, slot, (uint32_t)(handle >> 32), mf_entry_address);
}

uint64_t mf_handle_replace(uint64_t handle, void *object)
{
    uint32_t index;
    mf_slot *slot = mf_slot_of(handle, &index);
    if (!slot || is_reserved(index) || !object || object == &mf_error_memory_object)
        return 0;
    if (object == (void *)my_stale)
        mf_error_owe(my_stale);
    uint32_t generation = (uint32_t)(handle >> 32);
    if (generation > UINT32_MAX - 4 || !atomic_compare_exchange_strong(&slot->generation, &generation, generation + 1))
        return 0;
    if (atomic_load(&slot->pins)) { /* another thread is reading it */
        atomic_store(&slot->generation, generation);
        return 0;
    }
    mf_object *before = atomic_exchange_explicit(&slot->object, object, memory_order_relaxed);
    slot->closed = mf_entry_address;
    atomic_store_explicit(&slot->generation, generation + 2, memory_order_release);
    mf_drop(before);
    return HANDLE(generation + 2, index);
}

/* ---- reading */

/* The slot, if mf_assign has replaced the value that this handle named and the variable still holds a value; else NULL. */
static const mf_slot *assigned(uint64_t handle)
{
    uint32_t index = (uint32_t)handle, generation = (uint32_t)(handle >> 32);
    if (index >= MOST_SLOTS || !(generation & 1) || !atomic_load(&chunks[index >> CHUNK_BITS]))
        return NULL;
    const mf_slot *slot = mf_slot_at(index);
    uint32_t now = atomic_load_explicit(&slot->generation, memory_order_acquire);
    return now & 1 && generation >= atomic_load_explicit(&slot->named, memory_order_relaxed) && generation < now ? slot : NULL;
}

/* Where the handle's scope was closed; known until its slot is reused, and for the last ENDED handles that this thread ended. */
static const void *closed_at(uint64_t handle)
{
    uint32_t index = (uint32_t)handle, ended = (uint32_t)(handle >> 32) + 1;
    for (int i = 0; i < ENDED && my_ended; i++)
        if (my_ended[i].handle == handle)
            return my_ended[i].where;
    if (index >= MOST_SLOTS || !atomic_load(&chunks[index >> CHUNK_BITS]))
        return NULL;
    const mf_slot *slot = mf_slot_at(index);
    return atomic_load_explicit(&slot->generation, memory_order_acquire) == ended
               ? atomic_load_explicit(&slot->closed, memory_order_relaxed)
               : NULL;
}

/* An integer passed as a handle. No handle is below 2^32, since generations of live handles are odd and so at least 1; and a negative
 * 32-bit number names a slot beyond the last one. */
static bool is_number(uint64_t handle)
{
    int64_t n = (int64_t)handle;
    return n >> 32 == 0 || (n < 0 && n >= INT32_MIN && (uint32_t)handle >= MOST_SLOTS);
}

static mf_error_object *no_handle(uint64_t handle)
{
    return mf_error_new(MF_ERROR_ARGUMENT,
                        "the number %" PRId64 " stands where a value is due, as in an option that is one: say mf_f, mf_i or mf_b of it",
                        (int64_t)handle);
}

static mf_error_object *why_stale(uint64_t handle)
{
    if (is_number(handle))
        return no_handle(handle);
    const mf_slot *slot = assigned(handle);
    const void *at = slot ? slot->closed : closed_at(handle);
    bool traced = at == mf_scope_of_trace;
    mf_error_object *e = mf_error_new(MF_ERROR_SCOPE, "%s",
                                      slot ? "a value was used after mf_assign had given its variable another one; a copied handle (b = a) "
                                             "is the same value under two names, and mf_assign(&b, a) makes a second one where b is unset"
                                      : traced
                                          ? "a value that a function made while it was traced was used after its trace had ended: return "
                                            "it from the function, or write it to a state (mf_state_set_value)"
                                          : "a value was used after the scope that owned it had been closed; hand it out with mf_escape, "
                                            "store it with mf_assign, or keep it with mf_keep");
    if (e == &mf_error_memory_object)
        return e;
    if (traced)
        return e;
    e->related = at;
    e->related_by = slot ? "mf_assign did so at" : "its scope was closed at";
    return e;
}

static mf_object *stale(uint64_t handle)
{
    mf_error_object *e = why_stale(handle);
    if (e != &mf_error_memory_object)
        atomic_store(&e->debt, MF_ERROR_NOBODYS); /* owed once it becomes a value or is remembered (mf_error_owe) */
    mf_error_object *before = my_stale;
    my_stale = e;
    (void)mf_scope_innermost();
    mf_drop(before);
    return &e->object;
}

static void unpin(uint32_t index, mf_slot *slot)
{
    if (atomic_fetch_sub(&slot->pins, 1) == MF_SLOT_ENDED + 1)
        free_if_last(index, slot);
}

static uint64_t *pins(void) { return my_pins ? my_pins : few_pins; }

void mf_unpin_to(uint32_t count)
{
    while (mf_pinned > count) {
        uint32_t index = (uint32_t)pins()[--mf_pinned];
        unpin(index, mf_slot_at(index));
    }
}

static bool room_for_pin(void)
{
    const uint32_t few = sizeof few_pins / sizeof *few_pins, capacity = my_pins ? my_pins_capacity : few;
    if (mf_pinned < capacity)
        return true;
    (void)mf_scope_innermost(); /* ensures that the memory is freed when this thread ends */
    uint64_t *more = mf_realloc(my_pins, 2 * (size_t)capacity * sizeof *more);
    if (!more)
        return false;
    if (!my_pins)
        memcpy(more, few_pins, sizeof few_pins);
    my_pins = more;
    my_pins_capacity = 2 * capacity;
    return true;
}

/* Whether the handle is among the last `among` that this thread pinned. If so its object is still alive, whoever ended the handle. */
static bool is_pinned(uint64_t handle, uint32_t among)
{
    const uint64_t *p = pins();
    for (uint32_t i = mf_pinned, end = mf_pinned > among ? mf_pinned - among : 0; i > end; i--)
        if (p[i - 1] == handle)
            return true;
    return false;
}

/* Pins the handle's slot; false when the handle has ended. */
static bool pin(uint64_t handle, uint32_t index, mf_slot *slot)
{
    atomic_fetch_add(&slot->pins, 1);
    if (atomic_load(&slot->generation) != handle >> 32) {
        unpin(index, slot);
        return false;
    }
    pins()[mf_pinned++] = handle;
    return true;
}

/* The object of a handle that is not in one of this thread's scopes: another thread's, a kept one, or stale (slot is NULL). */
static __attribute__((noinline)) mf_object *shared_object(uint64_t handle, mf_slot *slot)
{
    uint32_t index = (uint32_t)handle;
    if (!slot) {
        if (!is_pinned(handle, UINT32_MAX))
            return NULL;
        slot = mf_slot_at(index);
    } else if (!is_reserved(index) && !is_pinned(handle, LATEST)) {
        if (!room_for_pin())
            return &mf_error_memory_object.object;
        if (!pin(handle, index, slot))
            return NULL;
    }
    return atomic_load_explicit(&slot->object, memory_order_relaxed);
}

/* NULL when the handle is stale. Repeated look-ups within one public function give the same object. */
static inline mf_object *object_of(uint64_t handle)
{
    mf_slot *slot = slot_of(handle);
    const void *thread = slot ? atomic_load_explicit(&slot->thread, memory_order_relaxed) : NULL;
    if (thread && thread == mf_this_thread) /* only this thread can end it */
        return atomic_load_explicit(&slot->object, memory_order_relaxed);
    return shared_object(handle, slot);
}

mf_object *mf_handle_get(uint64_t handle)
{
    if (!handle)
        return NULL;
    mf_object *o = object_of(handle);
    return o ? o : stale(handle);
}

mf_object *mf_handle_get_as(uint64_t handle, const mf_class *kind)
{
    mf_object *o = object_of(handle);
    return mf_object_is(o, kind) ? o : NULL;
}
