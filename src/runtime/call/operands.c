/* Chooses where a call runs. Invariant: a committed operand never moves by itself; committed operands of two clients are an error that
 * names both. */
#include "runtime/call/operands.h"

#include "base/memory/alloc.h"

static mf_error_object *two_clients(const mf_client *client, const mf_array *first, const mf_array *other)
{
    const char *there = mf_array_client(other)->platform;
    if (!first)
        return mf_error_new(MF_ERROR_DEVICE,
                            "an operand, %s, is committed to devices of %s, but the call is to run on %s; mf_device_put moves it",
                            mf_type_name(other->type), there, client->platform);
    return mf_error_new(MF_ERROR_DEVICE,
                        "one operand, %s, is committed to devices of %s, and another, %s, to devices of %s; mf_device_put moves it",
                        mf_type_name(first->type), client->platform, mf_type_name(other->type), there);
}

static mf_error_object *choose(const mf_client *named, mf_array *const *in, int count, const mf_client **client)
{
    const mf_array *first = NULL;
    *client = named;
    for (int i = 0; i < count; i++) {
        if (!in[i]->sharding->committed)
            continue;
        if (!*client) {
            first = in[i];
            *client = mf_array_client(first);
        }
        if (mf_array_client(in[i]) != *client)
            return two_clients(*client, first, in[i]);
    }
    *client = *client ? *client : mf_client_default();
    return NULL;
}

mf_error_object *mf_operands_place(const mf_client *named, mf_array **in, int count, const mf_client **client, mf_moved_operands *moved)
{
    *moved = (mf_moved_operands){ 0, NULL };
    mf_error_object *error = choose(named, in, count, client);
    if (error || mf_operands_are_on(*client, in, count))
        return error;
    moved->was = mf_calloc((size_t)count, sizeof(mf_array *));
    if (!moved->was)
        return mf_error_out_of_memory();
    for (; moved->count < count && !error; moved->count++) {
        int i = moved->count;
        mf_array *there = mf_array_client(in[i]) == *client ? NULL : mf_array_on(*client, in[i], &error);
        if (!there)
            continue;
        moved->was[i] = in[i];
        in[i] = there;
    }
    if (error)
        mf_operands_restore(moved, in, NULL);
    return error;
}

/* Marks the original of a copied operand as donated. */
static void give(mf_array *a)
{
    const char *before = NULL;
    if (atomic_compare_exchange_strong(&a->deleted, &before, "donated") && a->buffer)
        mf_drop(mf_array_give_up(a));
}

void mf_operands_restore(mf_moved_operands *moved, mf_array **in, const bool *donated)
{
    for (int i = 0; moved->was && i < moved->count; i++) {
        if (!moved->was[i])
            continue;
        mf_drop(in[i]);
        in[i] = moved->was[i];
        if (donated && donated[i])
            give(in[i]);
    }
    mf_free(moved->was);
    moved->was = NULL;
}
