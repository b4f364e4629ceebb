/* Running: a run state is the working memory of one run of an executable; on it fibers - one a device, and one for what a map computes
 * once - step through blocks. A fiber is an explicit interpreter, never a blocked thread: where it must wait it is suspended, and whoever
 * brings what it waits for makes it ready again.
 * Invariants: `active` counts the fibers that are ready or being stepped, and the exchanges with other processes under way; when it
 * reaches zero the run is over: finished, failed, or the devices disagree. A fiber is touched by one thread at a time: the one that took
 * it from the ready list. The run state's lock guards its lists and counts, the maps' rendezvous and waiters and the publishing of
 * shared registers. A run state that runs inline is touched by one thread only and takes no lock. */
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

/* A value: counted memory, up to 16 bytes in the register itself, or memory that is borrowed. Empty when data is NULL. A fiber's slices
 * of its map's operands and its places in the map's results are borrowed, which spares the devices a count that they all would fight
 * over: they live until the map ends, and only its uniform results, which outlive it, are made good. */
typedef struct mf_register {
    mf_buffer *buffer; /* NULL: data points into small, or is borrowed */
    unsigned char *data;
    const int64_t *strides;      /* NULL: row by row */
    const mf_sharding *sharding; /* NULL: the executing device */
    _Alignas(16) unsigned char small[MF_SMALL];
} mf_register;

/* Where an output shall be written: NULL data means anywhere. */
typedef struct mf_destination {
    mf_buffer *buffer; /* whose memory that is; NULL: it is borrowed from the map, or belongs to a small register */
    unsigned char *data;
    bool borrowed;
} mf_destination;

/* A while or scan under way, of the frame whose instruction it is. */
typedef struct mf_loop {
    const mf_instr *instr;
    int64_t iteration, length;
    bool in_condition;
    mf_frame *frames[2]; /* kept between iterations: body, condition */
    int carry_count, stacked_count;
    mf_register *carry; /* then the scan's stacked results */
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
    mf_map *map;   /* the innermost map; NULL: the top-level program */
    int64_t index; /* in that map; -1: the fiber that computes once for all */
    int device;
    struct mf_exchange *exchange;     /* which this fiber ends, and nothing else; NULL: it is a device's or a map's */
    struct mf_lockstep_run *lockstep; /* of the map at which it is, while that waits for other processes (lockstep.c); else NULL */
    mf_frame *top;                    /* NULL: not begun */
    const mf_instr *waiting;          /* for messages */
};

/* Of a map's operand: from one device's part to the next. */
typedef struct mf_slicing {
    int64_t step;
    bool contiguous; /* a part lies row by row */
} mf_slicing;

/* A map under way. */
struct mf_map {
    mf_map *live_before, *live_after;
    const mf_map_plan *plan;
    mf_fiber *parent;  /* suspended until all fibers are done */
    int device;        /* of index 0 */
    int64_t remaining; /* fibers not yet done, and exchanges that no fiber waits for */
    mf_register *in, *out;
    mf_slicing *slicings; /* of in */
    mf_frame *uniform;    /* the shared registers */
    bool *there;          /* by shared register: may be read; guarded by the lock */
    mf_fiber *fibers;
    int64_t fiber_count;
    struct mf_rendezvous *rendezvous; /* collectives of which this is the outermost map */
    mf_fiber *waiters;                /* at MF_DO_AWAIT */
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
    const void *location;            /* of the call, of an executable that shares locations while somebody records; or NULL */
    bool shared;                     /* several threads: take the lock */
    mf_comm *comm;                   /* joins the processes of the maps; NULL: none do, or no map spans processes */
    uint64_t call;                   /* comm's */
    _Atomic int exchanges, messages; /* that wait for messages, and those (exchange.c) */
    _Atomic uint64_t begun;          /* times that exchanges did */
    pthread_mutex_t lock;
    mf_chunk *chunks; /* memory of fibers, frames, maps: given back as a whole */
    void *pools[MF_POOLS];
    mf_register *in, *out;
    int device; /* of the program itself */
    int64_t active;
    bool done;
    _Atomic bool failed;
    mf_error_object *error; /* the first */
    mf_fiber *live;
    mf_map *maps;
    struct mf_exchange *kept; /* by maps in lockstep, for the exchanges of the next run (exchange.c) */
    /* guarded by the pool's lock when shared (thread_pool.c) */
    mf_fiber *ready_first, *ready_last;
    int64_t ready_count; /* of a shared run */
    mf_run_state *list_before, *list_after;
    bool listed;
    /* Of a run that the thread which began it attends: fibers that are ready, newest first. NULL: it is not attended (mf_tasks_attend) */
    _Atomic(mf_fiber *) came;
};

