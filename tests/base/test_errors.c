/* Errors: first, observed, reported, remembered, and where. */
#include "base/memory/alloc.h"
#include "base/handles/handle.h"
#include "base/text/string.h"
#include "check.h"

typedef struct report {
    int count;
    mf_status status;
    char message[256];
} report;

static void take(mf_status status, const char *message, void *context)
{
    report *r = context;
    r->count++;
    r->status = status;
    snprintf(r->message, sizeof r->message, "%s", message);
}

TEST(an_unobserved_error_is_reported_once)
{
    report r = { 0 };
    mf_set_error_hook(take, &r);
    {
        MF_SCOPE;
        mf_value v = mf_make_error(MF_ERROR_AXIS, "axis %d is not there", 3);
        mf_escape(mf_keep(v)); /* two handles of one error */
        mf_value kept = mf_keep(v);
        mf_release(kept);
        CHECK_EQ_INT(r.count, 0);
        (void)v;
    }
    {
        MF_SCOPE;
        mf_make_error(MF_ERROR_SHAPE, "second");
    }
    CHECK_EQ_INT(r.count, 1); /* the kept handle is still alive */
    CHECK_EQ_INT(r.status, MF_ERROR_SHAPE);
    CHECK_CONTAINS(r.message, "second");
    mf_set_error_hook(NULL, NULL);
    const char *message;
    CHECK_EQ_INT(mf_first_error(&message), MF_ERROR_AXIS); /* in the order of creation */
    CHECK_CONTAINS(message, "axis 3 is not there");
    CHECK_EQ_INT(mf_first_error(&message), MF_ERROR_SHAPE); /* reporting does not handle an error */
    CHECK_CONTAINS(message, "second");
    CHECK_EQ_INT(mf_first_error(&message), MF_OK);
    CHECK(message == NULL);
}

TEST(asking_is_handling)
{
    report r = { 0 };
    mf_set_error_hook(take, &r);
    {
        MF_SCOPE;
        mf_value v = mf_make_error(MF_ERROR_DTYPE, "no");
        CHECK_STR(mf_error(v), "no");
        v = mf_make_error(MF_ERROR_DTYPE, "no");
        CHECK_EQ_INT(mf_error_status(v), MF_ERROR_DTYPE);
        CHECK(mf_is_error(mf_make_error(MF_OK, "still")));
    }
    CHECK_EQ_INT(r.count, 1); /* mf_is_error does not handle an error */
    CHECK_CONTAINS(r.message, "still");
    mf_set_error_hook(NULL, NULL);
    CHECK_EQ_INT(mf_first_error(NULL), MF_ERROR_ARGUMENT);
}

TEST(the_first_of_several_is_first)
{
    MF_SCOPE;
    mf_make_error(MF_ERROR_IO, "one");
    mf_make_error(MF_ERROR_PEER, "two");
    const char *message;
    CHECK_EQ_INT(mf_first_error(&message), MF_ERROR_IO);
    CHECK_EQ_INT(mf_first_error(&message), MF_ERROR_PEER);
    CHECK_EQ_INT(mf_first_error(&message), MF_OK);
}

TEST(what_left_the_values_is_remembered)
{
    mf_error_remember(mf_error_new(MF_ERROR_IO, "a status"));
    mf_error_remember(mf_error_new(MF_ERROR_IO, "a later one"));
    const char *message;
    CHECK_EQ_INT(mf_first_error(&message), MF_ERROR_IO);
    CHECK_CONTAINS(message, "a status");
    CHECK_EQ_INT(mf_first_error(&message), MF_ERROR_IO);
    CHECK_CONTAINS(message, "a later one");
    CHECK_EQ_INT(mf_first_error(&message), MF_OK);
    CHECK_EQ_INT(mf_error_remember(NULL), MF_OK);
}

/* A composite function keeps the first error inside it, which explains those that follow; an error that was dropped inside explains
 * nothing. */
TEST(an_error_that_is_ignored_in_a_function_of_functions_is_none)
{
    report r = { 0 };
    mf_set_error_hook(take, &r);
    {
        MF_LAYER;
        mf_error_ignore(mf_error_new(MF_ERROR_PEER, "nobody's"));
        (void)mf_keep(mf_make_error(MF_ERROR_AXIS, "somebody's"));
    }
    CHECK_EQ_INT(r.count, 0);
    const char *message = NULL;
    CHECK(mf_first_error(&message) == MF_ERROR_AXIS && strstr(message, "somebody's"));
    mf_set_error_hook(NULL, NULL);
}

TEST(wrapping_keeps_status_and_place)
{
    mf_error_object *e = mf_error_new_at((const void *)(uintptr_t)&take, MF_ERROR_SHAPE, "inner");
    const void *address = e->address;
    e = mf_error_wrap(e, "in %s", "cond");
    CHECK_STR(e->message, "in cond: inner");
    CHECK_EQ_INT(e->status, MF_ERROR_SHAPE);
    CHECK(e->address == address);
    mf_error_ignore(e);
}

TEST(an_error_knows_its_place)
{
    MF_SCOPE;
    mf_value v = mf_make_error(MF_ERROR_ARGUMENT, "here");
    const char *place = mf_error_place(v);
    REQUIRE(place);
    CHECK(strstr(place, "test_errors") || strchr(place, '+'));
    CHECK_STR(mf_error(v), "here"); /* only the sentence */
}

TEST(out_of_memory_is_a_value)
{
#ifndef NDEBUG
    MF_SCOPE;
    for (int n = 1; n < 12; n++) {
        mf_alloc_fail_after(n);
        mf_value v = mf_make_error(MF_ERROR_IO, "text that needs memory %d", n);
        mf_alloc_fail_after(0);
        CHECK(mf_error_status(v) == MF_ERROR_IO || mf_error_status(v) == MF_ERROR_MEMORY);
    }
#endif
}

TEST(growing_text)
{
    mf_text t = { 0 };
    for (int i = 0; i < 1000; i++)
        mf_text_add(&t, "%d,", i);
    CHECK_EQ_UINT(t.count, 10 * 2 + 90 * 3 + 900 * 4);
    mf_text_free(&t);
    MF_SCOPE;
    CHECK_STR(mf_text_to_scope(&t), "");
    mf_text_put(&t, "kept");
    CHECK_STR(mf_text_to_scope(&t), "kept");
}
