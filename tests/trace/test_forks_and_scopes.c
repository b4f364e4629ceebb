/* Contracts of processes, threads and scopes: in the child of a fork calls return errors; a stale handle's error names both places, an
 * escaped tracer's its trace; scopes may be closed in any order or never; releasing twice is harmless; mf_keep passes values to other
 * threads. */
#include "check.h"

#include <manyfold.h>
#include <pthread.h>
#include <sys/wait.h>
#include <unistd.h>

__attribute__((constructor)) static void eight_devices(void) { setenv("MF_NUM_CPU_DEVICES", "8", 1); }

static mf_value square(mf_value x) { return mf_mul(x, x); }
static mf_value normalize(mf_value x) { return mf_div(x, mf_psum(x, "i")); }
static mf_value eight(void) { return mf_arange(8, MF_F32); }

/* ---- forks */

static bool is_fork_error(mf_value v)
{
    const char *text = mf_error(v);
    return mf_is_error(v) && text && strstr(text, "child of a fork");
}

/* Everything that a program might call; nothing waits for workers, which do not exist in the child. */
static int in_child(mf_value x, mf_value pending)
{
    MF_SCOPE;
    mf_value made[] = { mf_add(x, 1),
                        mf_call(mf_pmap(normalize, "i"), x),
                        mf_call(mf_jit(square), x),
                        mf_call(mf_grad(square), 1.0),
                        mf_keep(x),
                        mf_escape(mf_f(1)),
                        mf_tuple(x, x),
                        mf_copy(pending),
                        mf_load_npy("/dev/null"),
                        mf_zeros(MF_SHAPE(2), MF_F32),
                        mf_random_normal(mf_random_key(0), MF_SHAPE(2), MF_F32),
                        mf_device_put(x, mf_devices().at[0]),
                        mf_state_value(mf_param_state(x)) };
    for (int i = 0; i < (int)(sizeof made / sizeof *made); i++)
        if (!is_fork_error(made[i]))
            return 10 + i;
    float out[8];
    fclose(stderr); /* which mf_exit_status writes to */
    if (mf_block_until_ready(pending) == MF_OK || mf_to_host(pending, MF_F32, out, 8) == MF_OK || !isnan(mf_item_f64(x)))
        return 2;
    if (!strstr(mf_str(x), "child of a fork") || mf_exit_status() == 0)
        return 3;
    mf_value v = x;
    mf_assign(&v, pending);
    mf_clear(&v);
    mf_release(x);
    mf_clear_caches();
    return 0;
}

TEST(a_forked_child_gets_errors_and_ends)
{
    for (int round = 0; round < 10; round++) {
        MF_SCOPE;
        mf_value x = eight(), pending = x;
        for (int i = 0; i < 20; i++) /* the workers are busy and hold locks */
            pending = mf_call(mf_pmap(normalize, "i"), mf_mul(mf_ones(MF_SHAPE(8, 5000), MF_F32), i + 1));
        fflush(NULL);
        pid_t child = fork();
        if (child == 0) {
            alarm(60);
            _exit(in_child(x, pending));
        }
        int status = -1;
        waitpid(child, &status, 0);
        if (!CHECK(WIFEXITED(status)) || !CHECK_EQ_INT(WEXITSTATUS(status), 0))
            break;
        CHECK_NEAR(mf_item_f64(mf_get(pending, 3, 0)), 0.125, 1e-6);
    }
}

/* ---- places */

static int closed_line;
static mf_value stale_value(void)
{
    mf_scope *scope = mf_scope_open();
    mf_value v = mf_add(eight(), 1);
    closed_line = __LINE__ + 1;
    mf_scope_close(scope);
    return v;
}

static void check_place(const char *text, const char *before, int line)
{
    char wanted[80];
    snprintf(wanted, sizeof wanted, "test_forks_and_scopes.c:%d", line);
    const char *from = text ? strstr(text, before) : NULL;
    if (!CHECK(from))
        CHECK_NOTE("no place behind \"%s\" in: %s", before, text ? text : "(none)");
    else if (strchr(from, ':')) /* without debug information a place is symbol+offset */
        CHECK_CONTAINS(from, wanted);
}

