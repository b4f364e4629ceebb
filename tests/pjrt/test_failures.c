/* Plugins that cannot be opened, and a plugin in which each call and each event fails once: the result is always an error with the plugin's
 * message, all its objects are destroyed, and the next attempt succeeds. */
#include "check.h"
#include "fake/fake_plugin.h"

#include "backend/pjrt/pjrt_api.h"

#include <manyfold.h>

#include <dirent.h>
#include <dlfcn.h>
#include <sys/stat.h>
#include <unistd.h>

static __typeof__(fake_plugin_fail) *fail_at;
static __typeof__(fake_plugin_calls) *calls, *events, *awaits, *compiles;
static __typeof__(fake_plugin_living) *living, *most;
static __typeof__(fake_plugin_be_late) *be_late;
static __typeof__(fake_plugin_options) *options;
static __typeof__(fake_plugin_version) *version;
static __typeof__(fake_plugin_has) *has;
static __typeof__(fake_plugin_copies) *copies;
static __typeof__(fake_plugin_platform) *platform;
static __typeof__(fake_plugin_stablehlo) *stablehlo;

static const char *path_of(const char *file)
{
    static char path[4096];
    snprintf(path, sizeof path, "%s/tests/%s", getenv("MF_BUILD_DIR"), file);
    return path;
}

static bool find_plugin(void)
{
    void *library = dlopen(path_of("fake_plugin.so"), RTLD_NOW | RTLD_LOCAL);
    if (!library)
        return CHECK_NOTE("%s", dlerror());
    fail_at = (__typeof__(fail_at))(uintptr_t)dlsym(library, "fake_plugin_fail");
    calls = (__typeof__(calls))(uintptr_t)dlsym(library, "fake_plugin_calls");
    events = (__typeof__(events))(uintptr_t)dlsym(library, "fake_plugin_events");
    awaits = (__typeof__(awaits))(uintptr_t)dlsym(library, "fake_plugin_awaits");
    compiles = (__typeof__(compiles))(uintptr_t)dlsym(library, "fake_plugin_compiles");
    options = (__typeof__(options))(uintptr_t)dlsym(library, "fake_plugin_options");
    living = (__typeof__(living))(uintptr_t)dlsym(library, "fake_plugin_living");
    most = (__typeof__(most))(uintptr_t)dlsym(library, "fake_plugin_most");
    be_late = (__typeof__(be_late))(uintptr_t)dlsym(library, "fake_plugin_be_late");
    version = (__typeof__(version))(uintptr_t)dlsym(library, "fake_plugin_version");
    has = (__typeof__(has))(uintptr_t)dlsym(library, "fake_plugin_has");
    stablehlo = (__typeof__(stablehlo))(uintptr_t)dlsym(library, "fake_plugin_stablehlo");
    copies = (__typeof__(copies))(uintptr_t)dlsym(library, "fake_plugin_copies");
    platform = (__typeof__(platform))(uintptr_t)dlsym(library, "fake_plugin_platform");
    return has && stablehlo && copies && platform && fail_at && calls && events && awaits && compiles && options && living && most &&
           be_late && version;
}

/* The message of the first unhandled error; "" if there is none. */
static const char *words_of_first(void)
{
    const char *words = NULL;
    return mf_first_error(&words) != MF_OK && words ? words : "";
}

/* The error message for a plugin that cannot be opened. */
static const char *refusal(const char *path, const char *options)
{
    mf_status status = mf_register_plugin("refused", path, options);
    CHECK(status == MF_ERROR_DEVICE || status == MF_ERROR_ARGUMENT);
    CHECK_EQ_INT(mf_devices_of("refused").count, 0);
    return words_of_first();
}

