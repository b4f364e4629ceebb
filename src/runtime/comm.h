/* Communicators: how the processes of a job exchange messages. Which messages they exchange is decided in collectives/exchange/.
 * Contract: only the key-value store blocks. A message is matched with its receive by sender, call and place, and not by order. Nothing
 * has to be agreed on before a program runs: every message says what its sender computes there (`check`), so two processes that run
 * different programs find out where they first differ, and one that is still compiling its program delays nobody else. All functions are
 * thread-safe. */
#ifndef MF_RUNTIME_COMM_H
#define MF_RUNTIME_COMM_H

#include "base/error.h"
#include "base/memory/intern.h"
#include "base/text/string.h"

typedef struct mf_comm mf_comm;

/* Calls that exchange something are numbered from 0 among the calls of the same group of processes. The bits above these identify the
 * group: 0 is all processes. */
#define MF_CALL_BITS 40
static inline uint64_t mf_call_number(uint64_t call) { return call % ((uint64_t)1 << MF_CALL_BITS); }

/* One of this process's newest calls. It is written while others read; an entry is valid for a call if it has that call's number. */
typedef struct mf_call_record {
    _Atomic uint64_t call;          /* call number + 1; 0: none */
    _Atomic(const char *) function; /* the function called; or NULL */
    _Atomic(const void *) location; /* the line that called; or NULL */
    _Atomic int64_t at;             /* ns */
} mf_call_record;

enum { MF_CALLS_KEPT = 64 };
enum { MF_KEY_MOST = 4096, MF_VALUE_MOST = 1 << 26 }; /* bytes */

typedef struct mf_message_tag {
    uint64_t call;           /* the sender's call */
    uint64_t place;          /* the collective, in these iterations of the loops around it and at these indices of the other axes */
    uint64_t check;          /* what is computed there. Both sides must have the same check, and the same size, or both get an error */
    const char *description; /* `check` in words, for that error; immortal, or NULL */
    void *run;               /* the run that the message belongs to, for mf_run_is_blocked; it outlives the message. NULL: none */
    const void *exchange;    /* identifies the exchange of the run that cannot go on without this message; NULL: none waits for it alone */
} mf_message_tag;

/* Whether a run is blocked: nothing in it moves, or is about to without a message, except for so many exchanges, which wait for so many
 * messages together. *version: how often exchanges of the run have begun to send so far. The caller may hold its own locks: under the
 * run's lock no other is taken. */
bool mf_run_is_blocked(void *run, int exchanges, int messages, uint64_t *version);

/* The completion of one send or receive. error is NULL or MF_ERROR_PEER, and the callee owns it. Called once, on any thread, without any
 * lock held. */
typedef void (*mf_message_done)(void *context, mf_error_object *error);

/* Bytes that another process lends: where they lie, and the id by which their owner knows the loan. id 0: they were copied, and nothing
 * has to be given back. */
typedef struct mf_loan {
    const void *at;
    uint64_t id;
} mf_loan;

/* What this process's sends and receives wait for: nothing, for there are none; the other side; or bytes that move, which takes polls. */
typedef enum mf_comm_activity { MF_COMM_IDLE, MF_COMM_AWAITS, MF_COMM_MOVES } mf_comm_activity;

struct mf_comm {
    int rank, size;
    bool together;                            /* all processes share memory, so messages are cheap; the same in all processes */
    const int *first_device;                  /* process p has the devices first_device[p] to first_device[p + 1] - 1 */
    int least_devices, most_devices;          /* the fewest and the most that a process has (mf_comm_count_devices); 0: unknown */
    _Atomic uint64_t calls;                   /* number of calls begun of all processes */
    _Atomic(struct mf_comm_group *) groups;   /* the groups of some of the processes that had calls of their own; mf_comm_free_groups */
    _Atomic(struct mf_failed_calls *) failed; /* functions whose calls failed before any map was known; mf_comm_free_groups */
    _Atomic uint64_t begun;                   /* number of calls begun, of all processes or a group */
    mf_call_record newest[MF_CALLS_KEPT];     /* the newest calls, in the order in which they began; number i is at i % MF_CALLS_KEPT */
    _Atomic int runs;                         /* runs of this process that are not over */
    _Atomic int awaited;                      /* sends and receives that are not done; for poll */
    /* The bytes belong to the communicator until `done` is called. */
    void (*send)(mf_comm *c, int peer, const mf_message_tag *tag, const void *bytes, size_t count, mf_message_done done, void *context);
    void (*receive)(mf_comm *c, int peer, const mf_message_tag *tag, void *bytes, size_t count, mf_message_done done, void *context);
    /* A receive that may end with the sender's own bytes instead of a copy in `bytes`. They are read-only, and the send stays open,
     * until they are given back. return_loan returns false if the sender has withdrawn the bytes meanwhile: then what was read may have
     * been anything. NULL: this communicator does not lend. */
    void (*borrow)(mf_comm *c, int peer, const mf_message_tag *tag, void *bytes, size_t count, mf_loan *loan, mf_message_done done,
                   void *context);
    bool (*return_loan)(mf_comm *c, int peer, uint64_t call, const mf_loan *loan);
    /* This process has failed in this call: its own pending operations of the call end in an error, and the other processes that wait
     * for it get an error that says why. */
    void (*abort)(mf_comm *c, uint64_t call, const char *why);
    /* This process has ended this call, successfully or not, and expects nothing more of it: other processes that still wait for it get
     * an error. */
    void (*end)(mf_comm *c, uint64_t call);
    /* Makes progress for a moment, and calls the `done` of operations that have ended. NULL: progress needs no polls. */
    mf_comm_activity (*poll)(mf_comm *c);
    /* A key-value store of bytes that all processes share; the last value that was put under a key counts. get waits for a value for up
     * to so many seconds, and the caller frees it with mf_free; *value is NULL if there was none in that time (with 0 seconds: if there
     * is none now). Both functions block, and may be called while programs run; the death of a process, or this process's leaving, ends
     * a wait in an error. NULL: there is no store. */
    mf_error_object *(*put)(mf_comm *c, const void *key, size_t size, const void *value, size_t count);
    mf_error_object *(*get)(mf_comm *c, const void *key, size_t size, double seconds, void **value, size_t *count);
    /* Leaves the job once all other processes leave it too; everything afterwards is an error with these words, which must be immortal.
     * False: this process had left already, or some others give no sign of life. NULL: cannot leave. */
    bool (*leave)(mf_comm *c, const char *why);
};

