/* The profiler: its errors, and that the trace is valid JSON with a track for every worker, and with names and lines on the slices. */
#include "check.h"

#include <manyfold.h>

#include <unistd.h>

#define DEVICES 4

static char path[64];

static const char *trace_path(void)
{
    snprintf(path, sizeof path, "/tmp/mf_trace_%d.json", (int)getpid());
    return path;
}

static char *read_trace(void)
{
    static char text[1 << 20];
    FILE *f = fopen(path, "r");
    size_t n = f ? fread(text, 1, sizeof text - 1, f) : 0;
    if (f)
        fclose(f);
    text[n] = 0;
    unlink(path);
    return text;
}

/* ---- a strict JSON parser; returns NULL for invalid text */

static const char *skip_value(const char *s);

static const char *skip_blanks(const char *s) { return s + strspn(s, " \n\t\r"); }

static const char *skip_string(const char *s)
{
    if (*s++ != '"')
        return NULL;
    for (; *s != '"'; s++) {
        if ((unsigned char)*s < 0x20)
            return NULL;
        if (*s == '\\' && !strchr("\"\\/bfnrtu", *++s))
            return NULL;
    }
    return s + 1;
}

static const char *skip_list(const char *s, char end, bool keys)
{
    s = skip_blanks(s + 1);
    while (s && *s != end) {
        if (keys) {
            s = skip_string(s);
            s = s ? skip_blanks(s) : NULL;
            if (!s || *s++ != ':')
                return NULL;
        }
        s = skip_value(skip_blanks(s));
        s = s ? skip_blanks(s) : NULL;
        if (s && *s == ',') {
            s = skip_blanks(s + 1);
            if (*s == end)
                return NULL;
        } else if (s && *s != end) {
            return NULL;
        }
    }
    return s ? s + 1 : NULL;
}

static const char *skip_value(const char *s)
{
    if (*s == '{')
        return skip_list(s, '}', true);
    if (*s == '[')
        return skip_list(s, ']', false);
    if (*s == '"')
        return skip_string(s);
    char *end;
    strtod(s, &end);
    return end != s ? end : NULL;
}

static bool is_json(const char *s)
{
    s = skip_value(skip_blanks(s));
    return s && !*skip_blanks(s);
}

/* ---- */

static mf_value share(mf_value x) { return mf_tanh(mf_div(x, mf_psum(mf_mul(x, x), "i"))); }

static void work(void) { CHECK(mf_block_until_ready(mf_call(mf_pmap(share, .axis_name = "i"), mf_arange(DEVICES, MF_F32))) == MF_OK); }

static bool has_slice(const char *text, const char *category, const char *name)
{
    char part[128];
    for (const char *at = text; (at = strstr(at, "\"ph\":\"X\"")); at++) {
        const char *end = strchr(at, '\n');
        snprintf(part, sizeof part, "\"cat\":\"%s\"", category);
        const char *found = strstr(at, part), *named = strstr(at, name);
        if (found && found < end && named && named < end)
            return true;
    }
    return false;
}

TEST(refuses)
{
    const char *message;
    CHECK_EQ_INT(mf_profiler_stop_trace(), MF_ERROR_ARGUMENT);
    CHECK_EQ_INT(mf_first_error(&message), MF_ERROR_ARGUMENT);
    CHECK_CONTAINS(message, "no trace is under way");
    CHECK_EQ_INT(mf_profiler_start_trace("/nowhere/at/all.json"), MF_ERROR_IO);
    CHECK_EQ_INT(mf_first_error(&message), MF_ERROR_IO);
    CHECK_CONTAINS(message, "/nowhere/at/all.json");
    CHECK_EQ_INT(mf_profiler_start_trace(NULL), MF_ERROR_ARGUMENT);
    CHECK_EQ_INT(mf_first_error(&message), MF_ERROR_ARGUMENT);
    REQUIRE(mf_profiler_start_trace(trace_path()) == MF_OK);
    CHECK_EQ_INT(mf_profiler_start_trace(trace_path()), MF_ERROR_ARGUMENT);
    CHECK_EQ_INT(mf_first_error(&message), MF_ERROR_ARGUMENT);
    CHECK_CONTAINS(message, "under way already");
    CHECK_EQ_INT(mf_profiler_stop_trace(), MF_OK);
    CHECK(is_json(read_trace()));
}