TEST(what_is_no_plugin_is_refused_in_words)
{
    REQUIRE(find_plugin());
    CHECK_CONTAINS(refusal("/nowhere/plugin.so", NULL), "refused: the plugin cannot be opened: /nowhere/plugin.so");
    CHECK_CONTAINS(refusal("libm.so.6", NULL), "libm.so.6 is no PJRT plugin: it has no function GetPjrtApi");
    CHECK_CONTAINS(refusal(NULL, NULL), "no path");
    CHECK_CONTAINS(refusal(path_of("fake_plugin.so"), "memory"), "'memory' is no option");
    CHECK_CONTAINS(refusal(path_of("fake_plugin.so"), "a=1,unknown=2"),
                   "PJRT_Client_Create: the fake plugin refuses call 3, an option that it does not know");
    version(0, 80, 0, -1);
    CHECK_CONTAINS(refusal(path_of("fake_plugin.so"), NULL), "version 0.80 of the PJRT C API");
    version(1, 0, 0, -1);
    CHECK_CONTAINS(refusal(path_of("fake_plugin.so"), NULL), "version 1.0 of the PJRT C API");
    version(0, 115, 200, -1);
    CHECK_CONTAINS(refusal(path_of("fake_plugin.so"), NULL), "with a table of 200 bytes");
    version(0, 115, 0, -1);
    CHECK_EQ_INT(living(FAKE_CLIENT), 0);
    CHECK_EQ_INT(living(FAKE_ERROR), 0);
}

static bool may_be_missing(int function)
{
    static const int list[] = { PJRT_PLUGIN_ATTRIBUTES,     PJRT_DEVICE_MEMORY_STATS, PJRT_EXECUTABLE_SERIALIZE, PJRT_EXECUTABLE_LOAD,
                                PJRT_BUFFER_COPY_TO_DEVICE, PJRT_BUFFER_READY_EVENT,  PJRT_BUFFER_UNSAFE_POINTER };
    for (size_t i = 0; i < sizeof list / sizeof *list; i++)
        if (list[i] == function)
            return true;
    return false;
}

/* The fake plugin has only the functions that are called. */
TEST(each_missing_function_is_refused)
{
    REQUIRE(find_plugin());
    int count = 0;
    for (int function = 0; function < PJRT_FUNCTIONS; function++) {
        if (!has(function) || may_be_missing(function))
            continue;
        version(0, 115, 0, function);
        const char *said = refusal(path_of("fake_plugin.so"), NULL);
        if (!strstr(said, "fake_plugin.so lacks PJRT_"))
            CHECK(CHECK_NOTE("function %d: %s", function, said));
        count++;
    }
    version(0, 115, 0, PJRT_LOADED_EXECUTE);
    CHECK_CONTAINS(refusal(path_of("fake_plugin.so"), NULL), "lacks PJRT_LoadedExecutable_Execute");
    version(0, 115, 0, -1);
    CHECK(count > 20);
    CHECK_EQ_INT(living(FAKE_CLIENT), 0);
}

/* Opening the plugin, with each call failing in turn; the last attempt succeeds, and the following tests use that plugin. */
TEST(every_call_of_opening_fails_once)
{
    REQUIRE(find_plugin());
    int n = 1;
    for (; n < 100; n++) {
        fail_at(n, 0);
        if (mf_register_plugin("fake plugin", path_of("fake_plugin.so"), "count=4") == MF_OK)
            break;
        const char *said = words_of_first();
        CHECK_CONTAINS(said, "fake plugin: PJRT_");
        CHECK_CONTAINS(said, "the fake plugin refuses call");
        if (living(FAKE_CLIENT) || living(FAKE_ERROR))
            CHECK(CHECK_NOTE("call %d", n));
    }
    fail_at(0, 0);
    CHECK(n > 10 && n < 100);
    CHECK_EQ_INT(mf_devices_of("fake plugin").count, 4);
    CHECK_EQ_INT(mf_register_plugin("fake plugin", path_of("fake_plugin.so"), NULL), MF_ERROR_DEVICE);
    CHECK_CONTAINS(words_of_first(), "there is a backend 'fake plugin' already");
}

