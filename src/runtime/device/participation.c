/* Which processes take part in a call that exchanges something, and the number of the call. Invariant: processes that make the same
 * calls with each other give each call the same number, whatever calls they make with other processes in between, and whether a call
 * begins or fails before it begins. */
#include "runtime/comm.h"

#include "base/memory/alloc.h"
#include "base/text/location.h"
#include "ops/ops.h"
#include "runtime/profile/profiler.h"
#include "transform/functions/mapped/pmap.h"

#include <pthread.h>
#include <string.h>

/* ------------------------------------------------------------------ groups of processes */

typedef struct mf_comm_group {
    struct mf_comm_group *next;
    const mf_intlist *processes;
    _Atomic uint64_t calls;
} mf_comm_group;

/* Finds or adds them. NULL: memory is out. */
static mf_comm_group *group_of(mf_comm *c, const mf_intlist *processes)
{
    mf_comm_group *first = atomic_load(&c->groups), *made = NULL;
    do {
        for (mf_comm_group *p = first; p; p = p->next)
            if (p->processes == processes) {
                mf_free(made);
                return p;
            }
        if (!made && !(made = mf_calloc(1, sizeof *made)))
            return NULL;
        made->processes = processes;
        made->next = first;
    } while (!atomic_compare_exchange_weak(&c->groups, &first, made));
    return made;
}

static uint64_t group_id(const mf_intlist *processes)
{
    return mf_hash(processes->at, (size_t)processes->count * sizeof *processes->at, 0) >> MF_CALL_BITS | 1;
}

static uint64_t new_number(mf_comm *c, const mf_intlist *processes)
{
    mf_comm_group *group = processes ? group_of(c, processes) : NULL;
    if (!group)
        return atomic_fetch_add(&c->calls, 1);
    return group_id(processes) << MF_CALL_BITS | atomic_fetch_add(&group->calls, 1);
}

void mf_comm_name_call(mf_text *t, const mf_comm *c, uint64_t call)
{
    enum { LISTED = 16 };
    const mf_comm_group *group = call >> MF_CALL_BITS ? atomic_load(&c->groups) : NULL;
    while (group && group_id(group->processes) != call >> MF_CALL_BITS)
        group = group->next;
    mf_text_add(t, "call %llu", (unsigned long long)mf_call_number(call));
    for (int i = 0, n = group ? group->processes->count : 0; i < n && i < LISTED; i++)
        mf_text_add(t, "%s%lld", i == 0 ? " of processes " : i + 1 < n ? ", " : " and ", (long long)group->processes->at[i]);
    if (group && group->processes->count > LISTED)
        mf_text_put(t, ", ...");
}

/* ------------------------------------------------------------------ calls that failed before any map was known */

struct mf_failed_calls {
    struct mf_failed_calls *next;
    const char *function; /* interned */
    int count;            /* failed calls that have no number yet */
    char *why;            /* the error of the newest of them */
};

static pthread_mutex_t failed_lock = PTHREAD_MUTEX_INITIALIZER;

static struct mf_failed_calls *find_failed(const mf_comm *c, const char *function)
{
    struct mf_failed_calls *f = atomic_load(&c->failed);
    while (f && f->function != function)
        f = f->next;
    return f;
}

void mf_comm_record_failed(const char *function, mf_error_object *why)
{
    mf_comm *c = mf_comm_current();
    if (!c || c->size < 2)
        return;
    mf_text t = { 0 };
    mf_comm_explain(&t, why);
    mf_text_add(&t, ", in a call of %s that came to no map", function);
    pthread_mutex_lock(&failed_lock);
    struct mf_failed_calls *f = find_failed(c, function), *made = f ? NULL : mf_calloc(1, sizeof *made);
    if (made) {
        *made = (struct mf_failed_calls){ atomic_load(&c->failed), function, 0, NULL };
        atomic_store(&c->failed, made);
        f = made;
    }
    if (f && !t.failed) {
        mf_free(f->why);
        f->why = mf_strdup(t.at);
        f->count++;
    }
    pthread_mutex_unlock(&failed_lock);
    mf_text_free(&t);
}

