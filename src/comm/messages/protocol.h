/* What the files of src/comm share: message headers, the operations that wait for the other side or move bytes, and the state of a
 * communicator. All functions are called with its lock held, except mf_operations_call_back and the driver's. An operation that ends
 * goes into a list, and its `done` is called without the lock. */
#ifndef MF_COMM_MESSAGES_PROTOCOL_H
#define MF_COMM_MESSAGES_PROTOCOL_H

#include "comm/messages.h"
#include "comm/shared_memory.h"

#include <pthread.h>

#define RING            8                  /* receives for headers, posted in turn */
#define INLINE_NEAR     ((size_t)16 << 10) /* the largest payload in a ring; a larger one is copied from the sender's memory */
#define INLINE_MOST     ((size_t)60 << 10) /* the largest inline payload over a link: its libraries send messages of up to 64 KiB eagerly */
#define WINDOW          ((uint64_t)1 << 20) /* inline bytes in flight to a process; beyond it messages are offered */
#define TEXT_MOST       960
#define SLOT            (sizeof(mf_message_header) + INLINE_MOST + TEXT_MOST)
#define POLLS_PER_CHECK 8 /* one poll in so many reads the clock, and looks for operations that wait too long */
#define BUCKETS         64
#define CALLS_OPEN      4096 /* the most that the newest call under way can be ahead of the oldest */
#define ABORTS_KEPT     16

#define MS                  ((int64_t)1000000) /* ns */
#define FIRST_QUERY         (20 * MS)
#define QUERY_INTERVAL_MOST (1000 * MS) /* the longest time between two queries */

#define NAP_MIN (30 * 1000) /* ns, of a thread that polls */
#define NAP_MAX MS

typedef enum mf_message_kind {
    DATA,          /* a payload with its header (eager) */
    OFFER,         /* a payload that the receiver fetches when it has a buffer for it (rendezvous) */
    CLEAR_TO_SEND, /* to an offer: send the payload over the link, under link_tag */
    REFUSED,       /* to an offer: no receive will come; `reason` says why */
    WINDOW_UPDATE, /* only carries `taken` */
    PAYLOAD_READ,  /* to an offer: the payload was read in shared memory, and its owner may reuse it */
    STATUS_QUERY,  /* from a process that has waited for long: where are you in this call? */
    STATUS,        /* to a query: `flags`, wait-for edges (deadlock.c), and the answer in words */
    CALL_OVER,     /* to a query: the call is over here; `reason` says how it ended */
    LEAVING,       /* to process 0 */
    ALL_LEFT,      /* from process 0: everybody leaves */
    KEY_PUT,       /* this and the following: key_value.c */
    KEY_GET,
    KEY_GET_CANCEL, /* the get waits no longer */
    KEY_VALUE,
    KEY_ABSENT,
    MESSAGE_KINDS
} mf_message_kind;

enum { CALL_BEGUN = 1, RUN_BLOCKED = 2, EDGES_COMPLETE = 4 }; /* the flags of a STATUS; the last two: deadlock.c */
enum { OTHER_PROGRAM = 1, ENDED_WELL, ENDED_FAILED };         /* the reason of a REFUSED or CALL_OVER */

typedef struct mf_message_header {
    uint32_t magic, kind, from;
    union {
        uint32_t link_tag;   /* CLEAR_TO_SEND */
        uint32_t text_bytes; /* DATA, OFFER: the description of what is computed, behind the payload */
        uint32_t edge_count; /* STATUS */
        uint32_t key_bytes;  /* KEY_PUT: the key, before the value */
    };
    uint64_t call;
    union {
        uint64_t place;    /* DATA, OFFER */
        uint64_t version;  /* STATUS: of its run */
        uint64_t position; /* KEY_PUT, KEY_VALUE: of this piece in the value */
    };
    union {
        uint64_t check; /* DATA, OFFER */
        uint64_t flags; /* STATUS */
        uint64_t reason;
        uint64_t waits; /* KEY_GET: until there is a value */
        uint64_t total; /* KEY_PUT, KEY_VALUE: bytes of the whole value */
    };
    uint64_t size, id; /* bytes of the payload; of the offer, the search or the get to which this belongs */
    uint64_t taken;    /* inline bytes that the sender has taken from the receiver so far */
    uint64_t at;       /* OFFER: the position in the sender's range of shared memory, plus 1; 0: the payload has to be sent */
} mf_message_header;