/* Including the options for a job of several nodes, which are plain numbers to this client. */
TEST(create_options_are_passed_on)
{
    REQUIRE(find_plugin());
    const char *text =
        "memory_fraction=0.75,preallocate=false,allocator=platform,node_id=1,num_nodes=2,big=9000000000,visible=true,exact=1e3";
    CHECK_EQ_INT(mf_register_plugin("with options", path_of("fake_plugin.so"), text), MF_OK);
    CHECK_STR(options(), "memory_fraction float 0.75, preallocate truth 0, allocator string platform, node_id integer 1, "
                         "num_nodes integer 2, big integer 9000000000, visible truth 1, exact float 1000, ");
    text = "visible_devices=[0,1],memory_fraction=1,none=[],big=[-9000000000],cpu_device_count=4096,words=a[1,2]b";
    CHECK_EQ_INT(mf_register_plugin("with lists", path_of("fake_plugin.so"), text), MF_OK);
    CHECK_STR(options(), "visible_devices list 0 1, memory_fraction float 1, none list, big list -9000000000, "
                         "cpu_device_count integer 4096, words string a[1,2]b, ");
}

TEST(options_that_cannot_be_reach_no_plugin)
{
    REQUIRE(find_plugin());
    static const char *const counts[] = { "-1", "0", "4097", "99999999999", "99999999999999999999", "2.5", "many", "[1,2]", "" };
    static const char *const lists[] = { "[", "[1", "[1,]", "[1,2]3", "[1.5]", "[a,b]", "[,]", "[99999999999999999999]", "[1 2]", "[[1]]" };
    char text[64];
    fail_at(0, 0);
    for (size_t i = 0; i < sizeof counts / sizeof *counts; i++) {
        snprintf(text, sizeof text, "a=1,cpu_device_count=%s", counts[i]);
        CHECK_CONTAINS(refusal(path_of("fake_plugin.so"), text), "cpu_device_count is to be a number from 1 to 4096, not ");
    }
    for (size_t i = 0; i < sizeof lists / sizeof *lists; i++) {
        snprintf(text, sizeof text, "visible_devices=%s", lists[i]);
        CHECK_CONTAINS(refusal(path_of("fake_plugin.so"), text), "is no list of whole numbers");
    }
    CHECK_EQ_INT(calls(), 0);
}

TEST(another_stablehlo_is_refused)
{
    REQUIRE(find_plugin());
    static const int64_t seen[] = { 1, 13, 3 }, old[] = { 1, 3, 9 }, far[] = { 2, 1, 0 }, first[] = { 0, 9, 0 }, last[] = { 1, 20, 1 };
    int clients = living(FAKE_CLIENT);
    stablehlo(old, first);
    CHECK_CONTAINS(refusal(path_of("fake_plugin.so"), NULL), "refused: the plugin has StableHLO 1.3.9; programs are in that of 1.4");
    stablehlo(far, last);
    CHECK_CONTAINS(refusal(path_of("fake_plugin.so"), NULL),
                   "refused: the plugin takes StableHLO from 1.20.1 on; programs are in that of 1.20");
    CHECK_EQ_INT(living(FAKE_CLIENT), clients);
    stablehlo(far, seen);
    CHECK_EQ_INT(mf_register_plugin("of later days", path_of("fake_plugin.so"), NULL), MF_OK);
    stablehlo(old, first);
    version(0, 115, 0, PJRT_PLUGIN_ATTRIBUTES);
    CHECK_EQ_INT(mf_register_plugin("without attributes", path_of("fake_plugin.so"), NULL), MF_OK);
    version(0, 115, 0, -1);
    stablehlo(seen, first);
}

/* ---- plugins that are not registered */

static char tree[] = "/tmp/manyfold-plugins-XXXXXX";

