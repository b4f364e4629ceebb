/* Opening a plugin: its shared object, the version of its table, its client and devices. Invariant: a plugin is only opened when asked
 * for by name, and stays open as long as the process; if a step fails, the steps before it are undone, except for the shared object,
 * which may have started threads. */
#include "backend/pjrt/plugin.h"

#include "backend/pjrt/pjrt.h"
#include "base/memory/alloc.h"
#include "runtime/device.h"

#include <dlfcn.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

/* ---- calling */

/* All functions used, so that opening a plugin can check for them. */
static const char *const names[PJRT_FUNCTIONS] = {
    [PJRT_ERROR_DESTROY] = "PJRT_Error_Destroy",
    [PJRT_ERROR_MESSAGE] = "PJRT_Error_Message",
    [PJRT_ERROR_CODE] = "PJRT_Error_GetCode",
    [PJRT_PLUGIN_INITIALIZE] = "PJRT_Plugin_Initialize",
    [PJRT_PLUGIN_ATTRIBUTES] = "PJRT_Plugin_Attributes",
    [PJRT_EVENT_DESTROY] = "PJRT_Event_Destroy",
    [PJRT_EVENT_AWAIT] = "PJRT_Event_Await",
    [PJRT_EVENT_ON_READY] = "PJRT_Event_OnReady",
    [PJRT_CLIENT_CREATE] = "PJRT_Client_Create",
    [PJRT_CLIENT_DESTROY] = "PJRT_Client_Destroy",
    [PJRT_CLIENT_PLATFORM_NAME] = "PJRT_Client_PlatformName",
    [PJRT_CLIENT_PLATFORM_VERSION] = "PJRT_Client_PlatformVersion",
    [PJRT_CLIENT_ADDRESSABLE_DEVICES] = "PJRT_Client_AddressableDevices",
    [PJRT_CLIENT_COMPILE] = "PJRT_Client_Compile",
    [PJRT_CLIENT_BUFFER_FROM_HOST] = "PJRT_Client_BufferFromHostBuffer",
    [PJRT_DESCRIPTION_ID] = "PJRT_DeviceDescription_Id",
    [PJRT_DEVICE_DESCRIPTION] = "PJRT_Device_GetDescription",
    [PJRT_DEVICE_MEMORY_STATS] = "PJRT_Device_MemoryStats",
    [PJRT_EXECUTABLE_DESTROY] = "PJRT_Executable_Destroy",
    [PJRT_EXECUTABLE_NUM_OUTPUTS] = "PJRT_Executable_NumOutputs",
    [PJRT_EXECUTABLE_SERIALIZE] = "PJRT_Executable_Serialize",
    [PJRT_LOADED_DESTROY] = "PJRT_LoadedExecutable_Destroy",
    [PJRT_LOADED_GET_EXECUTABLE] = "PJRT_LoadedExecutable_GetExecutable",
    [PJRT_LOADED_EXECUTE] = "PJRT_LoadedExecutable_Execute",
    [PJRT_EXECUTABLE_LOAD] = "PJRT_Executable_DeserializeAndLoad",
    [PJRT_BUFFER_DESTROY] = "PJRT_Buffer_Destroy",
    [PJRT_BUFFER_IS_DELETED] = "PJRT_Buffer_IsDeleted",
    [PJRT_BUFFER_COPY_TO_DEVICE] = "PJRT_Buffer_CopyToDevice",
    [PJRT_BUFFER_TO_HOST] = "PJRT_Buffer_ToHostBuffer",
    [PJRT_BUFFER_READY_EVENT] = "PJRT_Buffer_ReadyEvent",
    [PJRT_BUFFER_UNSAFE_POINTER] = "PJRT_Buffer_UnsafePointer",
};

static bool may_be_missing(int function)
{
    return function == PJRT_PLUGIN_ATTRIBUTES || function == PJRT_CLIENT_PLATFORM_VERSION || function == PJRT_DEVICE_MEMORY_STATS ||
           function == PJRT_EXECUTABLE_SERIALIZE || function == PJRT_EXECUTABLE_LOAD || function == PJRT_BUFFER_COPY_TO_DEVICE ||
           function == PJRT_BUFFER_READY_EVENT || function == PJRT_BUFFER_UNSAFE_POINTER;
}

static mf_status status_of(int code)
{
    switch (code) {
    case PJRT_RESOURCE_EXHAUSTED: return MF_ERROR_MEMORY;
    default: return MF_ERROR_DEVICE;
    }
}