/* What the word of an offer in shared memory holds: one of these states, and above it the offer's id. Withdrawing and taking both change
 * the word, and only one of them succeeds; so nobody reads memory that its owner has reused. The owner of a loan may withdraw it all the
 * same: the borrower finds out when it returns the loan, and drops what it read. */
enum { OFFERED = 1, LENT, TAKEN, WITHDRAWN, OFFER_STATES };

#define EDGES 128

typedef struct mf_wait_edge { /* deadlock.c: a process that is waited for, and the version at which its run was reported to be blocked */
    uint64_t version, process;
} mf_wait_edge;

typedef struct mf_outgoing { /* a message being sent */
    struct mf_outgoing *next;
    uintptr_t request;
    size_t count; /* bytes behind the header */
    mf_message_header head;
    unsigned char payload[];
} mf_outgoing;

typedef struct mf_arrived { /* a message for which no receive was posted yet */
    struct mf_arrived *next;
    mf_message_header head;
    unsigned char payload[];
} mf_arrived;

typedef struct mf_operation { /* a receive, or a send that is too large to be inline */
    struct mf_operation *next;
    bool sends;
    int peer, link_tag;
    mf_message_tag tag;
    unsigned char *bytes;
    size_t count, moved, piece;
    uintptr_t request;
    uint64_t id;
    _Atomic uint64_t *offered; /* of a send: the word of its offer in shared memory; or NULL */
    const unsigned char *from; /* of a receive: the payload in the sender's shared memory; or NULL */
    mf_loan *loan;             /* of a receive that leaves the payload there; or NULL */
    void *copied;              /* of a send: a copy of its bytes in shared memory; or NULL */
    int64_t since, query_at;
    bool begun, blocked; /* by its last STATUS: the other process had begun the call; its run of it was blocked, at blocked_version */
    uint64_t blocked_version;
    mf_message_done done;
    void *context;
    mf_error_object *error;
} mf_operation;

typedef struct mf_key_bytes { /* bytes that arrive in pieces: `count` of `total` so far */
    unsigned char *at;
    size_t count, total;
} mf_key_bytes;

typedef struct mf_key_entry {
    struct mf_key_entry *next;
    mf_key_bytes value;
    size_t key_size;
    unsigned char key[];
} mf_key_entry;

typedef struct mf_key_pending { /* a get that another process sent to process 0 before the key was put */
    struct mf_key_pending *next;
    int from;
    uint64_t id;
    size_t key_size;
    unsigned char key[];
} mf_key_pending;

typedef struct mf_key_get { /* a get of a thread of this process that waits */
    struct mf_key_get *next;
    uint64_t id;
    mf_key_bytes value;
    bool absent, failed; /* the key has no value; memory is out */
} mf_key_get;

typedef struct mf_peer {
    uint64_t sent, acknowledged; /* inline bytes sent to it, and those that it has taken */
    uint64_t taken, reported;    /* inline bytes taken from it, and those that were reported to it */
    int64_t last_heard;          /* when the last message came from it */
    uint64_t newest;             /* the newest call of all processes of which a message came, + 1 */
    char *status;                /* where it is, by its last STATUS; or NULL */
    bool left, dead;
    int number;         /* in the shared memory, of a process on this machine */
    mf_ring *to, *from; /* in the shared memory; else NULL */
    mf_outgoing *queue; /* messages for which its ring had no room */
    mf_key_bytes put;   /* the value that it is putting */
} mf_peer;

typedef struct mf_group_calls { /* the calls of one group of processes, which are numbered from 0 */
    struct mf_group_calls *next;
    uint64_t group;
    uint64_t below; /* all calls below this one have ended; of the later ones: */
    uint64_t ended[CALLS_OPEN / 64];
} mf_group_calls;

typedef struct mf_wait_node {
    uint64_t version, process;
    bool answered;
} mf_wait_node;

typedef struct mf_wait_search { /* a search through the wait-for graph, for a deadlock; so far: */
    uint64_t call, id;          /* id 0: no search is under way; `call` was searched last */
    int64_t since;
    int count, capacity, missing; /* missing: have not answered yet */
    mf_wait_node *nodes;          /* this process is the first */
} mf_wait_search;

