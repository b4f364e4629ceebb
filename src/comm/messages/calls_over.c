/* Calls that are over in this process, well or not, so that processes that ask about one get an answer. Invariant: the calls of the same
 * processes are numbered from 0 on. All below `below` are over; a later one that is over is a bit of `ended`. The lock is held. */
#include "comm/messages/protocol.h"

#include "base/memory/alloc.h"

static mf_call_part *part_of(const mf_messages *m, uint64_t call)
{
    mf_call_part *p = m->parts;
    while (p && p->name != call >> MF_CALL_BITS)
        p = p->next;
    return p;
}

static uint64_t *word_of(mf_call_part *p, uint64_t number) { return &p->ended[number / 64 % (CALLS_OPEN / 64)]; }

static bool has_ended(const mf_messages *m, uint64_t call)
{
    mf_call_part *p = part_of(m, call);
    uint64_t number = call % ((uint64_t)1 << MF_CALL_BITS);
    return p && (number < p->below || (number - p->below < CALLS_OPEN && *word_of(p, number) >> number % 64 & 1));
}

/* A call that is CALLS_OPEN or more ahead of `below` is not recorded (runs are not let so far ahead), nor is one when memory is out:
 * processes that ask about it learn of it by the timeout. */
void mf_messages_set_ended(mf_messages *m, uint64_t call)
{
    mf_call_part *p = part_of(m, call);
    uint64_t number = call % ((uint64_t)1 << MF_CALL_BITS);
    if (!p && (p = mf_calloc(1, sizeof *p))) {
        p->name = call >> MF_CALL_BITS;
        p->next = m->parts;
        m->parts = p;
    }
    if (!p || number < p->below || number - p->below >= CALLS_OPEN)
        return;
    *word_of(p, number) |= (uint64_t)1 << number % 64;
    for (; *word_of(p, p->below) >> p->below % 64 & 1; p->below++)
        *word_of(p, p->below) &= ~((uint64_t)1 << p->below % 64);
}

static const char *abort_of(const mf_messages *m, uint64_t call)
{
    for (int i = 0; i < ABORTS_KEPT; i++)
        if (m->aborts[i].call == call + 1)
            return m->aborts[i].words;
    return NULL;
}

bool mf_messages_is_over(const mf_messages *m, uint64_t call) { return has_ended(m, call) || abort_of(m, call); }

const char *mf_messages_end_of(const mf_messages *m, uint64_t call, mf_text *told, bool *well)
{
    const char *words = abort_of(m, call);
    words = words ? words : m->left;
    *well = !words;
    if (words)
        return words;
    mf_comm_describe(told, mf_comm_record(&m->comm, call));
    return told->at;
}
