/* Describes a deadlock among devices: which devices came to which collective, which did not, and where those wait.
 * Invariant: the run is over, so nothing changes meanwhile. */
#include "runtime/collectives/collectives.h"

void mf_list_device(mf_text *t, int *count, int device)
{
    if (*count < 16)
        mf_text_add(t, "%s%d", *count ? ", " : "", device);
    else if (*count == 16)
        mf_text_put(t, ", ...");
    ++*count;
}

static void list_axes(mf_text *t, const mf_namelist *axes, int count)
{
    for (int a = 0; a < count; a++)
        mf_text_add(t, "%s'%s'", a ? ", " : "", axes->at[a]);
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
    int here = 0, away = 0, first = -1;
    mf_text_add(t, "%s over ", g->instr->eqn->op->name);
    list_axes(t, m->axes, m->axis_count);
    mf_text_put(t, " was reached by devices ");
    for (int64_t i = 0; i < g->here_count; i++)
        if (g->members[i].here)
            mf_list_device(t, &here, g->members[i].device);
    mf_text_put(t, ", but devices ");
    for (int64_t i = 0; i < g->here_count; i++)
        if (!g->members[i].here) {
            int device = mf_rendezvous_device(g, g->members[i].rank);
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

mf_error_object *mf_devices_differ_error(const mf_eqn *e, const mf_eqn *collective, const mf_namelist *axes, const char *const devices[2],
                                         const int counts[2])
{
    mf_text t = { 0 };
    list_axes(&t, axes, axes->count);
    mf_error_object *error = mf_error_new_at(
        collective->address, MF_ERROR_DEVICE,
        "The devices disagree: %s over %s stands in a %s, which device%s %s %s otherwise than device%s %s. Control flow "
        "must agree among the devices of a collective.",
        collective->op->name, t.at && !t.failed ? t.at : "", e->op->name, counts[0] > 1 ? "s" : "", devices[0],
        counts[0] > 1 ? "go through" : "goes through", counts[1] > 1 ? "s" : "", devices[1]);
    mf_text_free(&t);
    return error;
}
