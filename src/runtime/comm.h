/* Communicators: how the processes of a job exchange messages, and no more; what is sent to whom stands above, in collectives/exchange/.
 * Contract: nothing blocks but the store of keys. A message is matched with its receipt by sender, call and place, in whatever order they
 * come; it has no other order. There is nothing to agree on before a program runs: every message says what its sender's program is at
 * (`check`), so two processes that run different programs find out where they first differ, and one that still has its program compiled
 * need not wait for one that has not. Any function may be called from any thread. */
#ifndef MF_RUNTIME_COMM_H
#define MF_RUNTIME_COMM_H

#include "base/error.h"
#include "base/memory/intern.h"
#include "base/text/string.h"

typedef struct mf_comm mf_comm;

/* A call that exchanges something has a number among those of the same processes, from 0: all processes, or a part of them, which above
 * these bits has a number too. */
#define MF_CALL_BITS 40
static inline uint64_t mf_call_number(uint64_t call) { return call % ((uint64_t)1 << MF_CALL_BITS); }

/* One of this process's newest calls. Written while others read: an entry whose number is that of the call is that call's. */
typedef struct mf_call_record {
    _Atomic uint64_t call;          /* + 1; 0: none */
    _Atomic(const char *) function; /* or NULL */
    _Atomic(const void *) location; /* of the call, or NULL */
    _Atomic int64_t at;             /* ns */
} mf_call_record;

enum { MF_CALLS_KEPT = 64 };
enum { MF_KEY_MOST = 4096, MF_VALUE_MOST = 1 << 26 }; /* bytes */

typedef struct mf_message_tag {
    uint64_t call;  /* of the sender's calls */
    uint64_t place; /* a collective of the program, in these iterations of the loops around it, at these indices of the other axes */
    uint64_t check; /* what is computed there. A message of the same call and place that has another check, or another size, is an error */
    const char *words; /* the same, to be said in that error; immortal, or NULL */
    void *run;         /* whose it is, for mf_run_rests; it lives until the message is done. NULL: none */
    const void
        *exchange; /* the one of the run that goes no further without it, to be told from others; NULL: none that waits for it alone */
} mf_message_tag;

/* Whether nothing moves in a run, nor is about to without a message, but so many exchanges that wait, for so many messages together.
 * *version: how many times exchanges have begun to send, ever. The caller may hold its own locks: none is taken under the run's. */
bool mf_run_rests(void *run, int exchanges, int messages, uint64_t *version);

/* The end of one send or receive: error is NULL or MF_ERROR_PEER, and the callee's. Called once, on any thread, and no lock is held. */
typedef void (*mf_message_done)(void *context, mf_error_object *error);

/* Bytes that another process lends: where they lie, and the number by which their owner knows them. id 0: they have been copied, and it has its own back. */
typedef struct mf_loan {
    const void *at;
    uint64_t id;
} mf_loan;

/* What this process's sends and receives wait for: nothing, there are none; the other side; or that bytes move, which takes polls. */
typedef enum mf_comm_activity { MF_COMM_IDLE, MF_COMM_AWAITS, MF_COMM_MOVES } mf_comm_activity;

struct mf_comm {
    int rank, size;
    bool together;                           /* all processes share memory, so messages cost little; the same in all of them */
    const int *first_device;                 /* process p has the devices first_device[p] to first_device[p + 1] - 1 */
    int least_devices, most_devices;         /* that a process has (mf_comm_count_devices); 0: not known */
    _Atomic uint64_t calls;                  /* begun, of all processes */
    _Atomic(struct mf_comm_part *) parts;    /* of the processes that had calls of their own; mf_comm_free_parts */
    _Atomic(struct mf_comm_failed *) failed; /* functions that came to no map; mf_comm_free_parts */
    _Atomic uint64_t begun;                  /* calls, of all processes or a part */
    mf_call_record newest[MF_CALLS_KEPT];    /* of them; of number i, in the order of their beginnings, at i % MF_CALLS_KEPT */
    _Atomic int runs;                        /* of this process, that are not over */
    _Atomic int awaited;                     /* sends and receives that are not done; for poll */
    /* The bytes are the communicator's from here to done. */
    void (*send)(mf_comm *c, int peer, const mf_message_tag *tag, const void *bytes, size_t count, mf_message_done done, void *context);
    void (*receive)(mf_comm *c, int peer, const mf_message_tag *tag, void *bytes, size_t count, mf_message_done done, void *context);
    /* A receipt that may end well with the sender's own bytes instead of a copy in `bytes`. They are for reading, and its send lasts, until
     * they are given back. False: it has given up the send meanwhile, and what was read may have been anything. NULL: nobody lends. */
    void (*borrow)(mf_comm *c, int peer, const mf_message_tag *tag, void *bytes, size_t count, mf_loan *loan, mf_message_done done,
                   void *context);
    bool (*give_back)(mf_comm *c, int peer, uint64_t call, const mf_loan *loan);
    /* This process has failed in this call: what it still exchanges in it ends in an error here, and what others wait for in an error
     * there, which says why. */
    void (*abort)(mf_comm *c, uint64_t call, const char *why);
    /* This process has ended this call, well or not, and asks for nothing more of it: what others still wait for is an error there. */
    void (*end)(mf_comm *c, uint64_t call);
    /* Drives what is under way, for a moment, and calls the done of what has ended. NULL: it goes on by itself. */
    mf_comm_activity (*poll)(mf_comm *c);
    /* A store of keys, bytes by bytes, that all processes share; of several values of a key the last one counts. get waits until there is a
     * value, which mf_free frees, so many seconds at most: NULL there was none, or 0 seconds there is none now. Both block, and go on while
     * programs run; a process that has died, or that this one has left the job, ends what waits in an error. NULL: it has no store. */
    mf_error_object *(*put)(mf_comm *c, const void *key, size_t size, const void *value, size_t count);
    mf_error_object *(*get)(mf_comm *c, const void *key, size_t size, double seconds, void **value, size_t *count);
    /* Ends this process's part once all others end theirs; everything afterwards is an error with these words, which are immortal.
     * False: it had ended, or some others give no sign of life. NULL: never. */
    bool (*leave)(mf_comm *c, const char *why);
};

