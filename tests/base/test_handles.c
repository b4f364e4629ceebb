/* Handles and scopes: ownership, and that every stale handle is detected. */
#include "base/handles/handle.h"
#include "base/text/string.h"
#include "check.h"

#include <pthread.h>
#include <sys/wait.h>
#include <unistd.h>

static _Atomic int destroyed;
static void count_destroyed(mf_object *o)
{
    (void)o;
    destroyed++;
}
static const mf_class thing = { "thing", count_destroyed };
static mf_value make(void) { return mf_value_new(mf_object_new(&thing, sizeof(mf_object))); }
static bool is_alive(mf_value v)
{
    MF_ENTER(false); /* it releases its temporary values when it returns */
    return mf_handle_get_as(v.handle, &thing) != NULL;
}

TEST(scope_ends_what_it_owns)
{
    destroyed = 0;
    mf_scope *s = mf_scope_open();
    mf_value v[100];
    for (int i = 0; i < 100; i++)
        v[i] = make();
    CHECK(is_alive(v[99]));
    mf_scope_close(s);
    CHECK_EQ_INT(destroyed, 100);
    for (int i = 0; i < 100; i++)
        CHECK(!is_alive(v[i]));
}

TEST(closing_closes_what_was_left_open_inside)
{
    mf_scope *outer = mf_scope_open();
    mf_scope_open();
    mf_value inside = make();
    mf_scope_open();
    mf_scope_close(outer);
    CHECK(!is_alive(inside));
}

static mf_value escaping(void)
{
    MF_SCOPE;
    mf_value dies = make(), lives = make();
    (void)dies;
    return mf_escape(lives);
}

TEST(escape_moves_one_scope_out)
{
    destroyed = 0;
    mf_scope *s = mf_scope_open();
    mf_value v = escaping();
    CHECK(is_alive(v));
    CHECK_EQ_INT(destroyed, 1);
    mf_scope_close(s);
    CHECK_EQ_INT(destroyed, 2);
}

TEST(assign_gives_the_new_value_the_old_owner)
{
    destroyed = 0;
    mf_scope *s = mf_scope_open();
    mf_value carry = make();
    for (int i = 0; i < 10; i++) {
        MF_SCOPE;
        mf_value before = carry;
        mf_assign(&carry, make());
        CHECK(!is_alive(before));
    }
    CHECK(is_alive(carry));
    CHECK_EQ_INT(destroyed, 10);
    mf_scope_close(s);
    CHECK_EQ_INT(destroyed, 11);
}

TEST(a_copy_of_an_assigned_handle_names_the_assignment)
{
    MF_SCOPE;
    mf_value a = make(), b = a, c = { 0 };
    mf_assign(&c, a);
    for (int i = 0; i < 2000; i++) { /* releases in between do not hide it */
        MF_SCOPE;
        mf_assign(&b, make());
        make();
    }
    CHECK(is_alive(b));
    CHECK(is_alive(c)); /* a different value */
    mf_error_object *e = (mf_error_object *)mf_object_of(a);
    REQUIRE(mf_object_is(&e->object, &mf_error_class));
    CHECK_EQ_INT(e->status, MF_ERROR_SCOPE);
    CHECK_CONTAINS(e->message, "after mf_assign had given its variable another one");
    CHECK_CONTAINS(mf_error_text(e), "; mf_assign did so at ");
    mf_clear(&c);
}

TEST(a_stale_value_that_is_assigned_owes_a_look)
{
    mf_value stale, v = { 0 };
    {
        MF_SCOPE;
        stale = make();
    }
    MF_SCOPE;
    mf_assign(&v, stale);
    CHECK_EQ_INT(mf_first_error(NULL), MF_ERROR_SCOPE);
    mf_value w = make();
    mf_assign(&w, stale);
    CHECK_EQ_INT(mf_first_error(NULL), MF_ERROR_SCOPE);
    CHECK_EQ_INT(mf_first_error(NULL), MF_OK);
    mf_clear(&v);
}

TEST(assign_to_an_unset_variable_outlives_every_scope)
{
    mf_value v = { 0 };
    {
        MF_SCOPE;
        mf_assign(&v, make());
    }
    CHECK(is_alive(v));
    mf_clear(&v);
    CHECK_EQ_UINT(v.handle, 0);
}

TEST(assigning_to_itself_changes_nothing)
{
    MF_SCOPE;
    mf_value v = make();
    mf_assign(&v, v);
    CHECK(is_alive(v));
}

TEST(kept_handles_end_by_release)
{
    destroyed = 0;
    mf_value kept;
    {
        MF_SCOPE;
        kept = mf_keep(make());
    }
    CHECK(is_alive(kept));
    CHECK_EQ_INT(destroyed, 0);
    mf_release(kept);
    CHECK(!is_alive(kept));
    CHECK_EQ_INT(destroyed, 1);
    mf_release(kept); /* a second time is harmless */
}

static void look_while_it_ends(mf_value kept)
{
    MF_ENTER();
    CHECK(mf_handle_get_as(kept.handle, &thing) != NULL);
    mf_release(kept);
    CHECK(mf_handle_get_as(kept.handle, &thing) != NULL);
    CHECK_EQ_INT(destroyed, 0);
}

TEST(what_a_public_function_looks_at_stays_until_it_returns)
{
    destroyed = 0;
    mf_value kept = { mf_handle_new_kept(mf_object_new(&thing, sizeof(mf_object))) };
    look_while_it_ends(kept);
    CHECK(!is_alive(kept));
    CHECK_EQ_INT(destroyed, 1);
}