/* Creates a folder, or a link to the fake plugin, below the tree, with its parent folders. */
static const char *made(const char *below, bool plugin)
{
    static char path[4096];
    snprintf(path, sizeof path, "%s/%s", tree, below);
    for (char *slash = strchr(path + sizeof tree, '/'); slash; slash = strchr(slash + 1, '/')) {
        *slash = 0;
        (void)mkdir(path, 0777);
        *slash = '/';
    }
    CHECK_EQ_INT(plugin ? symlink(path_of("fake_plugin.so"), path) : mkdir(path, 0777), 0);
    return path;
}

static void set_path(const char *variable, const char *below)
{
    char path[4096];
    snprintf(path, sizeof path, "%s/%s", tree, below);
    setenv(variable, path, 1);
}

TEST(plugins_are_found)
{
    REQUIRE(find_plugin() && mkdtemp(tree));
    char list[8192], *old = strdup(getenv("PATH") ? getenv("PATH") : "");
    snprintf(list, sizeof list, "none:/nowhere.so,listed:%s", path_of("fake_plugin.so"));
    setenv("PJRT_NAMES_AND_LIBRARY_PATHS", list, 1);
    unsetenv("PYTHONPATH");
    unsetenv("VIRTUAL_ENV");
    CHECK_EQ_INT(mf_devices_of("listed").count, 4);
    CHECK_EQ_INT(mf_devices_of("list").count, 0);
    (void)made("env/lib/python3.11/site-packages/jax_plugins/xla_gpu12/xla_of_env_plugin.so", true);
    (void)made("env/lib/python3.11/site-packages/jax_plugins/xla_gpu12/xla_of_path_plugin.so", true);
    (void)made("env/bin/python3", true);
    (void)made("env/pyvenv.cfg", true);
    (void)made("system/lib/python3/dist-packages/jax_plugins/xla_gpu/xla_of_system_plugin.so", true);
    (void)made("system/bin/python3", true);
    (void)made("more/jax_plugins/xla_gpu/xla_of_more_plugin.so", true);
    setenv("PATH", "/nowhere", 1);
    CHECK_EQ_INT(mf_devices_of("of_env").count, 0);
    set_path("VIRTUAL_ENV", "env");
    CHECK_EQ_INT(mf_devices_of("of_env").count, 4);
    unsetenv("VIRTUAL_ENV");
    CHECK_EQ_INT(mf_devices_of("of_path").count, 0);
    set_path("PATH", "env/bin");
    CHECK_EQ_INT(mf_devices_of("of_path").count, 4);
    CHECK_EQ_INT(mf_devices_of("of_system").count, 0); /* not the first Python's */
    set_path("PATH", "system/bin");
    CHECK_EQ_INT(mf_devices_of("of_system").count, 4);
    set_path("PYTHONPATH", "more");
    CHECK_EQ_INT(mf_set_default_backend("of_more"), MF_OK);
    CHECK_STR(mf_device_platform(mf_devices().at[0]), "of_more");
    CHECK_EQ_INT(mf_set_default_backend("cpu"), MF_OK);
    CHECK_EQ_INT(mf_devices_of("*").count, 0);
    setenv("PJRT_NAMES_AND_LIBRARY_PATHS", "gone:/nowhere.so", 1);
    CHECK_EQ_INT(mf_devices_of("gone").count, 0);
    CHECK_CONTAINS(words_of_first(), "the plugin cannot be opened: /nowhere.so");
    setenv("PATH", old, 1);
    unsetenv("PYTHONPATH");
    free(old);
}

static mf_value with_context(void *context, mf_value x, mf_value y)
{
    (void)context;
    return mf_add(x, mf_psum(y, "i"));
}

static mf_value with_check(void *context, mf_value x, mf_value y)
{
    (void)context;
    return mf_add(mf_check_replicated(x, "i"), y);
}