/* The counter that numbers this call; NULL: this process has made no calls with those processes. */
static _Atomic uint64_t *counter_of(mf_comm *c, uint64_t call)
{
    if (!(call >> MF_CALL_BITS))
        return &c->calls;
    for (mf_comm_group *p = atomic_load(&c->groups); p; p = p->next)
        if (group_id(p->processes) == call >> MF_CALL_BITS)
            return &p->calls;
    return NULL;
}

static bool take_failed(struct mf_failed_calls *f, mf_text *why)
{
    if (!f || !f->count)
        return false;
    f->count--;
    mf_text_put(why, f->why ? f->why : "failed");
    return true;
}

bool mf_comm_match_failed(mf_comm *c, uint64_t call, const char *function, mf_text *why)
{
    uint64_t next = call % ((uint64_t)1 << MF_CALL_BITS);
    _Atomic uint64_t *counter = atomic_load(&c->failed) ? counter_of(c, call) : NULL;
    if (!counter)
        return false;
    pthread_mutex_lock(&failed_lock);
    struct mf_failed_calls *f = atomic_load(&c->failed);
    while (f && (!f->count || strcmp(f->function, function) != 0))
        f = f->next;
    bool matched = f && atomic_compare_exchange_strong(counter, &next, next + 1) && take_failed(f, why);
    pthread_mutex_unlock(&failed_lock);
    return matched;
}

static void number_earlier(mf_comm *c, const mf_intlist *processes, const char *function)
{
    for (bool any = true; any;) {
        mf_text why = { 0 };
        pthread_mutex_lock(&failed_lock);
        any = take_failed(find_failed(c, function), &why);
        pthread_mutex_unlock(&failed_lock);
        uint64_t call = any ? new_number(c, processes) : 0;
        if (any) {
            c->abort(c, call, why.failed ? "failed" : why.at);
            c->end(c, call);
        }
        mf_text_free(&why);
    }
}

void mf_comm_free_groups(mf_comm *c)
{
    for (mf_comm_group *p = atomic_exchange(&c->groups, NULL), *next; p; p = next) {
        next = p->next;
        mf_free(p);
    }
    for (struct mf_failed_calls *f = atomic_exchange(&c->failed, NULL), *next; f; f = next) {
        next = f->next;
        mf_free(f->why);
        mf_free(f);
    }
}

/* ------------------------------------------------------------------ a call */

uint64_t mf_comm_begin(mf_comm *c, const mf_intlist *processes, const char *function, const void *location)
{
    if (atomic_load_explicit(&c->failed, memory_order_relaxed))
        number_earlier(c, processes, function);
    uint64_t call = new_number(c, processes);
    mf_call_record *r = &c->newest[atomic_fetch_add(&c->begun, 1) % MF_CALLS_KEPT];
    atomic_store_explicit(&r->call, 0, memory_order_relaxed);
    atomic_store_explicit(&r->function, function, memory_order_release);
    atomic_store_explicit(&r->location, location, memory_order_release);
    atomic_store_explicit(&r->at, mf_profile_now_coarse(), memory_order_release);
    atomic_store_explicit(&r->call, call + 1, memory_order_release);
    return call;
}

const mf_call_record *mf_comm_record(const mf_comm *c, uint64_t call)
{
    for (int i = 0; i < MF_CALLS_KEPT; i++)
        if (atomic_load(&c->newest[i].call) == call + 1)
            return &c->newest[i];
    return NULL;
}

void mf_comm_describe(mf_text *t, const mf_call_record *r)
{
    const char *function = r ? atomic_load(&r->function) : NULL;
    const void *location = r ? atomic_load(&r->location) : NULL;
    if (function)
        mf_text_add(t, ", %s", function);
    mf_location_encode(t, " (", location, ")");
}