typedef struct mf_messages {
    mf_comm comm;
    mf_link *link;
    const mf_shared_memory *shared; /* with the other processes on this machine; NULL: none */
    int near_count, *near;          /* the other processes on this machine */
    int queued;                     /* messages in the queues of all peers */
    int64_t timeout;
    pthread_mutex_t lock;
    pthread_cond_t news;
    pthread_t driver;
    bool idle, stopping, closed; /* closed: the link must not be used any more */
    bool any_dead;               /* some process has died */
    int first_dead;
    const char *left; /* why this process has left the job; or NULL */
    mf_error_object *broken;
    uintptr_t requests[RING];
    unsigned char *ring; /* RING slots */
    int head;
    mf_outgoing *outgoing;
    mf_operation *waiting[BUCKETS]; /* for the other side: receives by their tag, offers by their id */
    mf_operation *moving;
    mf_arrived *arrived[BUCKETS];
    int64_t arrived_count;
    const char *last_collective; /* this process's last collective; it began at last_at */
    int64_t last_at;
    _Atomic unsigned polls;
    _Atomic bool moves; /* payloads were moving at the last poll */
    uint64_t next_id;
    int next_tag;
    int64_t query_at;
    int64_t now;             /* the time some polls ago */
    unsigned progress_count; /* number of calls of mf_messages_progress */
    mf_group_calls *groups;
    mf_wait_search search;
    struct {
        uint64_t call; /* + 1 */
        char reason[TEXT_MOST];
    } aborts[ABORTS_KEPT];
    int next_abort;
    bool all_left;
    mf_peer *peers;
    struct {
        pthread_cond_t news;   /* waits by the monotonic clock */
        mf_key_entry *entries; /* of process 0 */
        mf_key_pending *pending;
        mf_key_get *gets;
        uint64_t next_id;
    } keys;
} mf_messages;

/* ---- operations.c */
void mf_operation_unlink(mf_operation **list, mf_operation *op);
void mf_operation_finish(mf_operation *op, mf_error_object *error, mf_operation **finished); /* op is in no list */
void mf_operations_call_back(mf_messages *m, mf_operation *finished);
/* Ends those waiting operations that fit in the error; each gets a reference. */
void mf_messages_fail(mf_messages *m, bool (*fits)(const mf_messages *, const mf_operation *, const void *), const void *what,
                      mf_error_object *error, mf_operation **finished);
bool mf_operation_any(const mf_messages *m, const mf_operation *op, const void *unused);      /* always fits */
bool mf_operation_is_of_call(const mf_messages *m, const mf_operation *op, const void *call); /* fits operations of *(uint64_t *)call */
void mf_messages_fail_all(mf_messages *m, mf_error_object *error, mf_operation **finished);   /* the link cannot be used any more */
bool mf_messages_is_gone(const mf_messages *m, int process);                                  /* no messages to it or from it any more */
bool mf_messages_is_lost(const mf_messages *m, int process, const mf_message_tag *tag); /* or the message may depend on a dead process */

/* ---- peer_errors.c */
mf_error_object *mf_peer_error_differs(int peer, const mf_message_tag *own, const void *theirs, size_t count); /* its description */
mf_error_object *mf_peer_error_over(int peer, uint64_t call, bool well, const char *text); /* text: which call it was, or why it failed */
mf_error_object *mf_peer_error_late(const mf_messages *m, const mf_operation *op, int64_t now);
/* peer: the one that this process waits for */
mf_error_object *mf_peer_error_deadlock(const mf_messages *m, const mf_wait_search *s, int peer);
/* Completes the error for the operation with this tag. Called without the lock. Takes the reference; NULL gives NULL. */
mf_error_object *mf_peer_error_complete(mf_error_object *e, const mf_message_tag *own);
mf_error_object *mf_messages_gone_error(const mf_messages *m, int process); /* why none are exchanged with it (-1: anybody) */
mf_error_object *mf_messages_dead_error(const mf_messages *m);              /* of the first death, which may have caused the others */
void mf_peer_put_status(mf_text *t, const mf_messages *m);                  /* where this process is, for processes that wait for it */

