/* The PJRT client: a plugin's devices as a client of ours, whose programs cross as StableHLO text.
 * Invariants: what would stop the process inside of a plugin is checked before it is called; a plugin's error keeps its own words; of
 * calls over several devices, which may meet in collectives, the next begins on all of them after the one before it, and PJRT_IN_FLIGHT
 * at most are under way; of other calls, PJRT_UNREAD at most, so what nobody reads takes no more memory than these. */
#ifndef MF_BACKEND_PJRT_H
#define MF_BACKEND_PJRT_H

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
    char *path;            /* of its shared object */
    struct mf_comm *nodes; /* the processes that the plugin knows as its nodes; NULL: this one is alone */
    bool is_cpu;           /* XLA's own CPU plugin: its platform is "cpu" */
    bool stacks;           /* small maps are one program, over the rows of all of their devices (pjrt_stack.c) */
    bool calls_host;       /* its programs can call the host (pjrt_host.c) */
    pthread_mutex_t calls; /* held while a call over several devices begins, so that one begins at a time */
    pthread_mutex_t lock;
    pthread_cond_t changed;
    int in_flight[2]; /* calls under way: of programs without collectives, and with some */
} pjrt_client;
static inline pjrt_client *pjrt_client_of(const mf_client *c) { return (pjrt_client *)(uintptr_t)c; }

/* Calls a function of the API. NULL, or an error with the plugin's words, "name: function: words", at the location (NULL: where the user's call
 * is). */
mf_error_object *pjrt_call(const pjrt_client *c, int function, const void *location, void *arguments);
#define PJRT_HEAD(type)    \
    {                      \
        sizeof(type), NULL \
    }
/* Destroys an object, NULL allowed, by this function of the API; an error of it is ignored. */
void pjrt_destroy(const pjrt_client *c, int function, void *object);
mf_error_object *pjrt_await(const pjrt_client *c, void *event, const void *location); /* and destroys it; NULL: none */
/* An error that the plugin gave, which is destroyed. */
mf_error_object *pjrt_error(const pjrt_client *c, int function, const void *location, void *error);

/* ---- memory (pjrt_memory.c). What a buffer's `data` is: the bytes on the host, or in the plugin's buffers, or both. A plugin's buffer
 * has a type, so one memory may be in several forms: of some of its bytes, of a type, on a device. They are made when a program wants
 * them, and stay as long as the memory. Where the plugin can, a form is the bytes on the host themselves; one that there is on another
 * device is copied from there. */
typedef struct pjrt_view { /* where in the memory, and what lies there */
    mf_dtype dtype;
    int rank;
    int64_t dims[MF_RANK], strides[MF_RANK], offset;
} pjrt_view;

bool pjrt_allocate(mf_buffer *b);
void pjrt_release(mf_buffer *b);
bool pjrt_from_host(mf_buffer *b, const void *bytes);
mf_error_object *pjrt_to_host(const mf_buffer *b, int64_t from, int64_t count, void *out);
mf_buffer *pjrt_to_device(const mf_buffer *b, int device); /* the client's `copied` */

/* Whether the view is all of b, row by row. */
bool pjrt_view_is_whole(const pjrt_view *v, size_t bytes);
/* The form of the view on the device. *kept: others hold that buffer too, so no program may take its memory. NULL and *error. */
void *pjrt_form(mf_buffer *b, const pjrt_view *v, int device, bool *kept, mf_error_object **error);
bool pjrt_add_form(mf_buffer *b, const pjrt_view *v, int device, void *buffer); /* takes it; false: memory is out */
void pjrt_forget_form(mf_buffer *b, const void *buffer);                        /* and destroys it: a run took what it held */
/* Bytes on the host that never change, as long as somebody holds them: memory of ours, or a plugin that reads them. */
typedef struct pjrt_bytes {
    mf_object object;
    size_t size;
    unsigned char *at; /* 64-byte aligned, which is what a plugin wants of memory that it does not copy */
} pjrt_bytes;
pjrt_bytes *pjrt_bytes_new(size_t size); /* NULL: memory is out */
/* A plugin's buffer of the view's elements, which are all that these bytes are, row by row. It holds them as long as it likes. */
void *pjrt_upload(pjrt_client *c, const pjrt_view *v, pjrt_bytes *rows, int device, mf_error_object **error);