/* The processes that are flagged. */
static const mf_intlist *list_of(const mf_comm *c, const int64_t *flags)
{
    int64_t *list = mf_alloc((size_t)c->size * sizeof *list);
    int count = 0;
    for (int p = 0; list && p < c->size; p++)
        if (flags[p])
            list[count++] = p;
    const mf_intlist *processes = list && count < c->size ? mf_ints_intern(list, count) : NULL;
    mf_free(list);
    return processes;
}

/* devices NULL: the first `count` devices. */
static void flag_owners(const mf_comm *c, const mf_intlist *devices, int64_t count, int64_t *flags)
{
    for (int64_t k = 0; k < count; k++) {
        int owner = mf_comm_owner(c, devices ? (int)devices->at[k] : (int)k);
        if (owner >= 0)
            flags[owner] = 1;
    }
}

bool mf_program_spans(const mf_program *p)
{
    bool any = false;
    for (int i = 0; i < p->eqn_count && !any; i++) {
        const mf_eqn *e = p->eqns[i];
        any = e->op == &mf_op_pmap && ((const mf_pmap_params *)e->params)->local->count;
        for (int k = 0; k < mf_params_program_count(e->op, e->params) && !any; k++)
            any = mf_program_spans(*mf_params_program_at(e->op, e->params, k));
    }
    return any;
}

static void flag_maps(const mf_program *p, const mf_comm *c, int64_t *flags)
{
    for (int i = 0; i < p->eqn_count; i++) {
        const mf_eqn *e = p->eqns[i];
        const mf_pmap_params *m = e->op == &mf_op_pmap ? e->params : NULL;
        if (m && (m->local->count || mf_program_spans(m->program)))
            flag_owners(c, m->devices->count ? m->devices : NULL, m->axis_size * mf_pmap_span(m), flags);
        for (int k = 0; k < mf_params_program_count(e->op, e->params) && !m; k++)
            flag_maps(*mf_params_program_at(e->op, e->params, k), c, flags);
    }
}

bool mf_program_processes(const mf_program *p, const mf_comm *c, const mf_intlist **processes)
{
    bool any = c && c->size > 1 && mf_program_spans(p);
    int64_t *flags = any ? mf_calloc((size_t)c->size, sizeof *flags) : NULL;
    if (flags)
        flag_maps(p, c, flags);
    *processes = flags ? list_of(c, flags) : NULL;
    mf_free(flags);
    return any;
}

/* ------------------------------------------------------------------ checks that this process runs its own devices */

static mf_error_object *check_maps(const mf_program *p, const mf_comm *c, const mf_intlist *devices, int64_t first);

static mf_error_object *not_as_owned(const mf_comm *c, int device, bool runs)
{
    int owner = mf_comm_owner(c, device);
    if (owner < 0)
        return mf_error_new(MF_ERROR_PEER, "pmap: its maps have more devices than the processes together");
    if (!runs)
        return mf_error_new(MF_ERROR_PEER, "pmap: this process does not run device %d, which it has", device);
    return mf_error_new(MF_ERROR_PEER, "pmap: this process runs device %d, which process %d has", device, owner);
}

/* The map's devices are listed in `devices` from `first` on; NULL or beyond the list: they are numbered from `first` on. */
static mf_error_object *check_map(const mf_pmap_params *m, const mf_comm *c, const mf_intlist *devices, int64_t first)
{
    int64_t span = mf_pmap_span(m);
    mf_error_object *error = NULL;
    for (int64_t k = 0, at = first; k < m->axis_size && !error; k++, at += span) {
        bool runs = !m->local->count || mf_ints_has(m->local, k), here = false;
        int device = 0;
        for (int64_t d = at; d < at + span && !here; d++) {
            device = devices && d < devices->count ? (int)devices->at[d] : (int)d;
            here = mf_comm_owner(c, device) == c->rank;
        }
        error = here != runs ? not_as_owned(c, device, runs) : runs ? check_maps(m->program, c, devices, at) : NULL;
    }
    return error;
}

