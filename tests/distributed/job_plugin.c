/* A plugin in several processes: the node number and the key-value store that it gets, and programs on its devices, which belong to each
 * process alone. The plugin is the fake one, which computes nothing.
 * Jobs: 1+1 2+1+1 */
#include "check.h"
#include "fake/fake_plugin.h"

#include <manyfold.h>

#include <dlfcn.h>
#include <time.h>

static __typeof__(fake_plugin_has_store) *has_store;
static __typeof__(fake_plugin_put) *put;
static __typeof__(fake_plugin_get) *get;
static __typeof__(fake_plugin_options) *options;
static __typeof__(fake_plugin_living) *living;

static const char *path(void)
{
    static char text[4096];
    snprintf(text, sizeof text, "%s/tests/fake_plugin.so", getenv("MF_BUILD_DIR"));
    return text;
}

static bool find_plugin(void)
{
    void *library = dlopen(path(), RTLD_NOW | RTLD_LOCAL);
    if (!library)
        return CHECK_NOTE("%s", dlerror());
    has_store = (__typeof__(has_store))(uintptr_t)dlsym(library, "fake_plugin_has_store");
    put = (__typeof__(put))(uintptr_t)dlsym(library, "fake_plugin_put");
    get = (__typeof__(get))(uintptr_t)dlsym(library, "fake_plugin_get");
    options = (__typeof__(options))(uintptr_t)dlsym(library, "fake_plugin_options");
    living = (__typeof__(living))(uintptr_t)dlsym(library, "fake_plugin_living");
    return has_store && put && get && options && living;
}

TEST(a_plugin_is_told_of_all_nodes)
{
    char words[64];
    REQUIRE(find_plugin());
    REQUIRE(CHECK_EQ_INT(mf_register_plugin("fake plugin", path(), "memory=3"), MF_OK));
    snprintf(words, sizeof words, "memory integer 3, node_id integer %d, num_nodes integer %d, ", mf_process_index(), mf_process_count());
    CHECK_STR(options(), words);
    CHECK(has_store());
}

static void fill(unsigned char *at, size_t count, int by)
{
    for (size_t i = 0; i < count; i++)
        at[i] = (unsigned char)(i * 7 + i / 251 + (size_t)by);
}

/* Keys and values are arbitrary bytes, including zeros; a large value is sent in pieces. */
TEST(nodes_exchange_what_they_put)
{
    enum { LARGE = 300007 };
    static unsigned char own[LARGE], other[LARGE];
    int rank = mf_process_index(), count = mf_process_count();
    char key[4] = { 'n', 0, (char)rank, 1 };
    REQUIRE(find_plugin() && has_store());
    fill(own, LARGE, rank);
    CHECK_EQ_INT(put(key, sizeof key, own, LARGE), 0);
    key[1] = 1;
    CHECK_EQ_INT(put(key, sizeof key, own, (size_t)rank), 0);
    for (int round = 0; round < 2; round++)
        for (int p = 0; p < count; p++) {
            size_t size = LARGE;
            char asked[4] = { 'n', 0, (char)p, 1 };
            CHECK_EQ_INT(get(asked, sizeof asked, 60000, other, &size), 0);
            fill(own, LARGE, p);
            CHECK_EQ_INT(size, LARGE);
            CHECK_BYTES(other, own, LARGE);
            asked[1] = 1;
            size = LARGE;
            CHECK_EQ_INT(get(asked, sizeof asked, 60000, other, &size), 0);
            CHECK_EQ_INT(size, p);
        }
    CHECK_EQ_INT(living(FAKE_ERROR), 0);
}

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

TEST(a_key_that_nobody_puts_is_an_error)
{
    char words[256];
    size_t count = sizeof words;
    REQUIRE(find_plugin() && has_store());
    double start = now();
    CHECK_EQ_INT(get("none", 4, 200, words, &count), 4);
    CHECK_CONTAINS(words, "no process has put the key 'none' within 0.2 s");
    CHECK(now() - start >= 0.19 && now() - start < 30);
    count = sizeof words;
    CHECK_EQ_INT(get("none", 4, -1, words, &count), 5);
    CHECK_CONTAINS(words, "no process has put the key 'none'");
    CHECK_EQ_INT(put("own", 3, "v", 1), 0);
    count = sizeof words;
    CHECK_EQ_INT(get("own", 3, -1, words, &count), 0);
    CHECK(count == 1 && words[0] == 'v');
    static char long_key[5000];
    CHECK_EQ_INT(put(long_key, sizeof long_key, "v", 1), 3);
    CHECK_EQ_INT(living(FAKE_ERROR), 0);
}

static mf_value sum(mf_value x) { return mf_psum(x, "i"); }