mf_error_object *pjrt_error(const pjrt_client *c, int function, const void *location, void *error)
{
    pjrt_words_of words = { PJRT_HEAD(pjrt_words_of), error, "", 0 };
    pjrt_int_of code = { PJRT_HEAD(pjrt_int_of), error, { 0 } };
    c->api->functions[PJRT_ERROR_MESSAGE](&words);
    void *none = c->api->functions[PJRT_ERROR_CODE](&code);
    if (none) /* an error without a code */
        pjrt_destroy(c, PJRT_ERROR_DESTROY, none);
    int count = words.words_out ? (int)words.count_out : 0;
    mf_error_object *e = mf_error_new_at(location ? location : mf_entry_address, status_of(none ? 0 : code.out.number), "%s: %s: %.*s",
                                         c->base.platform, names[function], count, count ? words.words_out : "");
    pjrt_destroy(c, PJRT_ERROR_DESTROY, error);
    return e;
}

mf_error_object *pjrt_call(const pjrt_client *c, int function, const void *location, void *arguments)
{
    void *error = c->api->functions[function](arguments);
    return error ? pjrt_error(c, function, location, error) : NULL;
}

void pjrt_destroy(const pjrt_client *c, int function, void *object)
{
    pjrt_one what = { PJRT_HEAD(pjrt_one), object };
    if (!object)
        return;
    if (function == PJRT_ERROR_DESTROY) { /* returns nothing */
        ((void (*)(void *))(uintptr_t)c->api->functions[function])(&what);
        return;
    }
    void *error = c->api->functions[function](&what);
    if (error)
        pjrt_destroy(c, PJRT_ERROR_DESTROY, error);
}

mf_error_object *pjrt_await(const pjrt_client *c, void *event, const void *location)
{
    pjrt_one what = { PJRT_HEAD(pjrt_one), event };
    mf_error_object *error = event ? pjrt_call(c, PJRT_EVENT_AWAIT, location, &what) : NULL;
    pjrt_destroy(c, PJRT_EVENT_DESTROY, event);
    return error;
}

/* ---- opening */

static mf_error_object *find_api(pjrt_client *c, const char *path)
{
    void *library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    if (!library)
        return mf_error_new(MF_ERROR_DEVICE, "%s: the plugin cannot be opened: %s", c->base.platform, dlerror());
    const pjrt_api *(*get)(void) = (const pjrt_api *(*)(void))(uintptr_t)dlsym(library, "GetPjrtApi");
    c->api = get ? get() : NULL;
    if (!c->api)
        return mf_error_new(MF_ERROR_DEVICE, "%s: %s is no PJRT plugin: it %s", c->base.platform, path,
                            get ? "gives no table of functions" : "has no function GetPjrtApi");
    size_t least = offsetof(pjrt_api, functions) + PJRT_FUNCTIONS * sizeof(pjrt_function);
    int major = c->api->version.major, minor = c->api->version.minor;
    if (major != PJRT_MAJOR || minor < PJRT_OLDEST_MINOR || c->api->head.size < least)
        return mf_error_new(
            MF_ERROR_DEVICE,
            "%s: %s is of version %d.%d of the PJRT C API, with a table of %zu bytes; versions 0.%d and later of 0 serve, with %zu",
            c->base.platform, path, major, minor, c->api->head.size, PJRT_OLDEST_MINOR, least);
    for (int i = 0; i < PJRT_FUNCTIONS; i++)
        if (names[i] && !may_be_missing(i) && !c->api->functions[i])
            return mf_error_new(MF_ERROR_DEVICE, "%s: %s lacks %s", c->base.platform, path, names[i]);
    return NULL;
}

/* Programs are handed over as text, which has no version; but a plugin whose StableHLO lacks an operation fails with an obscure message.
 * The oldest and newest versions with which programs have run are 1.13.3 and 1.20.0; 1.4.0 is the version that StableHLO's own versioned
 * serializer requires for the samples of all ops (tan; batched gather and scatter need 1.1.0). */
static const int64_t stablehlo_needed[3] = { 1, 4, 0 }, stablehlo_newest[3] = { 1, 20, 0 };

/* Three numbers; NULL: the plugin does not tell. */
static const int64_t *version_among(const pjrt_attributes *a, const char *name)
{
    for (size_t i = 0; i < a->count_out; i++) {
        const pjrt_named_value *v = &a->list_out[i];
        if (v->name_size == strlen(name) && !memcmp(v->name, name, v->name_size) && v->kind == PJRT_INT64_LIST && v->value_size == 3)
            return v->value.integers;
    }
    return NULL;
}

static bool is_older(const int64_t *version, const int64_t *than)
{
    int i = 0;
    while (i < 2 && version[i] == than[i])
        i++;
    return version[i] < than[i];
}

