/* What the files of the messages share: their headers, the operations that wait for the other side or move, and the state of a
 * communicator. All functions but mf_operations_call_back, and the driver's, are called with its lock held; what ends goes into a list, whose done is
 * called without it. */
#ifndef MF_COMM_PROTOCOL_H
#define MF_COMM_PROTOCOL_H

#include "comm/messages.h"
#include "comm/shared_memory.h"

#include <pthread.h>

#define RING        8                   /* receives for headers, used in turn */
#define INLINE_NEAR ((size_t)16 << 10)  /* by a ring; what is larger is copied from where it lies */
#define INLINE_MOST ((size_t)60 << 10)  /* by the link: a message of 64 KiB is what its libraries send at once */
#define WINDOW      ((uint64_t)1 << 20) /* inline bytes that a process has not taken yet: more are offered */
#define WORDS_MOST  960
#define SLOT        (sizeof(mf_message_header) + INLINE_MOST + WORDS_MOST)
#define LOOKS       8 /* of which one asks for the time */
#define BUCKETS     64
#define CALLS_OPEN  4096 /* between the oldest and the newest call under way */
#define ABORTS_KEPT 16

#define MS            ((int64_t)1000000) /* ns */
#define FIRST_ASKED   (20 * MS)
#define ASKED_AT_MOST (1000 * MS) /* apart */

#define NAP_MIN (30 * 1000) /* ns, of a thread that looks again and again */
#define NAP_MAX MS

typedef enum mf_message_kind {
    DATA,
    OFFER,
    GO,
    NO,
    TAKEN,
    TOOK,
    WHERE,
    HERE,
    OVER,
    BYE,
    ALL_LEFT,
    PUT,
    GET,
    GET_OVER,
    VALUE,
    NO_VALUE,
    KINDS
} mf_message_kind; /* from PUT on: key_value.c */

enum { BEGUN = 1, RESTS = 2, COMPLETE = 4 }; /* the check of a HERE: the call has begun; crosswise.c */
enum { OTHER_PROGRAM = 1, WELL, FAILED };    /* the check of a NO or an OVER: the call is over, or why not */

typedef struct mf_message_header {
    uint32_t magic, kind, from, tag; /* tag: of GO; of DATA and OFFER, how many bytes of words follow their payload */
    uint64_t call, place, check, size, id, taken;
    uint64_t at; /* of an OFFER: where in the sender's range of shared memory, from 1 on; 0: it has to be sent */
} mf_message_header;

/* What the word of an offer in shared memory holds: one of these, and above it the offer's id. Whoever gives an offer up, or takes it,
 * changes the word, and the other cannot any more: so nobody reads what its owner has for something else. What is lent its owner may give
 * up all the same, and the borrower finds out when it says that it has read it. */
enum { OFFERED = 1, LENT, TAKES, WITHDRAWN, OFFER_STATES };

#define EDGES 128

typedef struct mf_wait_edge { /* crosswise.c: a process that is waited for, and the version of its run at which it was told to rest */
    uint64_t version, process;
} mf_wait_edge;

typedef struct mf_outgoing { /* a header on its way */
    struct mf_outgoing *next;
    uintptr_t request;
    size_t count; /* behind the header */
    mf_message_header head;
    unsigned char payload[];
} mf_outgoing;

typedef struct mf_arrived { /* before anybody asked for it */
    struct mf_arrived *next;
    mf_message_header head;
    unsigned char payload[];
} mf_arrived;

typedef struct mf_operation { /* a receipt, or a send that is too large to go with its mf_message_header */
    struct mf_operation *next;
    bool sends;
    int peer, tag;
    mf_message_tag of;
    unsigned char *bytes;
    size_t count, moved, piece;
    uintptr_t request;
    uint64_t id;
    _Atomic uint64_t *offered; /* of a send: the word of its offer in shared memory, or NULL */
    const unsigned char *from; /* of a receipt: where the payload lies in shared memory, or NULL */
    mf_loan *loan;             /* of a receipt that leaves it there; or NULL */
    void *copied;              /* of a send: a copy of its bytes, in shared memory; or NULL */
    int64_t since, ask_at;
    bool begun, rests; /* the other process had begun the call, or its run of it rested at that version, when it answered last */
    uint64_t rest_version;
    mf_message_done done;
    void *context;
    mf_error_object *error;
} mf_operation;

typedef struct mf_key_bytes { /* that come in pieces: so many of a total */
    unsigned char *at;
    size_t count, total;
} mf_key_bytes;

typedef struct mf_key_entry {
    struct mf_key_entry *next;
    mf_key_bytes value;
    size_t key_size;
    unsigned char key[];
} mf_key_entry;

typedef struct mf_key_asked { /* of process 0, by another one, before there is a value */
    struct mf_key_asked *next;
    int from;
    uint64_t id;
    size_t key_size;
    unsigned char key[];
} mf_key_asked;