TEST(a_stale_handle_names_where_it_was_used_and_where_its_scope_closed)
{
    MF_SCOPE;
    mf_value v = stale_value();
    int used = __LINE__ + 1;
    mf_value e = mf_add(v, 1);
    const char *text;
    CHECK_EQ_INT(mf_first_error(&text), MF_ERROR_SCOPE); /* what mf_exit_status prints; mf_error is the sentence alone */
    check_place(text, "mf_keep (", used);
    check_place(text, "; its scope was closed at ", closed_line);
    check_place(mf_error_place(e), "", used);
}

static mf_value kept;
static mf_value leak(mf_value x)
{
    kept = mf_keep(mf_mul(x, 2));
    return x;
}

TEST(an_escaped_tracer_names_its_trace_and_its_use)
{
    MF_SCOPE;
    (void)mf_block_until_ready(mf_call(mf_pmap(leak, "i"), eight()));
    int used = __LINE__ + 1;
    mf_value e = mf_add(kept, 1);
    CHECK_EQ_INT(mf_error_status(e), MF_ERROR_TRACER);
    CHECK_CONTAINS(mf_error(e), "leak");
    check_place(mf_error_place(e), "", used);
    mf_release(kept);
}

/* ---- scopes */

TEST(scopes_close_in_any_order_or_never)
{
    mf_scope *outer = mf_scope_open();
    mf_value a = eight();
    mf_scope *inner = mf_scope_open();
    mf_value b = mf_add(a, 1);
    mf_scope_close(outer); /* closes the inner one too */
    mf_value e = mf_add(b, 1);
    CHECK_EQ_INT(mf_error_status(e), MF_ERROR_SCOPE);
    mf_scope_close(inner); /* which is gone: a warning, once */
    mf_scope_close(outer);
    mf_scope_close(NULL);
    mf_scope_open(); /* and is never closed: the thread's end does it */
    CHECK_STR(mf_str(mf_call(mf_pmap(normalize, "i"), mf_arange(2, MF_F32))), "[0. 1.]");
}

TEST(releasing_twice_is_harmless)
{
    MF_SCOPE;
    mf_value k = mf_keep(eight()), other = mf_keep(mf_add(k, 1));
    mf_release(k);
    mf_release(k);
    mf_value again = mf_keep(eight()); /* may have taken the slot of the first */
    mf_release(k);
    CHECK_NEAR(mf_item_f64(mf_sum(again)) + mf_item_f64(mf_sum(other)), 28 + 36, 0);
    mf_release(other);
    mf_release(again);
}

/* ---- threads */

static void *in_thread(void *p)
{
    mf_value *v = p;
    mf_scope_open(); /* the thread's end closes it */
    double got = mf_item_f64(mf_sum(mf_call(mf_pmap(square), *v)));
    mf_scope *never_mine = mf_scope_open();
    v[1] = mf_keep(mf_add(*v, 1));
    mf_release(*v);
    v[2] = mf_add(v[1], 1); /* owned by a scope of this thread */
    mf_scope_close(never_mine);
    return got == 140 ? p : NULL;
}

TEST(values_of_other_threads)
{
    MF_SCOPE;
    mf_value v[3] = { mf_keep(eight()) };
    pthread_t t;
    void *done = NULL;
    REQUIRE(pthread_create(&t, NULL, in_thread, v) == 0);
    pthread_join(t, &done);
    CHECK(done == v);
    CHECK_NEAR(mf_item_f64(mf_sum(v[1])), 36, 0);
    mf_value gone = mf_add(v[0], 1), ended = mf_add(v[2], 1);
    CHECK_EQ_INT(mf_error_status(gone), MF_ERROR_SCOPE);
    CHECK_EQ_INT(mf_error_status(ended), MF_ERROR_SCOPE);
    mf_release(v[1]);
}