/* This process's rank by the launcher's environment variables; -1: it was started alone, or the environment does not say. Known before
 * anything is joined. */
int mf_launched_rank(void);
/* The thread's communicator, else the process's. The first call joins the processes that a launcher has started. NULL: this process is
 * alone, or joining failed. */
mf_comm *mf_comm_current(void);
mf_comm *mf_comm_of_process(void);               /* the process's, whatever the thread's is */
mf_comm *mf_comm_joined(void);                   /* the process's, if it has joined already */
mf_error_object *mf_comm_failure(void);          /* why joining failed, as a reference; NULL: it did not */
void mf_comm_set(mf_comm *c);                    /* for this thread, which can so stand for a process; NULL: the process's */
void mf_comm_free_groups(mf_comm *c);            /* when nobody uses c any more */
void mf_comm_count_devices(mf_comm *c);          /* once first_device is known */
int mf_comm_owner(const mf_comm *c, int device); /* the process that has the device; -1: none */
void mf_comm_abort(mf_comm *c, uint64_t call, mf_error_object *why); /* with its message and location; handles nothing */
void mf_comm_explain(mf_text *t, mf_error_object *why);              /* adds that message and location, the location encoded */

/* Joins the processes of a job (comm/); set by wire.c. */
typedef struct mf_join_options {
    const int *communicator;                /* the user's communicator, by its Fortran handle; NULL: all processes that were launched */
    const char *launcher;                   /* NULL: no launcher was detected */
    int launched;                           /* how many processes it started; 0: it does not say */
    int devices;                            /* of this process */
    double initialization_timeout, timeout; /* seconds to wait for other processes */
} mf_join_options;
extern mf_error_object *(*const mf_comm_join)(const mf_join_options *how, mf_comm **joined); /* *joined is never freed */

/* ---- which processes take part. A list of processes ascends and is interned; NULL: all, so programs that name the processes
 * differently still count the same calls. */
struct mf_program;
/* The processes that have devices of any of the program's maps that span processes. False: no map spans processes. */
bool mf_program_processes(const struct mf_program *p, const mf_comm *c, const mf_intlist **processes);
bool mf_program_spans(const struct mf_program *p); /* whether a map in it has indices in other processes */
/* NULL, or an error: for a map that spans processes, this process would run devices that it does not have, or not run one that it has. */
mf_error_object *mf_program_check_owners(const struct mf_program *p, const mf_comm *c);
/* Begins a call of this function (NULL: unknown) at this location, and returns its number. */
uint64_t mf_comm_begin(mf_comm *c, const mf_intlist *processes, const char *function, const void *location);
const mf_call_record *mf_comm_record(const mf_comm *c, uint64_t call); /* NULL: not begun, or too long ago */
/* "call 3", or for a group of processes "call 3 of processes 0 and 2". */
void mf_comm_name_call(mf_text *t, const mf_comm *c, uint64_t call);
/* ", pmap(f) (file:line)", as far as it is known; the location encoded (location.h). */
void mf_comm_describe(mf_text *t, const mf_call_record *r);
/* A call has failed before it began: it still takes a number, and the others are told why. Does nothing if this process takes no part. */
void mf_comm_fail_unbegun(const mf_intlist *processes, mf_error_object *why);

/* A call of this function has failed before any of its maps was known, so it is not known yet whether other processes count it. They do
 * if they wait for a call of a function of this name that this process has not begun, or if this process calls it again, with maps. */
void mf_comm_record_failed(const char *function, mf_error_object *why);
/* Other processes wait for this call of that function: if a failed call can be the one, it gets this number, and its error is added to
 * *why. */
bool mf_comm_match_failed(mf_comm *c, uint64_t call, const char *function, mf_text *why);

bool mf_comm_takes_part(
    const mf_intlist *devices); /* whether this process takes part in a map over these devices (NULL: all) with others */

/* While a call is traced on this thread, these record the processes with which it would exchange, in case it fails. */
void mf_comm_expect_nothing(void);
void mf_comm_expect_map(const mf_intlist *devices); /* devices NULL: all */
void mf_comm_expect_program(const struct mf_program *p);
bool mf_comm_fail_expected(mf_error_object *why); /* to those expected, and resets; false: none were */

#endif
