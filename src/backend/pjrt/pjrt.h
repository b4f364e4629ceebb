/* The PJRT client: a plugin's devices as one of our clients; programs are handed over as StableHLO text.
 * Invariants: arguments that would make a plugin abort the process are rejected before it is called; a plugin's error keeps its own
 * words; calls over several devices, which may meet in collectives, begin one at a time, each on all of its devices, and at most
 * PJRT_IN_FLIGHT are in flight; of other calls at most PJRT_UNREAD are, so results that nobody reads take no more memory than that. */
#ifndef MF_BACKEND_PJRT_PJRT_H
#define MF_BACKEND_PJRT_PJRT_H

#include "backend/pjrt/pjrt_api.h"
#include "array/array.h"
#include "ir/program.h"
#include "runtime/backend.h"
#include "stablehlo/hlo_module.h"

#include <pthread.h>

enum { PJRT_IN_FLIGHT = 16, PJRT_UNREAD = 256, PJRT_MOST_DEVICES = 4096 };

typedef struct pjrt_client {
    mf_client base;
    const pjrt_api *api;
    void *client;
    void *const *devices; /* by our id */
    int *ids;             /* the plugin's, by ours */
    int device_count;
    char *path;            /* of the plugin's shared object */
    struct mf_comm *nodes; /* the processes that the plugin knows as its nodes; NULL: this process is alone */
    bool is_cpu;           /* XLA's own CPU plugin: its platform is "cpu" */
    bool stacks;           /* small maps are one program, over the rows of all of their devices (pjrt_stack.c) */
    bool calls_host;       /* its programs can call the host (pjrt_host.c) */
    pthread_mutex_t calls; /* held while a call over several devices begins, so that one begins at a time */
    pthread_mutex_t lock;
    pthread_cond_t changed;
    int in_flight[2]; /* calls in flight: of programs without collectives, and with collectives */
} pjrt_client;
static inline pjrt_client *pjrt_client_of(const mf_client *c) { return (pjrt_client *)(uintptr_t)c; }

/* Calls a function of the API. Returns NULL, or an error with the plugin's words, "name: function: words", at the location (NULL: that
 * of the user's call). */
mf_error_object *pjrt_call(const pjrt_client *c, int function, const void *location, void *arguments);
#define PJRT_HEAD(type)    \
    {                      \
        sizeof(type), NULL \
    }
/* Destroys an object, which may be NULL, with this function of the API; an error is ignored. */
void pjrt_destroy(const pjrt_client *c, int function, void *object);
mf_error_object *pjrt_await(const pjrt_client *c, void *event, const void *location); /* and destroys the event, which may be NULL */
/* Converts an error of the plugin, which is destroyed. */
mf_error_object *pjrt_error(const pjrt_client *c, int function, const void *location, void *error);

/* ---- memory (pjrt_memory.c). A buffer's `data` holds the bytes on the host, in plugin buffers, or both. A plugin's buffer is typed, so
 * one memory may have several forms, each some of its bytes, as a type, on a device. Forms are made when a program needs them and live
 * as long as the memory. Where the plugin can, a form uses the host's bytes in place; a form that exists on another device is copied
 * from there. */
typedef struct pjrt_view { /* which bytes of the memory, and their type */
    mf_dtype dtype;
    int rank;
    int64_t dims[MF_RANK], strides[MF_RANK], offset;
} pjrt_view;

bool pjrt_allocate(mf_buffer *b);
void pjrt_release(mf_buffer *b);
bool pjrt_from_host(mf_buffer *b, const void *bytes);
mf_error_object *pjrt_to_host(const mf_buffer *b, int64_t from, int64_t count, void *out);
mf_buffer *pjrt_to_device(const mf_buffer *b, int device); /* implements the client's `copied` */

/* Whether the view covers all of b in row-major order. */
bool pjrt_view_is_whole(const pjrt_view *v, size_t bytes);
/* The form of the view on the device. *kept: the plugin's buffer is shared, so no program may take its memory. NULL and *error on
 * failure. */
