/* Running: a run state is the working memory of one run of an executable. In it fibers step through blocks: one for each device, and one
 * for what a map computes once. A fiber is an explicit interpreter, never a blocked thread: when it has to wait it is suspended, and
 * whatever ends the wait makes it ready again.
 * Invariants: `active` counts the fibers that are ready or being stepped, and the exchanges under way; when it reaches zero the run is
 * over: finished, failed, or the devices disagree. A fiber is touched by one thread at a time: the one that took it from the ready list.
 * The run state's lock guards its lists and counts, the maps' rendezvous and waiters, and the publishing of uniform registers. An inline
 * run is touched by one thread only and takes no lock. */
#ifndef MF_RUNTIME_EXECUTE_RUN_H
#define MF_RUNTIME_EXECUTE_RUN_H

#include "runtime/comm.h"
#include "runtime/executable.h"
#include "runtime/plan/plan.h"

#include <pthread.h>

typedef struct mf_run_state mf_run_state;
typedef struct mf_fiber mf_fiber;
typedef struct mf_map mf_map;
typedef struct mf_frame mf_frame;

#define MF_SMALL 16

/* A value: counted memory, up to 16 bytes in the register itself, or borrowed memory. Empty if data is NULL. A fiber borrows its slices
 * of the map's operands and its places in the map's results, so that the devices do not contend for a reference count. They live until
 * the map ends; its uniform results, which outlive it, get memory of their own (mf_register_own). */
typedef struct mf_register {
    mf_buffer *buffer; /* NULL: data points into small, or is borrowed */
    unsigned char *data;
    const int64_t *strides;      /* NULL: contiguous */
    const mf_sharding *sharding; /* NULL: the executing device */
    _Alignas(16) unsigned char small[MF_SMALL];
} mf_register;

/* Where an output is to be written. data NULL: anywhere. */
typedef struct mf_destination {
    mf_buffer *buffer; /* owner of the memory; NULL: it is borrowed from the map, or is in a small register */
    unsigned char *data;
    bool borrowed;
} mf_destination;

/* A while or scan under way, at the frame whose instruction it is. */
typedef struct mf_loop {
    const mf_instr *instr;
    int64_t iteration, length;
    bool in_condition;
    mf_frame *frames[2]; /* kept between iterations: body, condition */
    int carry_count, stacked_count;
    mf_register *carry; /* the carry, then the scan's stacked results */
} mf_loop;

struct mf_frame {
    const mf_block *block;
    mf_frame *below;
    int pc;
    int64_t iteration;            /* of the loop whose body or condition this is; -1: none */
    mf_loop *loop;                /* of the current instruction */
    mf_destination *destinations; /* by output; NULL: none has one */
    mf_register *registers;
};

struct mf_fiber {
    mf_run_state *run_state;
    mf_fiber *next; /* in the ready list or among a map's waiters */
    mf_fiber *live_before, *live_after;
    mf_map *map;   /* the innermost map; NULL: the top level */
    int64_t index; /* in that map; -1: the fiber of the uniform block */
    int device;
    struct mf_exchange *exchange;     /* the exchange that this fiber ends, its only task; NULL: an ordinary fiber */
    struct mf_lockstep_run *lockstep; /* of the map that it is at, while that waits for other processes (lockstep.c); else NULL */
    mf_frame *top;                    /* NULL: not begun */
    const mf_instr *waiting;          /* for error messages */
};

/* How a map's operand is sliced: the step is from one device's slice to the next. */
typedef struct mf_slicing {
    int64_t step;
    bool contiguous; /* slices are contiguous */
} mf_slicing;

/* A map under way. */
struct mf_map {
    mf_map *live_before, *live_after;
    const mf_map_plan *plan;
    mf_fiber *parent;  /* suspended until all fibers are done */
    int device;        /* of index 0 */
    int64_t remaining; /* fibers that have not ended, and exchanges that no fiber waits for */
    mf_register *in, *out;
    mf_slicing *slicings; /* by operand */
    mf_frame *uniform;    /* the registers of the uniform block */
    bool *published;      /* by uniform register: may be read; guarded by the lock */
    mf_fiber *fibers;
    int64_t fiber_count;
    struct mf_rendezvous *rendezvous; /* collectives whose outermost map this is */
    mf_fiber *waiters;                /* fibers at MF_DO_AWAIT */
};

typedef struct mf_chunk {
    struct mf_chunk *next;
    size_t size, used;
    _Alignas(16) unsigned char at[];
} mf_chunk;