/* The other processes compute meanwhile, and put the awaited value between two calls. */
TEST(programs_run_while_a_plugin_waits)
{
    char value[8] = "";
    size_t count = sizeof value;
    int rank = mf_process_index();
    REQUIRE(find_plugin() && has_store());
    for (int i = 0; i < 20; i++) {
        mf_value r = mf_call(mf_pmap(sum, "i"), mf_ones(MF_SHAPE(mf_local_device_count()), MF_F32));
        CHECK_EQ_INT(mf_item_i64(mf_get(r, 0)), mf_device_count());
        if (i == 10 && rank == 1)
            CHECK_EQ_INT(put("late", 4, "here", 5), 0);
        if (i == 10 && rank != 1)
            CHECK_EQ_INT(get("late", 4, 60000, value, &count), 0);
    }
    CHECK_STR(value, rank == 1 ? "" : "here");
}

static mf_value sums(mf_value x) { return mf_cond(mf_greater(mf_sum(x), 0), sum, sum, x); }
static mf_value place(mf_value x) { return mf_add(x, mf_axis_index("i")); }

static mf_value same(mf_value x, mf_value y)
{
    (void)y;
    return x;
}

/* A map on a plugin uses this process's own devices, whatever the others do, and so does a program without a map. A map over more than its
 * own row must name these devices explicitly, because its sum could be taken for that of all processes. */
TEST(programs_run_on_own_devices)
{
    REQUIRE(mf_devices_of("fake plugin").count == 4);
    mf_function f = mf_pmap(same, .axis_name = "i", .backend = "fake plugin");
    mf_value x = mf_arange(4, MF_F32);
    if (mf_process_index() == 0)
        CHECK_STR(mf_str(mf_call(f, x, x)), "[0. 1. 2. 3.]");
    mf_device d = mf_devices_of("fake plugin").at[3];
    CHECK_EQ_INT(mf_device_process(d), mf_process_index());
    CHECK_EQ_INT(mf_device_local_ordinal(d), 3);
    CHECK_STR(mf_str(mf_call(mf_jit(same), mf_device_put(x, d), mf_device_put(x, d))), "[0. 1. 2. 3.]");
    CHECK_EQ_INT(mf_set_default_backend("fake plugin"), MF_OK);
    CHECK_EQ_INT(mf_device_count(), 4);
    CHECK_EQ_INT(mf_local_device_count(), 4);
    CHECK_STR(mf_str(mf_call(mf_pmap(same, "i"), x, x)), "[0. 1. 2. 3.]");
    CHECK_CONTAINS(mf_error(mf_call(mf_pmap(sum, "i"), x)), "psum over 'i' would be over 4 devices of this process alone");
    CHECK_CONTAINS(mf_error(mf_call(mf_pmap(sums, "i"), x)), "psum over 'i' would be over 4 devices of this process alone");
    CHECK_CONTAINS(mf_error(mf_call(mf_pmap(place, "i"), x)), "axis_index over 'i' would be over 4 devices of this process alone");
    CHECK(!mf_is_error(mf_call(mf_pmap(sum, "i", .devices = mf_devices_of("fake plugin")), x)));
    CHECK_CONTAINS(mf_error(mf_call(mf_pmap(same, "i"), mf_arange(5, MF_F32), mf_arange(5, MF_F32))), "5");
    int32_t ranks[8] = { 0 }; /* host values are still exchanged between processes, and may then go to any device */
    mf_value all = mf_process_allgather(mf_device_put(mf_scalar(mf_process_index(), MF_I32), d));
    CHECK_EQ_INT(mf_to_host(all, MF_I32, ranks, (size_t)mf_process_count()), MF_OK);
    for (int p = 0; p < mf_process_count(); p++)
        CHECK_EQ_INT(ranks[p], p);
    mf_value first = mf_broadcast_one_to_all(mf_device_put(x, d));
    CHECK_STR(mf_str(mf_call(mf_jit(same), first, mf_device_put(x, d))), "[0. 1. 2. 3.]");
    CHECK_EQ_INT(mf_sync_global_devices("here"), MF_OK);
    CHECK_EQ_INT(mf_set_default_backend("cpu"), MF_OK);
    mf_value r = mf_call(mf_pmap(sum, "i"), mf_ones(MF_SHAPE(mf_local_device_count()), MF_F32));
    CHECK_EQ_INT(mf_item_i64(mf_get(r, 0)), mf_device_count());
}

/* A plugin without these options, such as XLA's CPU plugin, belongs to this process alone; and the user's options take precedence. */
TEST(a_plugin_may_be_alone)
{
    REQUIRE(find_plugin());
    CHECK_EQ_INT(mf_register_plugin("alone", path(), "alone=true"), MF_OK);
    CHECK_STR(options(), "alone truth 1, ");
    CHECK(!has_store());
    CHECK_EQ_INT(mf_register_plugin("told", path(), "num_nodes=1"), MF_OK);
    CHECK_STR(options(), "num_nodes integer 1, ");
    CHECK(!has_store());
    CHECK_EQ_INT(living(FAKE_ERROR), 0);
}