TEST(says_when_the_disk_is_full)
{
    const char *message;
    if (access("/dev/full", W_OK))
        SKIP("there is no /dev/full");
    REQUIRE(mf_profiler_start_trace("/dev/full") == MF_OK);
    CHECK_EQ_INT(mf_profiler_stop_trace(), MF_ERROR_IO);
    CHECK_EQ_INT(mf_first_error(&message), MF_ERROR_IO);
}

TEST(has_a_row_for_everything)
{
    MF_SCOPE;
    REQUIRE(mf_profiler_start_trace(trace_path()) == MF_OK);
    work();
    mf_print(mf_add(mf_arange(3, MF_F32), 1));
    CHECK_EQ_INT(mf_profiler_stop_trace(), MF_OK);
    const char *text = read_trace();
    CHECK(is_json(text));
    static const char *const tracks[] = { "\"host\"",     "\"compiler\"", "\"collectives\"", "\"device 0\"",
                                          "\"device 1\"", "\"device 2\"", "\"device 3\"" };
    for (size_t i = 0; i < sizeof tracks / sizeof *tracks; i++)
        CHECK_CONTAINS(text, tracks[i]);
    CHECK(has_slice(text, "host", "call pmap(share)"));
    CHECK(has_slice(text, "host", "\"add\""));
    CHECK(has_slice(text, "compiler", "trace pmap(share)"));
    CHECK(has_slice(text, "compiler", "optimize"));
    CHECK(has_slice(text, "collective", "psum"));
    CHECK(has_slice(text, "device", "tanh"));
    CHECK(has_slice(text, "device", "test_profiler"));
    CHECK(has_slice(text, "collective", "test_profiler"));
}

static void add_here(mf_value x) { mf_block_until_ready(mf_add(x, mf_ones(MF_SHAPE(500), MF_F32))); }
enum { LINE = __LINE__ };
static void add_there(mf_value x) { mf_block_until_ready(mf_add(x, mf_zeros(MF_SHAPE(500), MF_F32))); }

static bool is_line(const char *text, int line)
{
    char place[64];
    snprintf(place, sizeof place, "test_profiler.c:%d", line);
    return has_slice(text, "device", place);
}

/* An op's program is shared by all lines that call the op. */
TEST(names_the_line_of_the_run)
{
    MF_SCOPE;
    mf_value x = mf_arange(500, MF_F32);
    add_here(x);
    REQUIRE(mf_profiler_start_trace(trace_path()) == MF_OK);
    add_there(x);
    CHECK_EQ_INT(mf_profiler_stop_trace(), MF_OK);
    const char *text = read_trace();
    CHECK(is_line(text, LINE + 1));
    CHECK(!is_line(text, LINE - 1));
}

TEST(tells_only_of_its_own_session)
{
    MF_SCOPE;
    REQUIRE(mf_profiler_start_trace(trace_path()) == MF_OK);
    work();
    CHECK_EQ_INT(mf_profiler_stop_trace(), MF_OK);
    read_trace();
    work();
    REQUIRE(mf_profiler_start_trace(trace_path()) == MF_OK);
    CHECK_EQ_INT(mf_profiler_stop_trace(), MF_OK);
    const char *text = read_trace();
    CHECK(is_json(text));
    CHECK(!strstr(text, "\"ph\":\"X\""));
}

static mf_value grow(mf_value x) { return mf_add(mf_psum(x, "i"), x); }

/* Large enough for the workers. */
TEST(records_on_workers)
{
    MF_SCOPE;
    REQUIRE(mf_profiler_start_trace(trace_path()) == MF_OK);
    mf_value x = mf_ones(MF_SHAPE(DEVICES, 1 << 18), MF_F32);
    for (int k = 0; k < 8; k++)
        x = mf_call(mf_pmap(grow, .axis_name = "i"), x);
    CHECK_EQ_INT(mf_profiler_stop_trace(), MF_OK); /* waits for x, which has not been read */
    const char *text = read_trace();
    CHECK(is_json(text));
    CHECK(has_slice(text, "collective", "\"bytes_a_device\":1048576"));
}

__attribute__((constructor)) static void devices(void) { mf_set_num_cpu_devices(DEVICES); }