#define MF_POOLS 24
struct mf_run_state {
    mf_executable *executable;
    struct mf_run *run;              /* NULL: inline */
    const void *location;            /* the line that called an executable that shares locations, while profiling; or NULL */
    bool shared;                     /* several threads work on it: take the lock */
    mf_comm *comm;                   /* of the processes of the maps; NULL: there is one process, or no map spans several */
    uint64_t call;                   /* the call's number in comm */
    _Atomic int exchanges, messages; /* exchanges that wait for messages, and those messages (exchange.c) */
    _Atomic uint64_t begun;          /* how often exchanges have begun to send */
    pthread_mutex_t lock;
    mf_chunk *chunks; /* memory of fibers, frames, maps: freed as a whole */
    void *pools[MF_POOLS];
    mf_register *in, *out;
    int device; /* of the top level */
    int64_t active;
    bool done;
    _Atomic bool failed;
    mf_error_object *error; /* the first error */
    mf_fiber *live;
    mf_map *maps;
    struct mf_exchange *kept; /* exchanges of lockstep maps, for the next run (exchange.c) */
    /* guarded by the pool's lock when shared (thread_pool.c) */
    mf_fiber *ready_first, *ready_last;
    int64_t ready_count; /* of a shared run */
    mf_run_state *list_before, *list_after;
    bool listed;
    /* Of a run that the starting thread attends: fibers that have become ready, newest first. NULL: not attended (mf_tasks_attend) */
    _Atomic(mf_fiber *) handed_over;
};

/* ---- run_state.c: memory and registers */
static inline bool mf_run_state_attended(const mf_run_state *s) { return atomic_load_explicit(&s->handed_over, memory_order_acquire); }
const mf_segment_compiler *mf_executable_compiler(const mf_executable *x); /* of its plan */
mf_run_state *mf_run_state_new(mf_executable *x);
void mf_run_state_clear(mf_run_state *s); /* for another run */
void mf_run_state_free(mf_run_state *s);
/* Records the slice of these equations, which began at `start` (not 0). */
void mf_run_state_record(const mf_run_state *s, int64_t start, mf_track_kind track, int index, mf_profile_source *source, int64_t bytes);
void mf_run_state_lock(mf_run_state *s); /* does nothing if one thread alone has the run */
void mf_run_state_unlock(mf_run_state *s);
void *mf_run_state_get(mf_run_state *s, size_t bytes); /* zeroed, 16-byte aligned; the lock is held. NULL: memory is out */
void mf_run_state_put(mf_run_state *s, void *p, size_t bytes);
void mf_run_state_fail(mf_run_state *s, mf_error_object *e); /* takes the reference; the first error wins; the lock is not held */

void mf_register_release(mf_register *r);
void mf_register_copy(mf_register *to, const mf_register *from); /* `to` is empty */
void mf_register_move(mf_register *to, mf_register *from);
void mf_register_view(mf_register *to, const mf_register *from, int64_t offset); /* the same memory, from offset on, contiguous */
bool mf_register_new(mf_register *r, int64_t bytes);                             /* false: memory is out */
bool mf_register_new_shared(mf_register *r, int64_t bytes); /* the same, in memory that processes share if there is any */
bool mf_register_pack(mf_register *r, const mf_type *type); /* makes it contiguous */
bool mf_register_lay(mf_register *r, const mf_type *type, const int64_t *strides); /* gives it these strides */
bool mf_register_packed_copy(mf_register *to, const mf_register *from, const mf_type *type);
bool mf_register_unique(const mf_register *r); /* nothing else holds its memory */
bool mf_register_own(mf_register *r,
                     const mf_type *type); /* makes it contiguous and not borrowed, so that it may outlive its map. False: memory is out */

mf_frame *mf_frame_new(mf_run_state *s, const mf_block *b, bool destinations); /* with constants set; the lock is held */
void mf_frame_release(mf_frame *f);                                            /* releases all registers but constants */
void mf_frame_free(mf_run_state *s, mf_frame *f);                              /* the lock is held */

/* ---- step.c */
void mf_fiber_step(mf_fiber *f);
void mf_run_state_leave(mf_run_state *s); /* a fiber that goes no further leaves the count; the last one ends the run */
mf_register *mf_operand(const mf_fiber *f, int ref);
const mf_type *mf_operand_type(const mf_fiber *f, int ref);
/* The outcome of an instruction. STAY: the fiber's top frame has changed. YIELD: like NEXT, but other fibers go first. SUSPENDED: another
 * thread may step the fiber already, so it must not be touched. */