static mf_value unchanged(mf_value x) { return x; }
static mf_value with_call(void *context, mf_value x, mf_value y) /* in three steps; the host runs one of them */
{
    (void)context;
    mf_debug_print("x {}", x);
    return mf_add(x, mf_pure_callback(unchanged, mf_struct((mf_shape){ 0 }, MF_F32), mf_mul(y, 2)));
}

typedef struct way {
    int number; /* makes each function a different one, which is compiled again */
    bool anew, donates, checks, calls;
    const char *on;  /* the backend; NULL: the fake plugin */
    int64_t columns; /* the length of a row; 0: scalars */
} way;

static mf_value again(mf_value x) { return mf_mul(x, 1); }
enum { MOVED = 17 }; /* more than the limit of a small array */

/* A result of a program on one device is moved to another device, where a program uses it. */
static mf_value moved(const char *plugin)
{
    const mf_device *devices = mf_devices_of(plugin).at;
    mf_value x = mf_call(mf_jit(again), mf_device_put(mf_arange(MOVED, MF_F32), devices[1]));
    return mf_call(mf_jit(again), mf_device_put(x, devices[2]));
}

/* Runs a program; the fake plugin returns its first argument. Returns NULL, or the first error's message. */
static const char *run(const way *w)
{
    static float rows[4 << 18];
    const char *on = w->on ? w->on : "fake plugin";
    int context = w->anew ? w->number : -1;
    int64_t columns = w->columns ? w->columns : 1;
    mf_function inner = w->checks  ? mf_closure(with_check, &context)
                        : w->calls ? mf_closure(with_call, &context)
                                   : mf_closure(with_context, &context);
    mf_function f = w->donates ? mf_pmap(inner, .axis_name = "i", .backend = on, .donate_argnums = MF_INTS(0))
                               : mf_pmap(inner, .axis_name = "i", .backend = on);
    mf_value y = mf_arange(4, MF_F32);
    if (w->columns)
        y = mf_mul(mf_reshape(y, MF_SHAPE(4, 1)), mf_ones(MF_SHAPE(1, columns), MF_F32));
    mf_value x = mf_place(y, mf_devices_of(on)), r = mf_call(f, x, mf_mul(y, w->checks ? 0 : 1));
    if (mf_is_error(r))
        return mf_error(r);
    if (mf_to_host(r, MF_F32, rows, (size_t)(4 * columns)) != MF_OK)
        return words_of_first();
    for (int64_t i = 0; i < 4 * columns; i++)
        if (rows[i] != (float)(i / columns))
            CHECK(CHECK_NOTE("element %lld is %g", (long long)i, (double)rows[i]));
    if (w->on && mf_to_host(moved(on), MF_F32, rows, MOVED) != MF_OK)
        return words_of_first();
    CHECK(!w->on || (rows[1] == 1 && rows[MOVED - 1] == MOVED - 1));
    return NULL;
}

TEST(devices_count_their_memory)
{
    REQUIRE(find_plugin() && mf_devices_of("fake plugin").count == 4);
    mf_device d = mf_devices_of("fake plugin").at[2];
    mf_device_memory_stats_t m;
    fail_at(0, 0);
    CHECK_EQ_INT(mf_device_memory_stats(d, &m), MF_OK);
    CHECK(m.bytes_in_use == 102 && m.peak_bytes_in_use == 202 && m.num_allocs == 3 && m.bytes_limit == -1 && m.largest_alloc_size == -1);
    fail_at(1, 0);
    CHECK_EQ_INT(mf_device_memory_stats(d, &m), MF_ERROR_MEMORY);
    CHECK_CONTAINS(words_of_first(), "PJRT_Device_MemoryStats: the fake plugin refuses call 1");
    CHECK_EQ_INT(m.bytes_in_use, -1);
    fail_at(0, 0);
    version(0, 115, 0, PJRT_DEVICE_MEMORY_STATS);
    CHECK_EQ_INT(mf_device_memory_stats(d, &m), MF_ERROR_DEVICE);
    CHECK_CONTAINS(words_of_first(), "memory statistics are not supported");
    version(0, 115, 0, -1);
    CHECK_EQ_INT(mf_device_memory_stats(mf_devices_of("cpu").at[0], &m), MF_ERROR_DEVICE);
    CHECK_CONTAINS(words_of_first(), "cpu counts no memory for each device");
    CHECK_EQ_INT(mf_device_memory_stats((mf_device){ 0 }, &m), MF_ERROR_ARGUMENT);
    CHECK_EQ_INT(mf_device_memory_stats(d, NULL), MF_ERROR_ARGUMENT);
    while (mf_first_error(NULL) != MF_OK)
        continue;
    CHECK_EQ_INT(living(FAKE_ERROR), 0);
}

