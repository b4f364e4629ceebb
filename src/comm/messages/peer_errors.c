/* The texts of errors about other processes. An error may be made with the lock held, and for many operations at once, so its text has
 * marks: for locations, which are looked up only when the error is delivered and no lock is held, and for the operation that gets it.
 * Invariant: no mark is left in an error that leaves the communicator. */
#include "comm/messages/protocol.h"

#include "base/text/location.h"
#include "runtime/profile/profiler.h"

#define OWN "\2" /* stands for the operation with which this process waits */

static void put_own(mf_text *t, const mf_message_tag *own)
{
    if (!own->description) {
        mf_text_put(t, "this collective");
        return;
    }
    mf_location_decode(t, own->description, strlen(own->description));
    mf_text_add(t, " in call %llu", (unsigned long long)mf_call_number(own->call));
}

mf_error_object *mf_peer_error_complete(mf_error_object *e, const mf_message_tag *own)
{
    if (!e || !strpbrk(e->message, "\1" OWN))
        return e;
    mf_text t = { 0 };
    const char *rest = e->message;
    for (const char *at; (at = strchr(rest, *OWN)); rest = at + 1) {
        mf_location_decode(&t, rest, (size_t)(at - rest));
        put_own(&t, own);
    }
    mf_location_decode(&t, rest, strlen(rest));
    mf_error_object *complete = t.at && !t.failed ? mf_error_new(e->status, "%s", t.at) : mf_error_out_of_memory();
    mf_text_free(&t);
    mf_error_ignore(e);
    return complete;
}

mf_error_object *mf_peer_error_differs(int peer, const mf_message_tag *own, const void *theirs, size_t count)
{
    static const char why[] = "it runs another program, or its functions in another order";
    if (!count || !own->description)
        return mf_error_new(MF_ERROR_PEER, "process %d computes something else here: %s", peer, why);
    if (strlen(own->description) == count && !memcmp(own->description, theirs, count))
        return mf_error_new(MF_ERROR_PEER,
                            "process %d computes something else here: " OWN " too, but over other devices or groups, or otherwise; %s",
                            peer, why);
    return mf_error_new(MF_ERROR_PEER, "process %d computes something else here: %.*s, and not " OWN "; %s", peer, (int)count,
                        (const char *)theirs, why);
}

mf_error_object *mf_peer_error_over(int peer, uint64_t call, bool well, const char *text)
{
    if (!well && *text)
        return mf_error_new(MF_ERROR_PEER, "process %d: %s; " OWN " waits for it", peer, text);
    return mf_error_new(MF_ERROR_PEER, "process %d ended its call %llu%s%s without " OWN, peer, (unsigned long long)mf_call_number(call),
                        text, *text ? "," : "");
}

/* The newest call of all processes of which a message came from this process. */
static void put_newest(mf_text *t, const mf_messages *m, int process)
{
    uint64_t newest = m->peers[process].newest;
    if (!newest) {
        mf_text_put(t, "no message has come from it");
        return;
    }
    mf_text_add(t, "its last message was of call %llu", (unsigned long long)newest - 1);
    mf_comm_describe(t, mf_comm_record(&m->comm, newest - 1));
}

static mf_error_object *made_of(mf_text *t)
{
    mf_error_object *e = t->at && !t->failed ? mf_error_new(MF_ERROR_PEER, "%s", t->at) : mf_error_out_of_memory();
    mf_text_free(t);
    return e;
}

mf_error_object *mf_messages_dead_error(const mf_messages *m)
{
    mf_text t = { 0 };
    mf_text_add(&t, "process %d has died: ", m->first_dead);
    put_newest(&t, m, m->first_dead);
    mf_text_put(&t, "; " OWN " waits for it");
    return made_of(&t);
}

mf_error_object *mf_messages_gone_error(const mf_messages *m, int process)
{
    bool dead = process >= 0 && (m->peers[process].dead || (!m->broken && !m->left)); /* it, or another one in a call of all */
    return dead        ? mf_messages_dead_error(m)
           : m->broken ? mf_retain(m->broken)
                       : mf_error_new(MF_ERROR_PEER, "this process has left the job: %s", m->left);
}

mf_error_object *mf_peer_error_late(const mf_messages *m, const mf_operation *op, int64_t now)
{
    const mf_peer *p = &m->peers[op->peer];
    double seconds = (double)(now - op->since) / 1e9;
    mf_text t = { 0 };
    if (p->last_heard <= op->since) { /* STATUS_QUERY is sent 20 ms later at the earliest, so an answer has a later time */
        mf_text_add(&t, "process %d has not answered for %.1f s: it is stopped or gone; ", op->peer, seconds);
        put_newest(&t, m, op->peer);
        mf_text_put(&t, "; " OWN " waits for it");
        return made_of(&t);
    }
    if (op->begun) {
        mf_text_add(&t, "process %d is %.1f s late for " OWN, op->peer, seconds);
    } else {
        mf_text_add(&t, "process %d has not begun ", op->peer);
        mf_comm_name_call(&t, &m->comm, op->tag.call);
        mf_comm_describe(&t, mf_comm_record(&m->comm, op->tag.call));
        mf_text_add(&t, ", for %.1f s", seconds);
    }
    if (p->status)
        mf_text_add(&t, ": %s", p->status);
    return made_of(&t);
}

mf_error_object *mf_peer_error_deadlock(const mf_messages *m, const mf_wait_search *s, int peer)
{
    enum { LISTED = 16 };
    mf_text text = { 0 };
    mf_text_put(&text, "processes ");
    for (int i = 0; i < s->count && i < LISTED; i++)
        mf_text_add(&text, "%s%llu", !i ? "" : i + 1 < s->count ? ", " : " and ", (unsigned long long)s->nodes[i].process);
    mf_text_add(&text, "%s wait for each other: " OWN " waits for process %d", s->count > LISTED ? ", ..." : "", peer);
    if (m->peers[peer].status)
        mf_text_add(&text, "; %s", m->peers[peer].status);
    return made_of(&text);
}

void mf_peer_put_status(mf_text *t, const mf_messages *m)
{
    int64_t now = mf_profile_now();
    uint64_t begun = atomic_load(&m->comm.begun);
    const mf_call_record *r = begun ? &m->comm.newest[(begun - 1) % MF_CALLS_KEPT] : NULL;
    uint64_t call = r ? atomic_load(&r->call) : 0;
    if (!call) {
        mf_text_put(t, "it has begun none");
        return;
    }
    mf_text_put(t, "its last was ");
    mf_comm_name_call(t, &m->comm, call - 1);
    mf_comm_describe(t, r);
    mf_text_add(t, ", %.1f s ago", (double)(now - atomic_load(&r->at)) / 1e9);
    if (m->last_collective)
        mf_text_add(t, "; its last collective was %s, %.1f s ago", m->last_collective, (double)(now - m->last_at) / 1e9);
}
