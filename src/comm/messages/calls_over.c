/* Calls that are over in this process, well or not, so that processes that ask about one get an answer. Invariant: the calls of a group
 * of processes are numbered from 0 on. All below `below` are over; a later one that is over is a bit of `ended`. The lock is held. */
#include "comm/messages/protocol.h"

#include "base/memory/alloc.h"

static mf_group_calls *group_of(const mf_messages *m, uint64_t call)
{
    mf_group_calls *g = m->groups;
    while (g && g->group != call >> MF_CALL_BITS)
        g = g->next;
    return g;
}

static uint64_t *word_of(mf_group_calls *g, uint64_t number) { return &g->ended[number / 64 % (CALLS_OPEN / 64)]; }

static bool has_ended(const mf_messages *m, uint64_t call)
{
    mf_group_calls *g = group_of(m, call);
    uint64_t number = call % ((uint64_t)1 << MF_CALL_BITS);
    return g && (number < g->below || (number - g->below < CALLS_OPEN && *word_of(g, number) >> number % 64 & 1));
}

/* A call that is CALLS_OPEN or more ahead of `below` is not recorded (runs are not let so far ahead), nor is one when memory is out:
 * processes that ask about it learn of it by the timeout. */
void mf_messages_set_ended(mf_messages *m, uint64_t call)
{
    mf_group_calls *g = group_of(m, call);
    uint64_t number = call % ((uint64_t)1 << MF_CALL_BITS);
    if (!g && (g = mf_calloc(1, sizeof *g))) {
        g->group = call >> MF_CALL_BITS;
        g->next = m->groups;
        m->groups = g;
    }
    if (!g || number < g->below || number - g->below >= CALLS_OPEN)
        return;
    *word_of(g, number) |= (uint64_t)1 << number % 64;
    for (; *word_of(g, g->below) >> g->below % 64 & 1; g->below++)
        *word_of(g, g->below) &= ~((uint64_t)1 << g->below % 64);
}

static const char *abort_of(const mf_messages *m, uint64_t call)
{
    for (int i = 0; i < ABORTS_KEPT; i++)
        if (m->aborts[i].call == call + 1)
            return m->aborts[i].reason;
    return NULL;
}

bool mf_messages_is_over(const mf_messages *m, uint64_t call) { return has_ended(m, call) || abort_of(m, call); }

const char *mf_messages_end_of(const mf_messages *m, uint64_t call, mf_text *buffer, bool *well)
{
    const char *text = abort_of(m, call);
    text = text ? text : m->left;
    *well = !text;
    if (text)
        return text;
    mf_comm_describe(buffer, mf_comm_record(&m->comm, call));
    return buffer->at;
}