static mf_value claimed(mf_value x) { return mf_check_replicated(x, "i"); }

/* The result of a check arrives as an event of the call: it is not waited for until a value is read. The fake plugin returns its argument
 * as this result, too: 0 means that no check failed; other bits mean a check that the program does not contain. */
TEST(a_claim_costs_no_wait)
{
    REQUIRE(find_plugin() && mf_devices_of("fake plugin").count == 4);
    MF_SCOPE;
    mf_function f = mf_pmap(claimed, "i", .backend = "fake plugin");
    mf_value zeros = mf_place(mf_zeros(MF_SHAPE(4), MF_I64), mf_devices_of("fake plugin")), r = mf_call(f, zeros);
    CHECK_EQ_INT(mf_block_until_ready(r), MF_OK);
    fail_at(0, 0);
    r = mf_call(f, zeros);
    CHECK_EQ_INT(awaits(), 0);
    CHECK_EQ_INT(events(), 8); /* two for each device */
    CHECK_EQ_INT(mf_block_until_ready(r), MF_OK);
    mf_value ones = mf_place(mf_broadcast_to(mf_scalar(0x1p41, MF_I64), MF_SHAPE(4)), mf_devices_of("fake plugin"));
    CHECK_CONTAINS(mf_error(mf_call(f, ones)), "a plugin says that a check has failed");
}

static void fail_each(bool by_event, way w)
{
    int n = 1, executables = 0;
    for (; n < 400; n++) {
        MF_SCOPE;
        fail_at(by_event ? 0 : n, by_event ? n : 0);
        w.number = n * 16 + by_event * 8 + w.calls * 4 + w.donates * 2 + w.checks;
        const char *words = run(&w);
        int count = by_event ? events() : calls();
        fail_at(0, 0);
        if (words)
            CHECK_CONTAINS(words, "the fake plugin refuses call");
        executables = living(FAKE_EXECUTABLE);
        if (count < n)
            break;
    }
    CHECK(n > 5 && n < 400);
    CHECK_EQ_INT(living(FAKE_ERROR), 0);
    CHECK_EQ_INT(living(FAKE_EVENT), 0);
    CHECK_EQ_INT(living(FAKE_BUFFER), 0);
    CHECK(executables >= 1);
}

/* How often the plugin compiles when the map is created again. */
static int compiled(int number)
{
    MF_SCOPE;
    fail_at(0, 0);
    const char *words = run(&(way){ number, .anew = true });
    if (words)
        CHECK(CHECK_NOTE("%s", words));
    return compiles();
}

/* Calls fn of each file of the folder. */
static int each_file(const char *folder, void (*fn)(const char *path))
{
    char path[4096];
    int count = 0;
    DIR *d = opendir(folder);
    for (struct dirent *e; d && (e = readdir(d));)
        if (e->d_name[0] != '.') {
            snprintf(path, sizeof path, "%s/%s", folder, e->d_name);
            count++;
            fn(path);
        }
    if (d)
        closedir(d);
    return count;
}