static mf_error_object *check_stablehlo(const pjrt_client *c)
{
    pjrt_attributes args = { PJRT_HEAD(pjrt_attributes), NULL, 0 };
    mf_error_object *error = c->api->functions[PJRT_PLUGIN_ATTRIBUTES] ? pjrt_call(c, PJRT_PLUGIN_ATTRIBUTES, NULL, &args) : NULL;
    if (error)
        return error;
    const int64_t *has = version_among(&args, "stablehlo_current_version"), *from = version_among(&args, "stablehlo_minimum_version");
    if (has && is_older(has, stablehlo_needed))
        return mf_error_new(MF_ERROR_DEVICE,
                            "%s: the plugin has StableHLO %" PRId64 ".%" PRId64 ".%" PRId64 "; programs are in that of %" PRId64
                            ".%" PRId64,
                            c->base.platform, has[0], has[1], has[2], stablehlo_needed[0], stablehlo_needed[1]);
    if (from && is_older(stablehlo_newest, from))
        return mf_error_new(MF_ERROR_DEVICE,
                            "%s: the plugin takes StableHLO from %" PRId64 ".%" PRId64 ".%" PRId64 " on; programs are in that of %" PRId64
                            ".%" PRId64,
                            c->base.platform, from[0], from[1], from[2], stablehlo_newest[0], stablehlo_newest[1]);
    return NULL;
}

static mf_error_object *create_with(pjrt_client *c, pjrt_options *options)
{
    pjrt_client_create args = { .head = PJRT_HEAD(pjrt_client_create), .options = options->list, .option_count = options->count };
    bool several = pjrt_add_nodes(c, &args, options->list);
    mf_error_object *error = pjrt_call(c, PJRT_CLIENT_CREATE, NULL, &args);
    if (error && several && pjrt_refuses_nodes(error)) { /* as XLA's CPU client does, whose devices belong to one process */
        mf_error_ignore(error);
        pjrt_take_nodes_back(c, &args);
        error = pjrt_call(c, PJRT_CLIENT_CREATE, NULL, &args);
    }
    c->client = error ? NULL : args.client_out;
    return error;
}

static mf_error_object *create(pjrt_client *c, const char *text)
{
    pjrt_options options;
    pjrt_head nothing = PJRT_HEAD(pjrt_head);
    mf_error_object *error = pjrt_options_read(&options, c->base.platform, text ? text : "");
    error = error ? error : pjrt_call(c, PJRT_PLUGIN_INITIALIZE, NULL, &nothing);
    error = error ? error : check_stablehlo(c);
    error = error ? error : create_with(c, &options);
    pjrt_options_free(&options);
    return error;
}

/* Whether an environment variable switches it off. */
static bool is_off(const char *setting)
{
    const char *text = getenv(setting);
    return text && !strcmp(text, "0");
}

static mf_error_object *read_platform(pjrt_client *c)
{
    pjrt_words_of args = { PJRT_HEAD(pjrt_words_of), c->client, NULL, 0 };
    mf_error_object *error = pjrt_call(c, PJRT_CLIENT_PLATFORM_NAME, NULL, &args);
    c->is_cpu = !error && args.count_out == 3 && memcmp(args.words_out, "cpu", 3) == 0;
    c->stacks = c->is_cpu && !is_off("MF_PJRT_STACK");
    c->base.separate_memory = !c->stacks;
    return error;
}

static mf_error_object *read_id(pjrt_client *c, int device)
{
    pjrt_one_more args = { PJRT_HEAD(pjrt_one_more), c->devices[device], NULL };
    mf_error_object *error = pjrt_call(c, PJRT_DEVICE_DESCRIPTION, NULL, &args);
    pjrt_int_of id = { PJRT_HEAD(pjrt_int_of), args.out, { 0 } };
    error = error ? error : pjrt_call(c, PJRT_DESCRIPTION_ID, NULL, &id);
    c->ids[device] = id.out.number;
    return error;
}

static mf_error_object *list_devices(pjrt_client *c)
{
    pjrt_devices_of args = { PJRT_HEAD(pjrt_devices_of), c->client, NULL, 0 };
    mf_error_object *error = pjrt_call(c, PJRT_CLIENT_ADDRESSABLE_DEVICES, NULL, &args);
    if (error)
        return error;
    c->devices = args.devices_out;
    c->device_count = args.count_out < PJRT_MOST_DEVICES ? (int)args.count_out : PJRT_MOST_DEVICES;
    if (!c->device_count)
        return mf_error_new(MF_ERROR_DEVICE, "%s: the plugin has no devices", c->base.platform);
    c->ids = mf_calloc((size_t)c->device_count, sizeof *c->ids);
    if (!c->ids)
        return mf_error_out_of_memory();
    for (int i = 0; i < c->device_count && !error; i++)
        error = read_id(c, i);
    return error;
}

/* ---- as one of our clients */

static int device_count(const mf_client *c) { return pjrt_client_of(c)->device_count; }