/* ---- create options (pjrt_options.c) */
enum { PJRT_MOST_OPTIONS = 32, PJRT_NODE_OPTIONS = 2 };
typedef struct pjrt_options {
    pjrt_named_value list[PJRT_MOST_OPTIONS + PJRT_NODE_OPTIONS];
    size_t count;
    char *text;       /* into which names and words point */
    int64_t *numbers; /* of the lists */
} pjrt_options;
/* Of "key=value,key=value"; freed in either case. name: the plugin's, for an error's words. */
mf_error_object *pjrt_options_read(pjrt_options *o, const char *name, const char *text);
void pjrt_options_free(pjrt_options *o);

/* ---- several processes (pjrt_nodes.c) */
/* Adds to the options, which have room for PJRT_NODE_OPTIONS more, which node of how many this is, and their store. False: it is alone. */
bool pjrt_add_nodes(pjrt_client *c, pjrt_client_create *ask, pjrt_named_value *options);
bool pjrt_refuses_nodes(const mf_error_object *error); /* the plugin knows no such options */
void pjrt_take_nodes_back(pjrt_client *c, pjrt_client_create *ask);

/* ---- programs */
/* What a program finds out, of each replica one number beside its results (hlo_findings.c); outlives the executable. */
typedef struct pjrt_host_calls pjrt_host_calls;
typedef struct pjrt_findings {
    mf_object object;
    pjrt_host_calls *host; /* NULL: the program makes none */
    mf_program *program;   /* of whose equations they are */
    mf_hlo_findings list;
    int replicas;
    int devices[]; /* by replica */
} pjrt_findings;

typedef struct pjrt_executable {
    mf_executable base;
    void *loaded;
    const mf_eqn *map; /* the program is this map alone: arguments and results are the devices' own rows; or NULL */
    int replicas;
    int map_size;                        /* of the map; 1 without */
    mf_program *stacked;                 /* the map over all rows at once, as one replica on the first device; NULL: it is not run so */
    pjrt_findings *findings;             /* NULL: it finds out nothing */
    const mf_type **in;                  /* of each input, the type that a replica takes */
    mf_hlo_part *in_parts, *out_parts;   /* of each input and output, what a device has; a stacked program's replica has all of it */
    bool named;                          /* its maps name the devices */
    bool meets;                          /* it has collectives, at which its devices wait for one another */
    bool apart;                          /* each of its devices runs a program of one replica */
    _Atomic(const mf_sharding *) *where; /* of each output, where the last call had it */
    _Atomic(void *) room;                /* working memory of a call that has ended, for the next one */
    int devices[];                       /* by replica, or of a stacked map by index; else of one replica, which runs on any */
} pjrt_executable;

/* What a replica takes or gives of an input or output of which a device has this part. */
static inline const mf_hlo_part *pjrt_part_of_replica(const pjrt_executable *x, const mf_hlo_part *part)
{
    static const mf_hlo_part whole = { 0 };
    return x->stacked ? &whole : part;
}

mf_error_object *pjrt_load(const mf_load_request *load, mf_executable **x);                          /* pjrt_load.c */
mf_error_object *pjrt_run(mf_executable *x, mf_array *const *in, const bool *moved, mf_array **out); /* pjrt_execute.c */
/* The same, where a program that is portable runs on that device, and its results are committed there; -1: where its arguments are. */
mf_error_object *pjrt_run_on(mf_executable *x, mf_array *const *in, int device, mf_array **out);

/* ---- small maps as one program (pjrt_stack.c) */
/* The program of all rows that p, which is this map alone, is; one reference. NULL: it is to run as replicas. */
mf_program *pjrt_stack(const mf_program *p, const mf_eqn *map);