void *pjrt_form(mf_buffer *b, const pjrt_view *v, int device, bool *kept, mf_error_object **error);
bool pjrt_add_form(mf_buffer *b, const pjrt_view *v, int device, void *buffer); /* takes the buffer; false: out of memory */
void pjrt_forget_form(mf_buffer *b, const void *buffer);                        /* and destroys it: a run took its contents */
/* Immutable bytes on the host, reference-counted: held by our memory, or by a plugin that reads them. */
typedef struct pjrt_bytes {
    mf_object object;
    size_t size;
    unsigned char *at; /* 64-byte aligned, as a plugin requires of memory that it does not copy */
} pjrt_bytes;
pjrt_bytes *pjrt_bytes_new(size_t size); /* NULL: out of memory */
/* A plugin's buffer of the view's elements; `rows` holds exactly these, row-major. The buffer keeps a reference as long as the plugin
 * reads them. */
void *pjrt_upload(pjrt_client *c, const pjrt_view *v, pjrt_bytes *rows, int device, mf_error_object **error);

/* ---- create options (pjrt_options.c) */
enum { PJRT_MOST_OPTIONS = 32, PJRT_NODE_OPTIONS = 2 };
typedef struct pjrt_options {
    pjrt_named_value list[PJRT_MOST_OPTIONS + PJRT_NODE_OPTIONS];
    size_t count;
    char *text;       /* storage of names and words */
    int64_t *numbers; /* storage of the lists */
} pjrt_options;
/* Parses "key=value,key=value"; the caller frees o in either case. name: the plugin's, for error messages. */
mf_error_object *pjrt_options_read(pjrt_options *o, const char *name, const char *text);
void pjrt_options_free(pjrt_options *o);

/* ---- several processes (pjrt_nodes.c) */
/* Adds the node's number, the number of nodes and the key-value store to the options, which have room for PJRT_NODE_OPTIONS more. False:
 * this process is alone. */
bool pjrt_add_nodes(pjrt_client *c, pjrt_client_create *args, pjrt_named_value *options);
bool pjrt_refuses_nodes(const mf_error_object *error); /* because the plugin does not know these options */
void pjrt_take_nodes_back(pjrt_client *c, pjrt_client_create *args);

/* ---- programs */
/* What a program reports beside its results, one number per replica (hlo_findings.c); outlives the executable. */
typedef struct pjrt_host_calls pjrt_host_calls;
typedef struct pjrt_findings {
    mf_object object;
    pjrt_host_calls *host; /* NULL: the program makes no host calls */
    mf_program *program;   /* whose equations are reported */
    mf_hlo_findings list;
    int replicas;
    int devices[]; /* by replica */
} pjrt_findings;

typedef struct pjrt_executable {
    mf_executable base;
    void *loaded;
    const mf_eqn *map; /* the program is only this map: arguments and results are the devices' rows; or NULL */
    int replicas;
    int map_size;                        /* of the map; 1 without one */
    mf_program *stacked;                 /* the map over all rows at once, as one replica on the first device; NULL: it runs as replicas */
    pjrt_findings *findings;             /* NULL: the program reports nothing */
    const mf_type **in;                  /* by input, the type that a replica takes */
    mf_hlo_part *in_parts, *out_parts;   /* by input and output, a device's part; the replica of a stacked program has everything */
    bool named;                          /* its maps name the devices */
    bool has_collectives;                /* it has collectives, in which its devices wait for one another */
    bool one_replica_each;               /* each device runs a program of one replica */
    _Atomic(const mf_sharding *) *where; /* by output, its sharding in the last call */
    _Atomic(void *) lists;               /* working memory of a finished call, for the next one */
    int devices[];                       /* by replica; of a stacked map by index; a program of one replica runs on any device */
} pjrt_executable;

/* The part of an input or output that a replica takes or gives, where a device has `part`. */
static inline const mf_hlo_part *pjrt_part_of_replica(const pjrt_executable *x, const mf_hlo_part *part)
{
    static const mf_hlo_part whole = { 0 };
    return x->stacked ? &whole : part;
}

mf_error_object *pjrt_load(const mf_load_request *load, mf_executable **x);                          /* pjrt_load.c */
mf_error_object *pjrt_run(mf_executable *x, mf_array *const *in, const bool *moved, mf_array **out); /* pjrt_execute.c */
/* The same, but a portable program runs on that device, and its results are committed there; -1: on the device of its arguments. */
mf_error_object *pjrt_run_on(mf_executable *x, mf_array *const *in, int device, mf_array **out);