/* ---- run_state.c: memory and registers */
static inline bool mf_run_state_attended(const mf_run_state *s) { return atomic_load_explicit(&s->came, memory_order_acquire); }
const mf_segment_compiler *mf_executable_compiler(const mf_executable *x); /* of its plan */
mf_run_state *mf_run_state_new(mf_executable *x);
void mf_run_state_clear(mf_run_state *s); /* ready for another run */
void mf_run_state_free(mf_run_state *s);
/* The slice of these equations, begun at `start`, which is not 0. */
void mf_run_state_record(const mf_run_state *s, int64_t start, mf_track_kind track, int index, mf_profile_source *source, int64_t bytes);
void mf_run_state_lock(mf_run_state *s); /* nothing to do where one thread alone has the run */
void mf_run_state_unlock(mf_run_state *s);
void *mf_run_state_get(mf_run_state *s, size_t bytes); /* zeroed, 16-byte aligned; the lock is held. NULL when out of memory */
void mf_run_state_put(mf_run_state *s, void *p, size_t bytes);
void mf_run_state_fail(mf_run_state *s, mf_error_object *e); /* takes the reference; the first wins; the lock is not held */

void mf_register_release(mf_register *r);
void mf_register_copy(mf_register *to, const mf_register *from); /* `to` is empty */
void mf_register_move(mf_register *to, mf_register *from);
void mf_register_view(mf_register *to, const mf_register *from, int64_t offset); /* the same memory from offset on, row by row */
bool mf_register_new(mf_register *r, int64_t bytes);                             /* false when out of memory */
bool mf_register_new_shared(mf_register *r, int64_t bytes); /* the same, of memory that processes share, if there is some */
bool mf_register_pack(mf_register *r, const mf_type *type); /* row by row from now on */
bool mf_register_lay(mf_register *r, const mf_type *type, const int64_t *strides); /* with these strides from now on */
bool mf_register_packed_copy(mf_register *to, const mf_register *from, const mf_type *type);
bool mf_register_unique(const mf_register *r); /* nobody else holds its memory */
bool mf_register_own(mf_register *r,
                     const mf_type *type); /* row by row, and not borrowed: it may outlive its map. False when out of memory */

mf_frame *mf_frame_new(mf_run_state *s, const mf_block *b, bool destinations); /* the lock is held; constants are in place */
void mf_frame_release(mf_frame *f);                                            /* all registers but constants */
void mf_frame_free(mf_run_state *s, mf_frame *f);                              /* the lock is held */

/* ---- step.c */
/* Steps a fiber until it waits or ends. */
void mf_fiber_step(mf_fiber *f);
void mf_run_state_leave(mf_run_state *s); /* a fiber that goes no further leaves the count; the last one ends the run */
mf_register *mf_operand(const mf_fiber *f, int ref);
const mf_type *mf_operand_type(const mf_fiber *f, int ref);
/* What an instruction did. STAY: the fiber's top frame changed. BEHIND: as NEXT, but others come first. PARKED: somebody else may step the fiber by
 * now: don't touch it. */
typedef enum mf_step { MF_STEP_NEXT, MF_STEP_STAY, MF_STEP_BEHIND, MF_STEP_PARKED, MF_STEP_FAILED } mf_step;
/* The instruction is over: dying registers are released and the fiber moves on. */
void mf_advance(mf_fiber *f);
mf_frame *mf_push(mf_fiber *f, const mf_block *b, bool destinations); /* NULL when out of memory */
/* A block's result: moved or copied from a finished frame to an empty register, or written to its destination (the register then stays
 * empty). */