/* Adds to the list what only a run can answer: the checks, and the branches and loops with collectives whose predicate may differ between
 * those who take part (pjrt_agreement.c). NULL, or that memory is out. */
mf_error_object *pjrt_check_agreement(const mf_program *p, mf_hlo_findings *list);

/* ---- the folder of executables (pjrt_cache.c) */
/* The loaded executable of this text and these options; NULL: there is none that serves. And puts one there. */
void *pjrt_cached(const pjrt_client *c, const mf_text *code, const mf_text *options);
void pjrt_cache(const pjrt_client *c, const mf_text *code, const mf_text *options, void *loaded);

/* ---- findings (pjrt_findings.c) */
pjrt_findings *pjrt_findings_new(const pjrt_executable *x); /* without any yet; NULL: memory is out */
/* At the location of the call where many lines share the program, else at the equation's. NULL: none was found. */
mf_error_object *pjrt_findings_error(const pjrt_findings *s, const uint64_t *found, const void *location, bool shared);

/* ---- calls of the host (pjrt_host.c) */
/* Gives the plugin the handler, where it has a place for it and its devices compute in the host's memory. False: programs make no calls. */
bool pjrt_offer_host_calls(const pjrt_client *c);
pjrt_host_calls *pjrt_host_calls_new(mf_program *program); /* NULL: memory is out */
int64_t pjrt_host_calls_name(const pjrt_host_calls *s);
bool pjrt_host_calls_list(pjrt_host_calls *s, const mf_hlo_findings *list); /* once it is made. False: memory is out */
mf_error_object *pjrt_host_calls_error(pjrt_host_calls *s, uint64_t found); /* of a call that found this; it is taken out */

/* ---- programs that the plugin cannot run as one: in steps, some of them on the host (pjrt_cut.c, pjrt_steps.c). A value is what goes
 * into the program, out of it, or from step to step. */
typedef struct pjrt_step {
    mf_program *program;
    mf_executable *x; /* of the CPU where it runs on the host */
    bool on_host;
    int *in, *out; /* values, by the program's inputs and outputs */
    int out_count; /* of those; a program of none gives a truth that is no value */
} pjrt_step;
typedef struct pjrt_steps {
    MF_VECTOR(pjrt_step) list;
    int value_count;
    int *in, *out; /* values, by the inputs and outputs of the whole; -1: nobody takes it */
} pjrt_steps;
bool pjrt_needs_steps(const mf_program *p, bool calls_host);       /* calls_host: whether the plugin's programs can */
mf_error_object *pjrt_cut(const mf_program *p, pjrt_steps *steps); /* into steps that are not loaded yet */
mf_error_object *pjrt_load_steps(const mf_load_request *load, mf_executable **loaded);

/* ---- events (pjrt_event.c) */
/* The future of a call that is in flight, over so many devices, whose events come one by one (pjrt_future_add). NULL: memory is out. */
mf_future *pjrt_future_new(pjrt_client *c, int count, bool meets, const void *location);
/* One of its events, which it destroys; NULL: it has come. device: whose part of the run ends with it; -1: nobody's. */
void pjrt_future_add(mf_future *f, void *event, int device);
/* The parts of the run are recorded, where the profiler records, under this name, which is interned or NULL: from now until their events
 * come. devices: of a run that has one event for all of them, as many as there are; NULL: each has its own. */
void pjrt_future_record(mf_future *f, const char *name, const int *devices, int count);
/* One of its events did not come to be: takes the error. */
void pjrt_future_fail(mf_future *f, mf_error_object *error);
/* What the call finds out is read to this, by replica, before its last event comes. NULL: memory is out. */
uint64_t *pjrt_future_findings(mf_future *f, const pjrt_executable *x);
/* Counts a call in, once there is room; and out, where it did not begin: else its future does when it ends. */
void pjrt_enter_flight(pjrt_client *c, bool meets);
void pjrt_leave_flight(pjrt_client *c, bool meets);

#endif
