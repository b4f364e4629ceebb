/* The part of the PJRT C API, version 0, that this client uses; its layout is that of openxla's pjrt_c_api.h: a table of functions, each of
 * which takes a pointer to its arguments and returns an error or NULL.
 * Invariants: members are only ever appended, so the table's size says which functions a plugin has, and the size at the front of an
 * argument struct says which members its caller knows. */
#ifndef MF_BACKEND_PJRT_PJRT_API_H
#define MF_BACKEND_PJRT_PJRT_API_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { PJRT_MAJOR = 0, PJRT_OLDEST_MINOR = 81 };

typedef struct pjrt_head {
    size_t size;
    void *extensions;
} pjrt_head;

typedef void *(*pjrt_function)(void *arguments);

/* Indices in the table of the functions used. */
enum {
    PJRT_ERROR_DESTROY = 0,
    PJRT_ERROR_MESSAGE = 1,
    PJRT_ERROR_CODE = 2,
    PJRT_PLUGIN_INITIALIZE = 3,
    PJRT_PLUGIN_ATTRIBUTES = 4, /* may be missing */
    PJRT_EVENT_DESTROY = 5,
    PJRT_EVENT_AWAIT = 8,
    PJRT_EVENT_ON_READY = 9,
    PJRT_CLIENT_CREATE = 10,
    PJRT_CLIENT_DESTROY = 11,
    PJRT_CLIENT_PLATFORM_NAME = 12,
    PJRT_CLIENT_PLATFORM_VERSION = 14, /* may be missing */
    PJRT_CLIENT_ADDRESSABLE_DEVICES = 16,
    PJRT_CLIENT_COMPILE = 20,
    PJRT_CLIENT_BUFFER_FROM_HOST = 22,
    PJRT_DESCRIPTION_ID = 23,
    PJRT_DEVICE_DESCRIPTION = 29,
    PJRT_DEVICE_MEMORY_STATS = 34, /* may be missing */
    PJRT_EXECUTABLE_DESTROY = 40,
    PJRT_EXECUTABLE_NUM_OUTPUTS = 44,
    PJRT_EXECUTABLE_SERIALIZE = 49, /* may be missing */
    PJRT_LOADED_DESTROY = 50,
    PJRT_LOADED_GET_EXECUTABLE = 51,
    PJRT_LOADED_EXECUTE = 55,
    PJRT_EXECUTABLE_LOAD = 56, /* may be missing */
    PJRT_BUFFER_DESTROY = 58,
    PJRT_BUFFER_IS_DELETED = 68,
    PJRT_BUFFER_COPY_TO_DEVICE = 69, /* may be missing */
    PJRT_BUFFER_TO_HOST = 70,
    PJRT_BUFFER_READY_EVENT = 72,    /* may be missing */
    PJRT_BUFFER_UNSAFE_POINTER = 73, /* may be missing */
    PJRT_FUNCTIONS,                  /* number of functions that the table must cover */
};

typedef struct pjrt_api {
    pjrt_head head;
    struct {
        pjrt_head head;
        int major, minor;
    } version;
    pjrt_function functions[];
} pjrt_api;

/* Error codes. */
enum {
    PJRT_INVALID_ARGUMENT = 3,
    PJRT_DEADLINE_EXCEEDED = 4,
    PJRT_NOT_FOUND = 5,
    PJRT_RESOURCE_EXHAUSTED = 8,
    PJRT_UNIMPLEMENTED = 12,
    PJRT_UNAVAILABLE = 14,
};

/* Arguments: the plugin sets members named *_out. Functions that take only an object share a struct. */
typedef struct pjrt_one {
    pjrt_head head;
    void *object;
} pjrt_one;

typedef struct pjrt_one_more { /* for queries with a pointer as the answer */
    pjrt_head head;
    void *object;
    void *out;
} pjrt_one_more;

typedef struct pjrt_number_of { /* for queries with a number as the answer */
    pjrt_head head;
    void *object;
    size_t out;
} pjrt_number_of;

typedef struct pjrt_int_of { /* for an id, a code or a truth value, of one to four bytes */
    pjrt_head head;
    void *object;
    union {
        int number;
        bool truth;
    } out;
} pjrt_int_of;

typedef struct pjrt_words_of {
    pjrt_head head;
    void *object;
    const char *words_out;
    size_t count_out;
} pjrt_words_of;

typedef struct pjrt_devices_of {
    pjrt_head head;
    void *client;
    void *const *devices_out;
    size_t count_out;
} pjrt_devices_of;