void mf_frame_result(mf_fiber *f, mf_frame *done, int output, mf_register *to);

/* ---- control_flow.c */
mf_step mf_control_begin(mf_fiber *f, const mf_instr *in); /* call, while, scan */
mf_step mf_control_return(mf_fiber *f, mf_frame *done);    /* the frame above the instruction's has ended */

/* ---- map.c */
mf_step mf_map_begin(mf_fiber *f, const mf_instr *in);
/* The step from slice to slice along an axis; true when a slice lies row by row. */
bool mf_map_slices(const mf_register *r, const mf_type *type, const mf_type *shard, int64_t axis, int64_t *step);
/* May result o, which has a donor, be born in the donor's memory `from`? Then `to` holds it too. Nobody else may hold it, and it must be
 * laid out as the result will be. */
bool mf_map_donate(const mf_map_plan *plan, const mf_instr *in, int o, const mf_register *from, mf_register *to);
int mf_map_device_at(const mf_map *m,
                     int64_t position); /* counted over the maps directly inside m; an outermost map may name its devices */
bool mf_map_enter(mf_fiber *f);         /* a device's first frame */
mf_step mf_map_end(mf_fiber *f);        /* a fiber of a map has run to its end: parked for good, or failed */
/* One of those that the map waits for has done its work: an active fiber of it, or an exchange that none waits for. The last one ends
 * the map. The lock is held, and free afterwards. */
void mf_map_leave(mf_run_state *s, mf_map *m);
mf_step mf_await(mf_fiber *f, const mf_instr *in);
/* Values of the uniform block have come: waiters that now have all go to the list. The lock is held. Counts them into active. */
void mf_map_wake(mf_map *map, mf_fiber **list);
/* The results of an instruction of the uniform block are there: packed, and published to the devices. */
void mf_map_publish(mf_fiber *f, const mf_instr *in);

/* ---- lockstep.c */
/* Runs a map whose plan has a lockstep to its end, or to an exchange with other processes, and from there when f is stepped again; this
 * thread alone steps f's run. False: an operand lies so that it cannot, or f is deeper than a map that spans processes may be, and
 * nothing is done. */
bool mf_lockstep_run(mf_fiber *f, const mf_instr *in, const mf_map_plan *plan, mf_step *step);

/* ---- pool/thread_pool.c */
void mf_ready(mf_run_state *s, mf_fiber *list); /* hands fibers (linked by next, already counted as active) over to be stepped */
bool mf_tasks_start(void);                      /* false: no thread could be made */
void mf_tasks_lock(void);                       /* the pool's lock: guards a run's state and its end */
void mf_tasks_unlock(bool news);                /* news: wakes those who wait */
/* Works until done(context) holds, and sleeps when there is nothing to do: on fibers of run(context), or on anything when run is NULL.
 * Both are called under the pool's lock. */
void mf_tasks_help(mf_run_state *(*run)(void *context), bool (*done)(void *context), void *context);
/* A run that has not begun is this thread's alone: whoever makes a fiber ready hands it over without a lock, and the run's own lock
 * is not taken. Until mf_tasks_attend returns, which this thread calls once it has begun. */
void mf_tasks_keep(mf_run_state *s);
/* Steps the fibers of such a run, and waits for messages for a moment, until over(context) holds or they are long in coming: then its
 * fibers are everybody's. */
void mf_tasks_attend(mf_run_state *s, bool (*over)(void *context), void *context);
bool mf_tasks_is_worker(void); /* this thread is stepping a fiber */

/* ---- pool/scratch.c: memory of the calling thread */
void *mf_scratch(size_t bytes); /* 64-byte aligned; valid until the thread's next call or mf_scratch_done. NULL when out of memory */
void mf_scratch_done(void);     /* what is large goes back to the allocator, for others to use */
void **mf_pointers(int count);  /* valid until the thread's next call; NULL when out of memory */
void mf_scratch_end(void);      /* the thread's, all of it */

/* ---- run_future.c */
void mf_run_state_over(mf_run_state *s); /* active has reached zero: finishes the run; nobody else touches its state */

#endif