/* ---- small maps as one program (pjrt_stack.c) */
/* The program over all rows that is equivalent to p, which is only this map; a new reference. NULL: the map must run as replicas. */
mf_program *pjrt_stack(const mf_program *p, const mf_eqn *map);

/* Adds to the list what is only known at run time: the checks, and the branches and loops with collectives whose predicate may differ
 * between participants (pjrt_agreement.c). Returns NULL, or the out-of-memory error. */
mf_error_object *pjrt_check_agreement(const mf_program *p, mf_hlo_findings *list);

/* ---- the compilation cache (pjrt_cache.c) */
/* pjrt_cached: the loaded executable of this text and these options; NULL: none is usable. pjrt_cache: stores one. */
void *pjrt_cached(const pjrt_client *c, const mf_text *code, const mf_text *options);
void pjrt_cache(const pjrt_client *c, const mf_text *code, const mf_text *options, void *loaded);

/* ---- findings (pjrt_findings.c) */
pjrt_findings *pjrt_findings_new(const pjrt_executable *x); /* empty; NULL: out of memory */
/* The error has the call's location where calls from several lines share the program, else the equation's. NULL: nothing was reported. */
mf_error_object *pjrt_findings_error(const pjrt_findings *s, const uint64_t *found, const void *location, bool shared);

/* ---- host calls (pjrt_host.c) */
/* Registers the handler with the plugin, if it supports this and its devices compute in the host's memory. False: programs cannot call
 * the host. */
bool pjrt_offer_host_calls(const pjrt_client *c);
pjrt_host_calls *pjrt_host_calls_new(mf_program *program); /* NULL: out of memory */
int64_t pjrt_host_calls_name(const pjrt_host_calls *s);
bool pjrt_host_calls_list(pjrt_host_calls *s, const mf_hlo_findings *list); /* once the list is complete; false: out of memory */
mf_error_object *pjrt_host_calls_error(pjrt_host_calls *s, uint64_t found); /* of the host call that reported `found`; removes it */

/* ---- programs that the plugin cannot run as a whole: in steps, some of them on the host (pjrt_cut.c, pjrt_steps.c). A value is an
 * input or output of the program, or passes between steps. */
typedef struct pjrt_step {
    mf_program *program;
    mf_executable *executable; /* of the CPU client where the step runs on the host */
    bool on_host;
    int *in, *out; /* values, by the program's inputs and outputs */
    int out_count; /* length of out; a program without outputs returns one truth value, which is not a value here */
} pjrt_step;
typedef struct pjrt_steps {
    MF_VECTOR(pjrt_step) list;
    int value_count;
    int *in, *out; /* values, by inputs and outputs of the whole program; -1: unused */
} pjrt_steps;
bool pjrt_needs_steps(const mf_program *p, bool calls_host);       /* calls_host: whether the plugin's programs can */
mf_error_object *pjrt_cut(const mf_program *p, pjrt_steps *steps); /* into steps, not yet loaded */
mf_error_object *pjrt_load_steps(const mf_load_request *load, mf_executable **loaded);

/* ---- events (pjrt_event.c) */
/* The future of a call in flight over `count` devices; their events are added one by one (pjrt_future_add). NULL: out of memory. */
mf_future *pjrt_future_new(pjrt_client *c, int count, bool has_collectives, const void *location);
/* Adds an event, which the future destroys; NULL: it is complete already. device: whose part of the run ends with the event; -1: none. */
void pjrt_future_add(mf_future *f, void *event, int device);
/* Profiles the parts of the run, if the profiler records, under this name (interned, or NULL), from now until their events complete.
 * devices: the `count` devices of a run that has one event for all of them; NULL: each has its own event. */
void pjrt_future_record(mf_future *f, const char *name, const int *devices, int count);
/* One of the expected events does not exist; takes the error. */
void pjrt_future_fail(mf_future *f, mf_error_object *error);
/* Where to read what the call reports, by replica, before its last event completes. NULL: out of memory. */
uint64_t *pjrt_future_findings(mf_future *f, const pjrt_executable *x);
/* Counts a call as in flight, waiting for room; pjrt_leave_flight uncounts one that did not begin (else its future does when it ends). */
void pjrt_enter_flight(pjrt_client *c, bool has_collectives);
void pjrt_leave_flight(pjrt_client *c, bool has_collectives);

#endif