static void damage(const char *path)
{
    FILE *f = fopen(path, "r+b");
    REQUIRE(f && fseek(f, -3, SEEK_END) == 0);
    fputc('x', f);
    fclose(f);
}
static void cut(const char *path) { CHECK_EQ_INT(truncate(path, 20), 0); }
static void discard(const char *path) { CHECK_EQ_INT(unlink(path), 0); }

TEST(executables_are_kept_in_a_folder)
{
    REQUIRE(find_plugin() && mf_devices_of("fake plugin").count == 4);
    char folder[] = "/tmp/manyfold-executables-XXXXXX";
    REQUIRE(mkdtemp(folder));
    setenv("MF_COMPILATION_CACHE", folder, 1);
    int first = compiled(100001);
    CHECK(first >= 1);
    CHECK_EQ_INT(compiled(100002), 0); /* the same text */
    CHECK(each_file(folder, damage) == first);
    CHECK_EQ_INT(compiled(100003), first);
    CHECK_EQ_INT(compiled(100004), 0);
    (void)each_file(folder, cut);
    CHECK_EQ_INT(compiled(100005), first);
    for (int n = 1; n < 40; n++) { /* each call fails once while a program is loaded, or written */
        MF_SCOPE;
        if (n % 2)
            (void)each_file(folder, discard);
        fail_at(n / 2, 0);
        const char *words = run(&(way){ 100010 + n, .anew = true });
        fail_at(0, 0);
        if (words)
            CHECK_CONTAINS(words, "the fake plugin refuses call");
    }
    version(0, 115, 0, PJRT_EXECUTABLE_LOAD);
    CHECK_EQ_INT(compiled(100006), first);
    version(0, 115, 0, -1);
    (void)each_file(folder, discard);
    CHECK_EQ_INT(rmdir(folder), 0);
    unsetenv("MF_COMPILATION_CACHE");
    CHECK_EQ_INT(living(FAKE_ERROR), 0);
}

TEST(every_call_of_a_map_fails_once)
{
    REQUIRE(find_plugin() && mf_devices_of("fake plugin").count == 4);
    for (int i = 0; i < 4; i++)
        fail_each(false, (way){ .anew = i & 1, .donates = i & 2 });
    fail_each(false, (way){ .anew = true, .checks = true });
}

TEST(every_event_of_a_map_fails_once)
{
    REQUIRE(find_plugin() && mf_devices_of("fake plugin").count == 4);
    fail_each(true, (way){ 0 });
    fail_each(true, (way){ .donates = true });
    fail_each(true, (way){ .checks = true });
}

/* A plugin whose devices share the host's memory: small maps are one program, and the host reads large results in place. */
TEST(every_call_and_event_on_a_cpu_fails_once)
{
    REQUIRE(find_plugin());
    fail_at(0, 0);
    platform("cpu");
    CHECK_EQ_INT(mf_register_plugin("fake cpu", path_of("fake_plugin.so"), NULL), MF_OK);
    platform("fake");
    REQUIRE(mf_devices_of("fake cpu").count == 4);
    (void)copies(FAKE_TO_DEVICE);
    (void)copies(FAKE_IN_SIGHT);
    for (int i = 0; i < 16; i++)
        fail_each(i & 8, (way){ .anew = i & 1, .donates = i & 2, .on = "fake cpu", .columns = i & 4 ? 1 << 18 : 8 });
    fail_each(false, (way){ .anew = true, .checks = true, .on = "fake cpu", .columns = 8 });
    fail_each(true, (way){ .checks = true, .on = "fake cpu", .columns = 8 });
    CHECK(copies(FAKE_TO_DEVICE) > 16);
    CHECK(copies(FAKE_IN_SIGHT) > 16);
}

static mf_value apart(mf_value x) { return mf_mul(x, 1); }
static mf_value meet(mf_value x) { return mf_psum(x, "i"); }