static mf_error_object *check_maps(const mf_program *p, const mf_comm *c, const mf_intlist *devices, int64_t first)
{
    mf_error_object *error = NULL;
    for (int i = 0; i < p->eqn_count && !error; i++) {
        const mf_eqn *e = p->eqns[i];
        bool map = e->op == &mf_op_pmap;
        if (map)
            error = check_map(e->params, c, devices, first);
        for (int k = 0; k < mf_params_program_count(e->op, e->params) && !map && !error; k++)
            error = check_maps(*mf_params_program_at(e->op, e->params, k), c, devices, first);
    }
    return error;
}

mf_error_object *mf_program_check_owners(const mf_program *p, const mf_comm *c)
{
    mf_error_object *error = NULL;
    for (int i = 0; i < p->eqn_count && !error; i++) {
        const mf_eqn *e = p->eqns[i];
        const mf_pmap_params *m = e->op == &mf_op_pmap ? e->params : NULL;
        if (m && (m->local->count || mf_program_spans(m->program)))
            error = check_map(m, c, m->devices->count ? m->devices : NULL, 0);
        for (int k = 0; k < mf_params_program_count(e->op, e->params) && !m && !error; k++)
            error = mf_program_check_owners(*mf_params_program_at(e->op, e->params, k), c);
    }
    return error;
}

/* ------------------------------------------------------------------ calls that fail before they begin */

static _Thread_local struct {
    bool any;
    const mf_intlist *processes;
} expected;

void mf_comm_fail_unbegun(const mf_intlist *processes, mf_error_object *why)
{
    mf_comm *c = mf_comm_current();
    if (!c || c->size < 2 || (processes && !mf_ints_has(processes, c->rank)))
        return;
    uint64_t call = mf_comm_begin(c, processes, NULL, mf_entry_location());
    mf_comm_abort(c, call, why);
    c->end(c, call);
}

void mf_comm_expect_nothing(void) { expected.any = false; }

static void expect(const mf_comm *c, const mf_intlist *processes)
{
    const mf_intlist *both[2] = { processes, expected.processes };
    int64_t *flags = expected.any && processes && expected.processes ? mf_calloc((size_t)c->size, sizeof *flags) : NULL;
    for (int i = 0; flags && i < 2; i++)
        for (int k = 0; k < both[i]->count; k++)
            flags[both[i]->at[k]] = 1;
    expected.processes = flags ? list_of(c, flags) : expected.any ? NULL : processes;
    expected.any = true;
    mf_free(flags);
}

/* Whether a map over these devices (NULL: all) involves several processes; *processes NULL: all. */
static bool find_processes(const mf_comm *c, const mf_intlist *devices, const mf_intlist **processes)
{
    int64_t *flags = c && c->size > 1 ? mf_calloc((size_t)c->size, sizeof *flags) : NULL;
    if (!flags)
        return false;
    flag_owners(c, devices, devices ? devices->count : c->first_device[c->size], flags);
    *processes = list_of(c, flags);
    mf_free(flags);
    return !*processes || (*processes)->count > 1;
}

void mf_comm_expect_map(const mf_intlist *devices)
{
    const mf_comm *c = mf_comm_current();
    const mf_intlist *processes;
    if (find_processes(c, devices, &processes))
        expect(c, processes);
}

bool mf_comm_takes_part(const mf_intlist *devices)
{
    const mf_comm *c = mf_comm_current();
    const mf_intlist *processes;
    return find_processes(c, devices, &processes) && (!processes || mf_ints_has(processes, c->rank));
}

void mf_comm_expect_program(const mf_program *p)
{
    const mf_comm *c = mf_comm_current();
    const mf_intlist *processes;
    if (mf_program_processes(p, c, &processes))
        expect(c, processes);
}

bool mf_comm_fail_expected(mf_error_object *why)
{
    bool any = expected.any;
    if (any)
        mf_comm_fail_unbegun(expected.processes, why);
    expected.any = false;
    return any;
}