typedef enum mf_step { MF_STEP_NEXT, MF_STEP_STAY, MF_STEP_YIELD, MF_STEP_SUSPENDED, MF_STEP_FAILED } mf_step;
/* Fails the run, at the line of this instruction (NULL: none is known). Takes the reference. */
mf_step mf_step_fail(mf_run_state *s, const mf_instr *in, mf_error_object *e);
/* Ends the instruction: releases dying registers, and moves the fiber on. */
void mf_advance(mf_fiber *f);
mf_frame *mf_push(mf_fiber *f, const mf_block *b, bool destinations); /* NULL: memory is out */
/* Moves or copies a block's result from a finished frame to an empty register, or writes it to its destination (then the register stays
 * empty). */
void mf_frame_result(mf_fiber *f, mf_frame *done, int output, mf_register *to);

/* ---- control_flow.c */
mf_step mf_control_begin(mf_fiber *f, const mf_instr *in); /* call, while, scan */
mf_step mf_control_return(mf_fiber *f, mf_frame *done);    /* the frame above the instruction's frame has ended */

/* ---- map.c */
mf_step mf_map_begin(mf_fiber *f, const mf_instr *in);
/* The step from slice to slice along an axis; true if slices are contiguous. */
bool mf_map_slices(const mf_register *r, const mf_type *type, const mf_type *shard, int64_t axis, int64_t *step);
/* Whether result o, which has a donor, can be computed in the donor's memory `from`, which `to` then holds too. Nothing else may hold it,
 * and its layout must be the result's. */
bool mf_map_donate(const mf_map_plan *plan, const mf_instr *in, int o, const mf_register *from, mf_register *to);
int mf_map_device_at(const mf_map *m, int64_t position); /* counted over the maps inside m; an outermost map may list its devices */
bool mf_map_enter(mf_fiber *f);                          /* makes a device's first frame */
mf_step mf_map_end(mf_fiber *f);                         /* a fiber of a map has ended: suspended for good, or failed */
/* One that the map waits for has ended: an active fiber of it, or an exchange that no fiber waits for. The last one ends the map. The
 * lock is held, and released. */
void mf_map_leave(mf_run_state *s, mf_map *m);
mf_step mf_await(mf_fiber *f, const mf_instr *in);
/* Values of the uniform block have arrived: moves the waiters that now have all of theirs to the list, and counts them as active. The
 * lock is held. */
void mf_map_wake(mf_map *map, mf_fiber **list);
/* Publishes the results of an instruction of the uniform block to the devices; makes them contiguous. */
void mf_map_publish(mf_fiber *f, const mf_instr *in);

/* ---- lockstep.c */
/* Runs a map that has a lockstep plan to its end, or to an exchange with other processes; when f is stepped again, it continues from
 * there. Only this thread steps f's run. False: an operand's layout does not allow it, or a map that spans processes is nested; then
 * nothing was done. */
bool mf_lockstep_run(mf_fiber *f, const mf_instr *in, const mf_map_plan *plan, mf_step *step);

/* ---- pool/thread_pool.c */
void mf_ready(mf_run_state *s, mf_fiber *list); /* makes fibers ready (linked by next, already counted as active) */
bool mf_tasks_start(void);                      /* false: no thread could be created */
void mf_tasks_lock(void);                       /* the pool's lock also guards the end of a run */
void mf_tasks_unlock(bool news);                /* news: wakes the threads that wait for results */
/* Works until done(context) holds, and sleeps while there is nothing to do: on fibers of run(context), or on anything if run is NULL.
 * Both are called with the pool's lock held. */
void mf_tasks_help(mf_run_state *(*run)(void *context), bool (*done)(void *context), void *context);
/* Makes a run that has not begun this thread's alone: fibers that become ready are handed over without a lock, and the run's own lock is
 * not taken, until mf_tasks_attend, which this thread calls once the run has begun, returns. */
void mf_tasks_keep(mf_run_state *s);
/* Steps the fibers of such a run, and polls messages, until over(context) holds or a wait takes too long; then the pool takes its
 * fibers. */
void mf_tasks_attend(mf_run_state *s, bool (*over)(void *context), void *context);
bool mf_tasks_is_worker(void); /* this thread is stepping a fiber */

/* ---- pool/scratch.c: memory of the calling thread */
void *mf_scratch(size_t bytes); /* 64-byte aligned; valid until the thread's next call, or mf_scratch_done. NULL: memory is out */
void mf_scratch_done(void);     /* gives large scratch back to the allocator */
void **mf_pointers(int count);  /* valid until the thread's next call; NULL: memory is out */
void mf_scratch_end(void);      /* frees all of the thread's */

/* ---- run_future.c */
void mf_run_state_over(mf_run_state *s); /* active has reached zero: finishes the run; nothing else touches its state */

#endif
