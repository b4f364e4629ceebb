/* The tags of an exchange's messages: the call, the place of the rendezvous in it, and a description of the collective, as a hash to
 * compare and as a description for errors. A process that came to another collective finds the message of this one, and both sides report
 * it. Invariant: tags are the same in every process that runs the same program, whatever its addresses are. */
#include "runtime/collectives/exchange/exchange.h"

#include "base/text/location.h"
#include "base/text/symbol.h"

#include <string.h>

/* Identifies the rendezvous among all of a run: by its key within its map, and the map by the iterations and indices around it. */
static uint64_t place_of(const mf_rendezvous *g)
{
    bool grouped = g->instr->participants->groups; /* no groups: as the first group, so programs that differ in this find each other */
    uint64_t place = mf_hash(g->key, (size_t)(g->key_count - grouped) * sizeof *g->key, (uint64_t)g->instr->participants->ordinal);
    place = mf_hash_mix(place, grouped ? (uint64_t)g->key[g->key_count - 1] : 0);
    for (const mf_fiber *f = g->top->parent; f; f = f->map ? f->map->parent : NULL) {
        for (const mf_frame *frame = f->top; frame; frame = frame->below)
            place = mf_hash_mix(place, (uint64_t)frame->iteration);
        place = mf_hash_mix(place, f->map ? (uint64_t)mf_map_index(f->map->plan, f->index) : 0);
    }
    return place;
}

/* Functions with the same collectives are told apart by name. A name that is only an address has no meaning in other processes. */
static uint64_t hash_of_name(const char *function)
{
    return function && !strstr(function, MF_SYMBOL_UNKNOWN) ? mf_hash(function, strlen(function), 0) : 0;
}

/* A hash of the collective, which is the same in every process that runs it. */
static uint64_t check_of(const mf_rendezvous *g, const char *function)
{
    mf_participants *m = g->instr->participants;
    uint64_t known = atomic_load_explicit(&m->check, memory_order_relaxed);
    if (known)
        return known;
    uint64_t check = mf_hash_mix((uint64_t)g->instr->out_count, (uint64_t)g->member_count);
    check = mf_hash_mix(check, hash_of_name(function));
    for (int k = 0; k < g->instr->out_count; k++) {
        const mf_eqn *e = m->eqns[k];
        const mf_type *t = e->in[0]->type;
        check = mf_hash(e->op->name, strlen(e->op->name), check);
        check = mf_hash(t->dims, (size_t)t->rank * sizeof *t->dims, mf_hash_mix(check, (uint64_t)t->dtype));
        check = mf_hash_mix(check, mf_params_hash(e->op, e->params));
    }
    if (!m->groups) /* the members of groups may differ in number */
        atomic_store_explicit(&m->check, check, memory_order_relaxed);
    return check;
}

/* Adds the function and the line: " (pmap(f), file:line)", the location encoded. */
static void add_origin(mf_text *t, const mf_executable *of, const void *at)
{
    if (!of->function) {
        mf_location_encode(t, " (", at, ")");
        return;
    }
    mf_text_add(t, " (%.80s", of->function);
    mf_location_encode(t, ", ", at, "");
    mf_text_put(t, ")");
}

/* The collective in words: "psum of float32[3] over 'i' (pmap(f), file:line)"; the first few where many travel together. A library
 * function's location is the line that calls it. */
static const char *describe_collective(const mf_rendezvous *g, const mf_run_state *s)
{
    mf_participants *m = g->instr->participants;
    const mf_executable *of = s->executable;
    const mf_call_record *call = of->shares_locations ? mf_comm_record(s->comm, s->call) : NULL;
    const char *description = of->shares_locations ? NULL : atomic_load_explicit(&m->description, memory_order_acquire);
    if (description)
        return description;
    mf_text t = { 0 };
    for (int k = 0; k < g->instr->out_count && k < 3; k++)
        mf_text_add(&t, "%s%s of %.60s", k ? ", " : "", m->eqns[k]->op->name, mf_type_name(m->eqns[k]->in[0]->type));
    mf_text_add(&t, "%s over", g->instr->out_count > 3 ? ", ..." : "");
    for (int a = 0; a < m->axis_count && a < 3; a++)
        mf_text_add(&t, "%s '%.20s'", a ? "," : "", m->axes->at[a]);
    add_origin(&t, of, call ? atomic_load(&call->location) : of->shares_locations ? NULL : g->instr->eqn->address);
    description = t.at && !t.failed ? mf_intern(t.at) : NULL;
    mf_text_free(&t);
    if (!of->shares_locations)
        atomic_store_explicit(&m->description, description, memory_order_release);
    return description;
}

mf_message_tag mf_exchange_tag(const mf_exchange *x, uint64_t which)
{
    mf_message_tag tag = x->tag;
    tag.place = mf_hash_mix(tag.place, which);
    tag.exchange = x->scatter ? NULL : x; /* a reduce-scatter waits for its partial results first */
    return tag;
}

/* Whether the fiber that began the map is in a loop: then iterations tell the messages apart. */
static bool in_loop(const mf_rendezvous *g)
{
    for (const mf_fiber *f = g->top->parent; f; f = f->map ? f->map->parent : NULL)
        for (const mf_frame *frame = f->top; frame; frame = frame->below)
            if (frame->iteration >= 0)
                return true;
    return false;
}

/* A kept exchange meets the same members at the same place, so its tag stays the same, except for the call. */
void mf_exchange_name_messages(mf_exchange *x)
{
    const mf_run_state *s = x->run_state;
    bool same = x->named && !s->executable->shares_locations && !in_loop(x->rendezvous);
    if (!same)
        x->tag = (mf_message_tag){ 0,
                                   place_of(x->rendezvous),
                                   mf_hash_mix(check_of(x->rendezvous, s->executable->function), x->rendezvous->owners.hash),
                                   describe_collective(x->rendezvous, s),
                                   x->run_state,
                                   x };
    x->named = !in_loop(x->rendezvous);
    x->tag.call = s->call;
}