/* ---- offers.c */
/* Offers a send whose bytes, or their copy, lie in this process's range. The value is the header's `at`; 0: the payload has to be sent. */
uint64_t mf_operation_lend(const mf_messages *m, mf_operation *op);
/* Whether the operation may end now, successfully or not; withdraws its offer. */
bool mf_operation_may_end(const mf_messages *m, mf_operation *op);
bool mf_operation_is_lent(const mf_operation *op);                   /* the other side has borrowed it, and reads it when it likes */
bool mf_loan_return(const mf_messages *m, int process, uint64_t id); /* false: the owner has withdrawn it */
/* Takes an offer of a process to copy from it, or to borrow it, until this process says that it has read it. False: it was withdrawn. */
bool mf_offer_take(const mf_messages *m, int process, uint64_t id, bool lent);

/* ---- deadlock.c */
/* Completes a STATUS about its call. In answer to a search it has edges, at most EDGES; returns their number of bytes. */
size_t mf_deadlock_fill_status(const mf_messages *m, mf_message_header *h, mf_wait_edge *edges);
void mf_deadlock_handle_status(mf_messages *m, const mf_message_header *h, const void *edges,
                               mf_operation **finished);                       /* in answer to the search */
void mf_deadlock_search(mf_messages *m, int64_t now, mf_operation **finished); /* begins a search, if an operation has waited for long */

/* ---- key_value.c */
void mf_key_value_begin(mf_messages *m);
void mf_key_value_end(mf_messages *m);
void mf_key_value_wake(mf_messages *m); /* something has ended for which a get may wait */
bool mf_key_value_is_well_formed(const mf_message_header *h, size_t payload);
void mf_key_value_handle(mf_messages *m, const mf_message_header *h, const unsigned char *payload, mf_operation **finished);
mf_error_object *mf_key_value_get(mf_comm *c, const void *key, size_t size, double seconds, void **value, size_t *count);
mf_error_object *mf_key_value_put(mf_comm *c, const void *key, size_t size, const void *value, size_t count);

/* ---- calls_over.c */
bool mf_messages_is_over(const mf_messages *m, uint64_t call);
void mf_messages_set_ended(mf_messages *m, uint64_t call);
/* What to tell a process that asks about a call that is over here: why it ended, or with *well set which call it was. `buffer` holds the
 * text in that case. */
const char *mf_messages_end_of(const mf_messages *m, uint64_t call, mf_text *buffer, bool *well);

/* ---- protocol.c: sending */
/* Sends a message; one of an operation (tag; else NULL) has its description behind its payload. False: memory is out. */
bool mf_messages_post(mf_messages *m, int to, mf_message_header h, const void *payload, size_t count, const mf_message_tag *tag,
                      mf_operation **finished);
void mf_messages_post_text(mf_messages *m, int to, mf_message_kind k, uint64_t call, uint64_t id, const char *text,
                           mf_operation **finished);
void mf_operation_move(mf_messages *m, mf_operation *op, mf_operation **finished); /* starts its next piece; op is in no list */

/* ---- protocol.c: a message and its receive */
unsigned mf_messages_bucket(int peer, const mf_message_tag *tag);
void mf_messages_accept_offer(mf_messages *m, mf_operation *op, const mf_message_header *h, const void *description,
                              mf_operation **finished); /* h is an offer */
void mf_messages_deliver(mf_messages *m, mf_operation *op, const mf_message_header *h, const void *payload, mf_operation **finished);
void mf_messages_refuse(mf_messages *m, const mf_message_header *h, mf_operation **finished); /* no receive will be posted for it */

void mf_operation_ask_why(mf_messages *m,
                          mf_operation *op); /* the offer was withdrawn; the answer of its owner to a STATUS_QUERY will say why */
/* Checks and handles a message that has arrived. */
void mf_messages_handle(mf_messages *m, const unsigned char *bytes, size_t count, mf_operation **finished);
void mf_messages_abort(mf_messages *m, uint64_t call, const char *why, mf_operation **finished); /* messages.c */

/* ---- driver.c; without the lock */
bool mf_driver_start(mf_messages *m); /* false: the system refuses the thread */
void mf_driver_stop(mf_messages *m);  /* waits for the thread to end */

/* ---- progress.c */
bool mf_messages_receive_next(mf_messages *m, mf_operation **finished); /* posts the next receive of the ring */
bool mf_messages_progress(mf_messages *m, mf_operation **finished);     /* whether something arrived or moved */

#endif