/* A slot has 2^31 generations and is retired after the last one: an old handle never refers to a new value. */
TEST(a_slot_whose_generations_are_used_up_is_retired)
{
    mf_value v = mf_keep(mf_f(1)), old = v;
    uint32_t index = (uint32_t)v.handle;
    atomic_store(&mf_slot_at(index)->generation, UINT32_MAX);
    v.handle = (uint64_t)UINT32_MAX << 32 | index;
    CHECK(!mf_is_error(v));
    mf_release(v);
    for (int i = 0; i < 3000; i++) {
        mf_value next = mf_keep(mf_f(2));
        CHECK((uint32_t)next.handle != index);
        mf_release(next);
    }
    CHECK(mf_is_error(v) && mf_is_error(old));
}

TEST(a_stale_handle_gives_an_error_that_says_so)
{
    mf_value v;
    {
        MF_SCOPE;
        v = make();
    }
    mf_object *o = mf_object_of(v);
    REQUIRE(mf_object_is(o, &mf_error_class));
    mf_error_object *e = (mf_error_object *)o;
    CHECK_EQ_INT(e->status, MF_ERROR_SCOPE);
    CHECK_CONTAINS(e->message, "after the scope that owned it had been closed");
    CHECK_CONTAINS(mf_error_text(e), "its scope was closed at");
    for (int i = 0; i < 3000; i++) { /* the slot is reused, but the generation differs */
        MF_SCOPE;
        make();
    }
    CHECK(!is_alive(v));
    o = mf_object_of((mf_value){ UINT64_MAX });
    REQUIRE(mf_object_is(o, &mf_error_class));
    mf_error_handle((mf_error_object *)o);
    CHECK(mf_object_of((mf_value){ 0 }) == NULL);
}

/* A C number that was passed where a value is expected becomes a handle with that number. */
TEST(a_number_is_no_handle)
{
    mf_error_object *e = (mf_error_object *)mf_handle_get(7);
    REQUIRE(mf_object_is(&e->object, &mf_error_class));
    CHECK_CONTAINS(e->message, "the number 7 stands where a value is due");
    e = (mf_error_object *)mf_handle_get((uint64_t)-3);
    REQUIRE(mf_object_is(&e->object, &mf_error_class));
    CHECK_CONTAINS(e->message, "the number -3 stands where a value is due");
}

TEST(an_error_escapes_in_place_of_a_stale_value)
{
    MF_SCOPE;
    mf_value stale, v;
    {
        MF_SCOPE;
        stale = make();
    }
    {
        MF_SCOPE;
        v = mf_escape(stale);
    }
    mf_error_object *e = (mf_error_object *)mf_handle_get_as(v.handle, &mf_error_class);
    REQUIRE(e);
    CHECK_EQ_INT(e->status, MF_ERROR_SCOPE);
    mf_error_handle(e);
}

TEST(many_handles_at_once)
{
    enum { MANY = 200000 };
    destroyed = 0;
    int64_t before = mf_handle_live_count();
    mf_scope *s = mf_scope_open();
    uint64_t *at = malloc(MANY * sizeof *at);
    for (int i = 0; i < MANY; i++)
        at[i] = make().handle;
    CHECK_EQ_INT(mf_handle_live_count() - before, MANY);
    int dead = 0;
    for (int i = 0; i < MANY; i++)
        dead += !mf_handle_get_as(at[i], &thing);
    CHECK_EQ_INT(dead, 0);
    mf_scope_close(s);
    CHECK_EQ_INT(destroyed, MANY);
    CHECK_EQ_INT(mf_handle_live_count(), before);
    free(at);
}

typedef struct shared {
    mf_value given, taken;
} shared;

static void *other_thread(void *context)
{
    shared *s = context;
    MF_SCOPE;
    for (int i = 0; i < 20000; i++) {
        MF_SCOPE;
        make();
    }
    if (!is_alive(s->given))
        return NULL;
    s->taken = mf_keep(s->given);
    mf_assign(&s->given, make()); /* the value belongs to the other thread */
    if (mf_error_status(s->given) != MF_ERROR_SCOPE)
        return NULL;
    mf_value outermost = { 0 };
    mf_assign(&outermost, make());
    return s;
}

TEST(values_cross_threads_by_keeping)
{
    MF_SCOPE;
    pthread_t t[4];
    shared s[4];
    for (int i = 0; i < 4; i++) {
        s[i] = (shared){ .given = make() };
        REQUIRE(pthread_create(&t[i], NULL, other_thread, &s[i]) == 0);
    }
    for (int i = 0; i < 4; i++) {
        void *done;
        pthread_join(t[i], &done);
        CHECK(done == &s[i]);
        CHECK(is_alive(s[i].taken));
        mf_release(s[i].taken);
    }
}

TEST(a_thread_that_ends_ends_its_values)
{
    MF_SCOPE;
    int64_t before = mf_handle_live_count();
    pthread_t t;
    shared s = { .given = make() };
    REQUIRE(pthread_create(&t, NULL, other_thread, &s) == 0);
    pthread_join(t, NULL);
    mf_release(s.taken);
    CHECK_EQ_INT(mf_handle_live_count(), before + 1);
}

TEST(every_call_in_a_forked_child_is_an_error)
{
    MF_SCOPE;
    mf_value v = make();
    fflush(NULL);
    pid_t child = fork();
    if (child == 0) {
        bool ok = mf_is_error(v) && strstr(mf_error(v), "child of a fork");
        mf_value made = mf_keep(v);
        ok = ok && mf_object_is(mf_object_of(made), &mf_error_class) && mf_scope_open() == NULL && mf_first_error(NULL) != MF_OK;
        _exit(ok ? 0 : 1);
    }
    int status = -1;
    waitpid(child, &status, 0);
    CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 0);
    CHECK(is_alive(v));
}