typedef struct mf_key_get { /* of a thread of this process that waits */
    struct mf_key_get *next;
    uint64_t id;
    mf_key_bytes value;
    bool none, failed; /* there is no value; memory is out */
} mf_key_get;

typedef struct mf_peer {
    uint64_t sent, acknowledged; /* inline bytes to it */
    uint64_t taken, told;        /* inline bytes from it */
    int64_t heard;               /* when something came from it last */
    uint64_t newest;             /* call of all processes of which something came, + 1 */
    char *words;                 /* what it said last of where it is; or NULL */
    bool left, dead;
    int number;         /* of one on this machine, in the shared memory */
    mf_ring *to, *from; /* there; else NULL */
    mf_outgoing *queue; /* for which its ring had no room */
    mf_key_bytes put;   /* the value that comes from it */
} mf_peer;

typedef struct mf_call_part { /* the calls of some processes, which are numbered by themselves */
    struct mf_call_part *next;
    uint64_t name;
    uint64_t below; /* have ended; of those from it on: */
    uint64_t ended[CALLS_OPEN / 64];
} mf_call_part;

typedef struct mf_reached {
    uint64_t version, process;
    bool heard;
} mf_reached;

typedef struct mf_trail { /* from process to process that wait for each other */
    uint64_t call, id;    /* id 0: there is none, and that call was tried last */
    int64_t since;
    int count, room, missing; /* missing: have not answered */
    mf_reached *reached;      /* this process first */
} mf_trail;

typedef struct mf_messages {
    mf_comm comm;
    mf_link *link;
    const mf_shared_memory *shared; /* with those on this machine; NULL: there are none */
    int near_count, *near;          /* others on this machine */
    int queued;                     /* messages */
    int64_t timeout;
    pthread_mutex_t lock;
    pthread_cond_t news;
    pthread_t driver;
    bool idle, stopping, closed; /* closed: the link is not to be used any more */
    bool bereft;                 /* some process has died */
    int first_dead;
    const char *left; /* why nothing is sent any more; or NULL */
    mf_error_object *broken;
    uintptr_t requests[RING];
    unsigned char *ring; /* RING slots */
    int head;
    mf_outgoing *outgoing;
    mf_operation *waiting[BUCKETS]; /* for the other side: receipts by their tag, offers by their id */
    mf_operation *moving;
    mf_arrived *arrived[BUCKETS];
    int64_t arrived_count;
    const char *last_words; /* of this process's last collective, and when it began */
    int64_t last_at;
    _Atomic unsigned polls;
    _Atomic bool moves; /* something did, at the last poll */
    uint64_t next_id;
    int next_tag;
    int64_t ask_at;
    int64_t now;    /* as of a look ago, or a few */
    unsigned looks; /* for messages */
    mf_call_part *parts;
    mf_trail trail;
    struct {
        uint64_t call; /* + 1 */
        char words[WORDS_MOST];
    } aborts[ABORTS_KEPT];
    int next_abort;
    bool all_left;
    mf_peer *peers;
    struct {
        pthread_cond_t news;   /* by the monotonic clock */
        mf_key_entry *entries; /* of process 0 */
        mf_key_asked *asked;
        mf_key_get *gets;
        uint64_t next_id;
    } keys;
} mf_messages;

/* ---- operations.c */
void mf_operation_unlink(mf_operation **list, mf_operation *op);
void mf_operation_finish(mf_operation *op, mf_error_object *error, mf_operation **finished); /* it is in no list */
void mf_operations_call_back(mf_messages *m, mf_operation *finished);
/* Those that wait for the other side and fit end in the error, of which each has a reference. */
void mf_messages_fail(mf_messages *m, bool (*fits)(const mf_messages *, const mf_operation *, const void *), const void *what,
                      mf_error_object *error, mf_operation **finished);
bool mf_operation_any(const mf_messages *m, const mf_operation *op, const void *unused);      /* fits always */
bool mf_operation_is_of_call(const mf_messages *m, const mf_operation *op, const void *call); /* fits those of *(uint64_t *)call */
void mf_messages_fail_all(mf_messages *m, mf_error_object *error, mf_operation **finished);   /* the link is of no use any more */
bool mf_messages_is_gone(const mf_messages *m, int process);                                  /* nothing is exchanged with it any more */
bool mf_messages_is_lost(const mf_messages *m, int process, const mf_message_tag *tag);       /* or it would be in vain */

/* ---- peer_errors.c */
mf_error_object *mf_peer_error_differs(int peer, const mf_message_tag *own, const void *theirs, size_t count); /* what it computes there */
mf_error_object *mf_peer_error_over(int peer, uint64_t call, bool well,
                                    const char *words); /* words: what call that was, or why it failed */