typedef struct pjrt_on_ready {
    pjrt_head head;
    void *event;
    void (*callback)(void *error, void *context);
    void *context;
} pjrt_on_ready;

enum pjrt_value_kind { PJRT_STRING, PJRT_INT64, PJRT_INT64_LIST, PJRT_FLOAT, PJRT_BOOL };
typedef struct pjrt_named_value {
    pjrt_head head;
    const char *name;
    size_t name_size;
    int kind;
    union {
        const char *string;
        int64_t integer;
        const int64_t *integers;
        float real;
        bool truth;
    } value;
    size_t value_size; /* length of a string or list; else 1 */
} pjrt_named_value;

typedef struct pjrt_attributes {
    pjrt_head head;
    const pjrt_named_value *list_out; /* lives as long as the plugin */
    size_t count_out;
} pjrt_attributes;

/* A key-value store that processes share, which the plugin calls; the callback that fails returns an error made by this function of the
 * plugin. */
typedef void *pjrt_make_error(int code, const char *words, size_t count);

typedef struct pjrt_key_get {
    pjrt_head head;
    const char *key;
    size_t key_size;
    int milliseconds;
    pjrt_make_error *const *make_error;
    void *context;
    char *value_out;
    size_t count_out;
    void (*free_value_out)(char *value);
} pjrt_key_get;

typedef struct pjrt_key_try_get { /* the current value, or PJRT_NOT_FOUND */
    pjrt_head head;
    const char *key;
    size_t key_size;
    pjrt_make_error *const *make_error;
    void *context;
    char *value_out;
    size_t count_out;
    void (*free_value_out)(char *value);
} pjrt_key_try_get;

typedef struct pjrt_key_put {
    pjrt_head head;
    const char *key;
    size_t key_size;
    const char *value;
    size_t count;
    pjrt_make_error *const *make_error;
    void *context;
} pjrt_key_put;

typedef struct pjrt_client_create {
    pjrt_head head;
    const pjrt_named_value *options;
    size_t option_count;
    void *(*get)(pjrt_key_get *a); /* NULL, as the other two, without a store */
    void *get_context;
    void *(*put)(pjrt_key_put *a);
    void *put_context;
    void *client_out;
    void *(*try_get)(pjrt_key_try_get *a);
    void *try_get_context;
} pjrt_client_create;

typedef struct pjrt_program {
    pjrt_head head;
    char *code;
    size_t code_size;
    const char *format;
    size_t format_size;
} pjrt_program;

typedef struct pjrt_client_compile {
    pjrt_head head;
    void *client;
    const pjrt_program *program;
    const char *options; /* a CompileOptionsProto */
    size_t option_size;
    void *loaded_out;
} pjrt_client_compile;

typedef struct pjrt_executable_serialize {
    pjrt_head head;
    void *executable;
    const char *bytes_out; /* lives as long as serialized_out, which destroy_out destroys */
    size_t count_out;
    void *serialized_out;
    void (*destroy_out)(void *serialized);
} pjrt_executable_serialize;

typedef struct pjrt_executable_load {
    pjrt_head head;
    void *client;
    const char *bytes;
    size_t count;
    void *loaded_out;
    const char *options; /* NULL: those it was serialized with */
    size_t option_size;
} pjrt_executable_load;

typedef struct pjrt_maybe { /* a number that a plugin may not know */
    int64_t number;
    bool known;
} pjrt_maybe;

typedef struct pjrt_memory_stats {
    pjrt_head head;
    void *device;
    int64_t in_use;
    pjrt_maybe peak, allocations, largest, limit, reserved, peak_reserved, reservable, largest_free, pool, peak_pool;
} pjrt_memory_stats;

/* How long the plugin may read the host's data. With PJRT_ZERO_COPY until the event, which may not complete before the buffer is
 * destroyed. */
enum pjrt_semantics { PJRT_DURING_CALL, PJRT_UNTIL_TRANSFERRED, PJRT_ZERO_COPY };

typedef struct pjrt_buffer_from_host {
    pjrt_head head;
    void *client;
    const void *data;
    int type;
    const int64_t *dims;
    size_t rank;
    const int64_t *strides;
    size_t stride_count;
    int semantics; /* enum pjrt_semantics */
    void *device, *memory, *layout;
    void *done_out, *buffer_out;
} pjrt_buffer_from_host;

typedef struct pjrt_copy_to_device {
    pjrt_head head;
    void *buffer, *device, *buffer_out;
} pjrt_copy_to_device;

