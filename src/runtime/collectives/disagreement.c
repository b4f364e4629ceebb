/* What to say when devices wait for each other for ever: who came to which collective, who did not, and where those are.
 * Invariant: the run is over, so nothing here is still moving. */
#include "runtime/collectives/collectives.h"

void mf_list_device(mf_text *t, int *count, int device)
{
    if (*count < 16)
        mf_text_add(t, "%s%d", *count ? ", " : "", device);
    else if (*count == 16)
        mf_text_put(t, ", ...");
    ++*count;
}

static void list_axes(mf_text *t, const mf_participants *m)
{
    for (int a = 0; a < m->axis_count; a++)
        mf_text_add(t, "%s'%s'", a ? ", " : "", m->axes->at[a]);
}

static const char *whereabouts(const mf_run_state *s, int device)
{
    for (const mf_fiber *f = s->live; f; f = f->live_after)
        if (f->device == device && f->index >= 0 && f->waiting && f->waiting->kind == MF_DO_COLLECTIVE && f->top)
            return f->waiting->eqn->op->name;
    return NULL;
}

static void describe_rendezvous(mf_text *t, const mf_run_state *s, const mf_rendezvous *g)
{
    const mf_participants *m = g->instr->participants;
    const mf_participant *present = NULL;
    int here = 0, away = 0, first = -1;
    mf_text_add(t, "%s over ", g->instr->eqn->op->name);
    list_axes(t, m);
    mf_text_put(t, " was reached by devices ");
    for (int64_t i = 0; i < g->member_count; i++)
        if (g->members[i].here) {
            present = &g->members[i];
            mf_list_device(t, &here, present->device);
        }
    mf_text_put(t, ", but devices ");
    for (int64_t i = 0; i < g->member_count; i++)
        if (!g->members[i].here && (!g->owners || g->owners[i] == s->comm->rank)) {
            int device = mf_rendezvous_device(g, present->map, present->index, i);
            first = first < 0 ? device : first;
            mf_list_device(t, &away, device);
        }
    const char *elsewhere = whereabouts(s, first);
    if (elsewhere)
        mf_text_add(t, " took another way: device %d waits in another %s", first, elsewhere);
    else
        mf_text_put(t, " never come to it");
}

mf_error_object *mf_disagreement(mf_run_state *s)
{
    mf_text t = { 0 };
    const void *address = NULL;
    for (mf_map *m = s->maps; m && !t.count; m = m->live_after)
        if (m->rendezvous) {
            describe_rendezvous(&t, s, m->rendezvous);
            address = m->rendezvous->instr->eqn->address;
        }
    if (!t.count)
        mf_text_put(&t, "the devices wait for each other");
    mf_error_object *e = mf_error_new(MF_ERROR_DEVICE,
                                      "The devices disagree: %s. Control flow must agree among the devices of a collective.",
                                      t.at && !t.failed ? t.at : "");
    if (address)
        mf_error_set_address(e, address);
    mf_text_free(&t);
    return e;
}