mf_error_object *mf_peer_error_late(const mf_messages *m, const mf_operation *op, int64_t now);
mf_error_object *mf_peer_error_crosswise(const mf_messages *m, const mf_trail *t, int peer); /* for which this process waits */
/* The error as it is given to the operation of this tag; no lock is held. Takes the reference; NULL: NULL. */
mf_error_object *mf_peer_error_complete(mf_error_object *e, const mf_message_tag *own);
mf_error_object *mf_messages_gone(const mf_messages *m, int process); /* why nothing is exchanged with it (-1: anybody) any more */
mf_error_object *mf_messages_dead_error(const mf_messages *m);        /* names the first: the others may have ended because of it */
void mf_peer_whereabouts(mf_text *t, const mf_messages *m);           /* for those who wait for this process */

/* ---- offers.c */
/* For a send whose bytes lie there, or were copied; what it says in its header. 0: it has to be sent otherwise. */
uint64_t mf_operation_lend(const mf_messages *m, mf_operation *op);
/* Whether it may end now, well or not. */
bool mf_operation_may_end(const mf_messages *m, mf_operation *op);
bool mf_operation_is_lent(const mf_operation *op);                   /* the other side has it, and reads it when it likes */
bool mf_loan_return(const mf_messages *m, int process, uint64_t id); /* false: it has been given up */
/* Whether what a process offers is this one's to take, or is lent to it, from now on until it says so. */
bool mf_offer_take(const mf_messages *m, int process, uint64_t id, bool lent);

/* ---- crosswise.c */
/* Completes a HERE about its call; the answer to a trail has edges, at most EDGES: so many bytes. */
size_t mf_crosswise_tell(const mf_messages *m, mf_message_header *h, mf_wait_edge *edges);
void mf_crosswise_hear(mf_messages *m, const mf_message_header *h, const void *edges, mf_operation **finished); /* such an answer */
void mf_crosswise_look(mf_messages *m, int64_t now, mf_operation **finished); /* whether what waits waits for ever */

/* ---- key_value.c */
void mf_key_value_begin(mf_messages *m);
void mf_key_value_end(mf_messages *m);
void mf_key_value_wake(mf_messages *m); /* something has ended that a get may wait for */
bool mf_key_value_is_sound(const mf_message_header *h, size_t payload);
void mf_key_value_handle(mf_messages *m, const mf_message_header *h, const unsigned char *payload, mf_operation **finished);
mf_error_object *mf_key_value_get(mf_comm *c, const void *key, size_t size, double seconds, void **value, size_t *count);
mf_error_object *mf_key_value_put(mf_comm *c, const void *key, size_t size, const void *value, size_t count);

/* ---- calls_over.c */
bool mf_messages_is_over(const mf_messages *m, uint64_t call);
void mf_messages_set_ended(mf_messages *m, uint64_t call);
/* For those who ask about a call that is over here, or would: why; *well: it ended so, and these are words of it. In `told`, if nobody
 * has said why. */
const char *mf_messages_end_of(const mf_messages *m, uint64_t call, mf_text *told, bool *well);

/* ---- protocol.c: sending */
/* A message of an operation (of: its tag, or NULL) has its words behind its payload. False: memory is out. */
bool mf_messages_post(mf_messages *m, int to, mf_message_header h, const void *payload, size_t count, const mf_message_tag *of,
                      mf_operation **finished);
void mf_messages_say(mf_messages *m, int to, mf_message_kind k, uint64_t call, uint64_t id, const char *words, mf_operation **finished);
void mf_operation_move(mf_messages *m, mf_operation *op, mf_operation **finished); /* its next piece over the link; it is in no list */

/* ---- protocol.c: a message and its receipt */
unsigned mf_messages_bucket(int peer, const mf_message_tag *of);
void mf_messages_accept(mf_messages *m, mf_operation *op, const mf_message_header *h, const void *words,
                        mf_operation **finished); /* an offer */
void mf_messages_take(mf_messages *m, mf_operation *op, const mf_message_header *h, const void *payload, mf_operation **finished);
void mf_messages_refuse(mf_messages *m, const mf_message_header *h, mf_operation **finished); /* nobody will ask for it */

void mf_operation_ask_why(mf_messages *m, mf_operation *op); /* what was offered has been given up: the other process's answer says why */
/* Whatever has come from anybody: checked, and done what it asks for. */
void mf_messages_handle(mf_messages *m, const unsigned char *bytes, size_t count, mf_operation **finished);
void mf_messages_abort(mf_messages *m, uint64_t call, const char *why, mf_operation **finished); /* messages.c */

/* ---- driver.c; without the lock */
bool mf_driver_start(mf_messages *m); /* false: the system refuses the thread */
void mf_driver_stop(mf_messages *m);  /* and waits for its end */

/* ---- progress.c */
bool mf_messages_receive_next(mf_messages *m, mf_operation **finished); /* of the ring */
bool mf_messages_progress(mf_messages *m, mf_operation **finished);     /* whether something came or moved */

#endif