/* Unread calls on a plugin that is slower than the caller: the maximum number of device executions in flight. */
static int most_of_unread(mf_function f, mf_value x)
{
    (void)mf_block_until_ready(mf_call(f, x));
    (void)most(FAKE_EVENT);
    for (int i = 0; i < 10000; i++) {
        MF_SCOPE;
        (void)mf_call(f, x);
    }
    return most(FAKE_EVENT);
}

TEST(ten_thousand_unread_calls)
{
    REQUIRE(find_plugin() && mf_devices_of("fake plugin").count == 4);
    {
        MF_SCOPE;
        fail_at(0, 0);
        mf_value x = mf_place(mf_reshape(mf_arange(4 * MOVED, MF_F32), MF_SHAPE(4, MOVED)), mf_devices_of("fake plugin")),
                 one = mf_device_put(x, mf_devices_of("fake plugin").at[1]);
        mf_function maps = mf_pmap(apart, "i", .backend = "fake plugin"), sums = mf_pmap(meet, "i", .backend = "fake plugin");
        be_late(20000);
        int met = most_of_unread(sums, x), mapped = most_of_unread(maps, x), single = most_of_unread(mf_jit(apart), one);
        CHECK(met >= 16 * 4 && met <= 18 * 4); /* plus those that have just ended */
        CHECK(mapped >= 256 * 4 && mapped <= 258 * 4);
        CHECK(single >= 256 && single <= 266);
        CHECK_EQ_INT(mf_block_until_ready(mf_call(sums, x)), MF_OK);
        CHECK_EQ_INT(mf_block_until_ready(mf_call(maps, x)), MF_OK);
        CHECK_EQ_INT(mf_block_until_ready(mf_call(mf_jit(apart), one)), MF_OK);
        be_late(0);
    }
    CHECK_EQ_INT(living(FAKE_ERROR), 0);
    CHECK_EQ_INT(living(FAKE_EVENT), 0);
    CHECK_EQ_INT(living(FAKE_BUFFER), 0);
}

static void count_line(const char *line, void *context)
{
    (void)line;
    ++*(int *)context;
}

TEST(every_call_and_event_of_a_map_in_steps_fails_once)
{
    REQUIRE(find_plugin() && mf_devices_of("fake plugin").count == 4);
    int lines = 0;
    mf_set_print_hook(count_line, &lines);
    for (int i = 0; i < 8; i++)
        fail_each(i & 4, (way){ .anew = i & 1, .donates = i & 2, .calls = true });
    mf_set_print_hook(NULL, NULL);
    CHECK(lines > 8 * 4);
}

static mf_value traced_step(mf_value x) { return mf_mul(x, 3); }

TEST(runs_have_rows_of_their_devices)
{
    REQUIRE(find_plugin() && mf_devices_of("fake plugin").count == 4);
    fail_at(0, 0);
    char path[] = "/tmp/manyfold-trace-XXXXXX", row[32];
    static char trace[1 << 16];
    int fd = mkstemp(path);
    REQUIRE(fd >= 0);
    mf_value x = mf_place(mf_arange(4, MF_F32), mf_devices_of("fake plugin"));
    mf_function f = mf_pmap(traced_step, "i", .backend = "fake plugin");
    CHECK_EQ_INT(mf_block_until_ready(mf_call(f, x)), MF_OK);
    CHECK_EQ_INT(mf_profiler_start_trace(path), MF_OK);
    CHECK_EQ_INT(mf_block_until_ready(mf_call(f, x)), MF_OK);
    CHECK_EQ_INT(mf_profiler_stop_trace(), MF_OK);
    ssize_t count = read(fd, trace, sizeof trace - 1);
    trace[count > 0 ? count : 0] = 0;
    for (int d = 0; d < 4; d++) {
        snprintf(row, sizeof row, "\"device %d\"", d);
        CHECK_CONTAINS(trace, row);
    }
    CHECK_CONTAINS(trace, "traced_step");
    close(fd);
    CHECK_EQ_INT(unlink(path), 0);
}