static void describe(mf_text *t, const mf_executable *base)
{
    const pjrt_executable *x = (const pjrt_executable *)base;
    if (x->stacked)
        mf_text_add(t, "executable of %s: 1 replica, with the rows of %d devices\n", base->client->platform, x->map_size);
    else
        mf_text_add(t, "executable of %s: %d %s, each with all of the arguments%s\n", base->client->platform, x->replicas,
                    x->replicas == 1 ? "replica" : "replicas", x->map ? " or its row" : "");
}

static void set_known(int64_t *to, pjrt_maybe m) { *to = m.known ? m.number : *to; }

static mf_error_object *memory_stats(const mf_client *base, int device, mf_device_memory_stats_t *out)
{
    const pjrt_client *c = pjrt_client_of(base);
    pjrt_memory_stats args = { .head = PJRT_HEAD(pjrt_memory_stats), .device = c->devices[device] };
    if (!c->api->functions[PJRT_DEVICE_MEMORY_STATS])
        return mf_error_new(MF_ERROR_DEVICE, "%s: memory statistics are not supported: the plugin lacks %s", base->platform,
                            names[PJRT_DEVICE_MEMORY_STATS]);
    mf_error_object *error = pjrt_call(c, PJRT_DEVICE_MEMORY_STATS, NULL, &args);
    if (error)
        return error;
    out->bytes_in_use = args.in_use;
    set_known(&out->peak_bytes_in_use, args.peak);
    set_known(&out->bytes_limit, args.limit);
    set_known(&out->largest_alloc_size, args.largest);
    set_known(&out->num_allocs, args.allocations);
    return NULL;
}

static const mf_backend backend = { .load = pjrt_load, .execute = pjrt_run, .describe = describe };

static void client_free(pjrt_client *c)
{
    if (!c)
        return;
    if (c->client)
        pjrt_destroy(c, PJRT_CLIENT_DESTROY, c->client);
    mf_free(c->ids);
    mf_free(c->path);
    mf_free((char *)(uintptr_t)c->base.platform);
    mf_free(c);
}

static pjrt_client *client_new(const char *name, const char *path)
{
    pjrt_client *c = mf_calloc(1, sizeof *c);
    char *platform = mf_strdup(name), *file = mf_strdup(path);
    if (!c || !platform || !file) {
        mf_free(c);
        mf_free(platform);
        mf_free(file);
        return NULL;
    }
    c->base = (mf_client){
        .platform = platform,
        .separate_memory = true,
        .alone = true,
        .allocate = pjrt_allocate,
        .release = pjrt_release,
        .from_host = pjrt_from_host,
        .to_host = pjrt_to_host,
        .copied = pjrt_to_device,
        .device_count = device_count,
        .memory_stats = memory_stats,
        .backend = &backend,
    };
    c->path = file;
    pthread_mutex_init(&c->calls, NULL);
    pthread_mutex_init(&c->lock, NULL);
    pthread_cond_init(&c->changed, NULL);
    return c;
}

/* Opens and registers the plugin; the lock is held. */
static const mf_client *open_plugin(const char *name, const char *path, const char *options, mf_error_object **error)
{
    pjrt_client *c = client_new(name, path);
    *error = c ? find_api(c, path) : mf_error_out_of_memory();
    *error = *error ? *error : create(c, options);
    *error = *error ? *error : read_platform(c);
    *error = *error ? *error : list_devices(c);
    if (!*error)
        c->calls_host = !is_off("MF_PJRT_HOST_CALLS") && pjrt_offer_host_calls(c);
    *error = *error ? *error : mf_client_register(&c->base);
    if (!*error)
        return &c->base;
    client_free(c);
    return NULL;
}

static pthread_mutex_t opening = PTHREAD_MUTEX_INITIALIZER;

const mf_client *mf_plugin_open(const char *name, mf_error_object **error)
{
    char *path;
    *error = NULL;
    if (!mf_plugin_find(name, &path))
        return NULL;
    if (!path) {
        *error = mf_error_out_of_memory();
        return NULL;
    }
    pthread_mutex_lock(&opening);
    const mf_client *found = mf_client_find(name);
    if (!found)
        found = open_plugin(name, path, getenv("MF_PJRT_OPTIONS"), error);
    pthread_mutex_unlock(&opening);
    mf_free(path);
    return found;
}

mf_status mf_register_plugin(const char *name, const char *path, const char *options)
{
    MF_ENTER(MF_FORK_STATUS);
    mf_error_object *error = NULL;
    if (!name || !*name || !path || !*path)
        return mf_error_remember(mf_error_new(MF_ERROR_ARGUMENT, "mf_register_plugin: no %s", name && *name ? "path" : "name"));
    if (mf_client_named(name, &error))
        error = mf_error_new(MF_ERROR_DEVICE, "mf_register_plugin: there is a backend '%s' already", name);
    if (error)
        return mf_error_remember(error);
    pthread_mutex_lock(&opening);
    open_plugin(name, path, options, &error);
    pthread_mutex_unlock(&opening);
    return mf_error_remember(error);
}