/* This process's number among those that a launcher has started, by what it says in the environment; -1: it is alone, or nothing says. Known
 * before anything is joined. */
int mf_launched_rank(void);
/* The thread's, else the process's. The first call joins what a launcher has started as several processes. NULL: nothing joins this process
 * to others, or that failed. */
mf_comm *mf_comm_current(void);
mf_comm *mf_comm_of_process(void);      /* the same, but the process's */
mf_comm *mf_comm_joined(void);          /* the same, if it is joined already */
mf_error_object *mf_comm_failure(void); /* why joining failed, a reference; NULL: it did not */
void mf_comm_set(mf_comm *c);        /* for the calls of this thread, which may thus stand for a process of its own; NULL: the process's */
void mf_comm_free_parts(mf_comm *c); /* nobody uses c any more */
void mf_comm_count_devices(mf_comm *c);                              /* once it knows first_device */
int mf_comm_owner(const mf_comm *c, int device);                     /* the process that has it; -1: none */
void mf_comm_abort(mf_comm *c, uint64_t call, mf_error_object *why); /* with its sentence and location, which handles nothing */
void mf_comm_explain(mf_text *t, mf_error_object *why);              /* those, the location encoded */

/* What carries messages between processes (comm/); wire.c says which. */
typedef struct mf_join_options {
    const int *communicator;                /* the user's own, by its Fortran number; NULL: all processes that were launched */
    const char *launcher;                   /* NULL: none was seen */
    int launched;                           /* how many it started; 0: it does not say */
    int devices;                            /* this process's */
    double initialization_timeout, timeout; /* seconds to wait for other processes */
} mf_join_options;
extern mf_error_object *(*const mf_comm_join)(const mf_join_options *how, mf_comm **joined); /* *joined is never freed */

/* ---- which processes take part. A list of them ascends and is interned; NULL: all, so calls of all that agree are in step. */
struct mf_program;
/* Of the program's maps that span processes: all of theirs. False: there is none. */
bool mf_program_processes(const struct mf_program *p, const mf_comm *c, const mf_intlist **processes);
bool mf_program_spans(const struct mf_program *p); /* some map in it has not all of its indices here */
/* NULL, or an error: what its maps that span processes run here is not what this process has. */
mf_error_object *mf_program_check_owners(const struct mf_program *p, const mf_comm *c);
/* The number of a call of this function (NULL: not known) at this location. */
uint64_t mf_comm_begin(mf_comm *c, const mf_intlist *processes, const char *function, const void *location);
const mf_call_record *mf_comm_record(const mf_comm *c, uint64_t call); /* NULL: not begun, or long ago */
/* "call 3", or of a part "call 3 of processes 0 and 2", whose calls have numbers of their own. */
void mf_comm_name_call(mf_text *t, const mf_comm *c, uint64_t call);
/* ", pmap(f) (file:line)" as far as it is known; the location encoded (location.h). */
void mf_comm_describe(mf_text *t, const mf_call_record *r);
/* A call has failed before it began: it counts, and the others hear why. Nothing where this process takes no part. */
void mf_comm_miss(const mf_intlist *processes, mf_error_object *why);

/* A call of this function has failed before any map of it was known, so nobody can tell whether it was one of those that count. It is once
 * others wait for that very call of a function of this name, or when this process calls it again, with maps. */
void mf_comm_failed(const char *function, mf_error_object *why);
/* Others wait for this call of that function: whether it is such a one, and has its number from now on; *why is added to. */
bool mf_comm_settle(mf_comm *c, uint64_t call, const char *function, mf_text *why);

bool mf_comm_has_part(const mf_intlist *devices); /* in a map over these, or over all, with other processes */

/* While a call is traced on this thread, it is known ever better with whom it would exchange, should it fail. */
void mf_comm_expect_nothing(void);
void mf_comm_expect_map(const mf_intlist *devices); /* a map over these, or over all */
void mf_comm_expect_program(const struct mf_program *p);
bool mf_comm_miss_expected(mf_error_object *why); /* nothing is expected any more; false: nothing was */

#endif