typedef struct pjrt_layout { /* minor-to-major order of the dimensions, without tiles */
    pjrt_head head;
    struct {
        pjrt_head head;
        const int64_t *minor_to_major;
        size_t count;
        const int64_t *tile_dims;
        const size_t *tile_dim_sizes;
        size_t tile_count;
    } tiled;
    int kind; /* 0: tiled */
} pjrt_layout;

typedef struct pjrt_buffer_to_host {
    pjrt_head head;
    void *buffer;
    pjrt_layout *layout;
    void *to;
    size_t bytes;
    void *event_out;
} pjrt_buffer_to_host;

typedef struct pjrt_execute_options {
    pjrt_head head;
    void *sends, *receives;
    size_t send_count, receive_count;
    int launch_id;
    const int64_t *kept; /* inputs whose memory must not be taken, even if the program donates them */
    size_t kept_count;
    void *context;
    const char *call_location;
    size_t task_count;
    int *task_ids;
    int64_t *incarnation_ids;
} pjrt_execute_options;

typedef struct pjrt_execute {
    pjrt_head head;
    void *loaded;
    pjrt_execute_options *options;
    void *const *const *arguments;
    size_t device_count, argument_count;
    void **const *outputs;
    void **events; /* one per device, set by the plugin */
    void *device;  /* on which a portable executable runs */
} pjrt_execute;

/* ---- extensions: a linked list that starts in the table's head */
enum { PJRT_EXTENSION_FFI = 5, PJRT_FFI_OLDEST_MINOR = 115 };

typedef struct pjrt_extension {
    size_t size;
    int kind;
    const struct pjrt_extension *next;
} pjrt_extension;

/* ---- XLA's foreign function interface: the handler is called with a frame, once per call and stage. */
enum { PJRT_FFI_MAJOR = 0, PJRT_FFI_MINOR = 1, PJRT_FFI_METADATA = 1, PJRT_FFI_EXECUTE = 3 };
enum { PJRT_FFI_BUFFER = 1, PJRT_FFI_NUMBER = 3, PJRT_FFI_INT64 = 5 };

struct pjrt_ffi_frame;
typedef struct pjrt_ffi_register { /* as of version 0.115; 0.81 has another layout of the same size */
    size_t size;
    const char *target;
    size_t target_size;
    void *(*handler)(struct pjrt_ffi_frame *f);
    const char *platform;
    size_t platform_size;
    int traits;
} pjrt_ffi_register;

typedef struct pjrt_ffi {
    pjrt_extension head;
    pjrt_function register_type, add_user_data, register_handler;
} pjrt_ffi;

typedef struct pjrt_ffi_error {
    pjrt_head head;
    const char *words;
    int code;
} pjrt_ffi_error;

typedef struct pjrt_ffi_api { /* only its beginning */
    pjrt_head head;
    struct {
        pjrt_head head;
        int major, minor;
    } version;
    const void *inside;
    void *(*new_error)(pjrt_ffi_error *args);
} pjrt_ffi_api;

typedef struct pjrt_ffi_buffer {
    pjrt_head head;
    int type;
    void *data;
    int64_t rank;
    const int64_t *dims;
} pjrt_ffi_buffer;

typedef struct pjrt_ffi_bytes {
    const char *at;
    size_t count;
} pjrt_ffi_bytes;

typedef struct pjrt_ffi_number {
    int type;
    const void *at;
} pjrt_ffi_number;

typedef struct pjrt_ffi_list { /* arguments or results */
    pjrt_head head;
    int64_t count;
    const int *kinds;
    void *const *at;
} pjrt_ffi_list;

typedef struct pjrt_ffi_frame {
    pjrt_head head; /* a frame with an extension is not a call but another request */
    const pjrt_ffi_api *api;
    void *context;
    int stage;
    pjrt_ffi_list arguments, results;
    struct {
        pjrt_head head;
        int64_t count;
        const int *kinds;
        const pjrt_ffi_bytes *const *names;
        void *const *at;
    } attributes;
    void *future;
} pjrt_ffi_frame;

typedef struct pjrt_ffi_metadata { /* for which version the handler was written */
    size_t size;
    pjrt_head head;
    int major, minor;
    uint32_t traits;
} pjrt_ffi_metadata;

typedef struct pjrt_ffi_metadata_extension {
    pjrt_extension head;
    pjrt_ffi_metadata *metadata;
} pjrt_ffi_metadata_extension;

#endif
