/* Turns the reports of a program on a plugin into errors. Invariant: the error is the one that the CPU client gives; of several, the
 * first in the program. A number without a finding, which a faulty plugin may give, is an error too. */
#include "backend/pjrt/pjrt.h"

#include "base/memory/alloc.h"
#include "ops/checks.h"
#include "ops/control/callback.h"
#include "ops/ops.h"
#include "runtime/collectives/collectives.h"

#include <inttypes.h>

static void findings_destroy(mf_object *o)
{
    pjrt_findings *s = (pjrt_findings *)o;
    mf_hlo_findings_end(&s->list);
    mf_drop(s->host);
    mf_drop(s->program);
}
static const mf_class findings_class = { "findings of a plugin's program", findings_destroy };

pjrt_findings *pjrt_findings_new(const pjrt_executable *x)
{
    pjrt_findings *s = mf_object_new(&findings_class, sizeof *s + (size_t)x->replicas * sizeof *s->devices);
    if (!s)
        return NULL;
    s->program = mf_retain(x->base.program);
    s->replicas = x->replicas;
    for (int r = 0; r < x->replicas; r++)
        s->devices[r] = x->devices[r];
    return s;
}

static uint64_t number_of(uint64_t found) { return found >> MF_HLO_PLACE_BITS; }

/* Lists the devices of the group whose first replica is `group`: those that reported this number, or those that did not. Returns how
 * many. */
static int list_group(const pjrt_findings *s, const uint64_t *found, uint64_t number, const int *first, int group, bool have, mf_text *list)
{
    int count = 0;
    for (int r = 0; r < s->replicas; r++)
        if (first[r] == group && (number_of(found[r]) == number) == have)
            mf_list_device(list, &count, s->devices[r]);
    return count;
}

/* The error of devices of a group that differ: in a value, or in the path through a branch or a loop. */
static mf_error_object *differ(const pjrt_findings *s, const uint64_t *found, int replica, const mf_hlo_finding *f, const void *location)
{
    mf_text these = { 0 }, others = { 0 };
    int group = f->first[replica];
    uint64_t number = number_of(found[replica]);
    int count = list_group(s, found, number, f->first, group, true, &these);
    int rest = list_group(s, found, number, f->first, group, false, &others);
    const mf_hlo_agreement *a = mf_hlo_agreement_on(&s->list, f->eqn);
    const char *names[2] = { these.at ? these.at : "", others.at ? others.at : "" };
    mf_error_object *error = a ? mf_devices_differ_error(f->eqn, a->of, a->axes, names, (int[]){ count, rest })
                               : mf_replicated_error(f->eqn, location, names[0], count, s->devices[group]);
    mf_text_free(&these);
    mf_text_free(&others);
    return error;
}

static const mf_hlo_finding *finding_of(const pjrt_findings *s, uint64_t found)
{
    uint64_t n = number_of(found);
    return n < 1 || n > (uint64_t)s->list.made.count ? NULL : &s->list.made.at[n - 1];
}

/* Removes the errors of host calls of all replicas, so that none is left behind, and returns that of replica `at`. */
static mf_error_object *take_host_errors(const pjrt_findings *s, const uint64_t *found, int at)
{
    mf_error_object *taken = NULL;
    for (int r = 0; s->host && r < s->replicas; r++) {
        const mf_hlo_finding *f = found[r] ? finding_of(s, found[r]) : NULL;
        mf_error_object *error = f && mf_is_host_call(f->eqn) ? pjrt_host_calls_error(s->host, found[r]) : NULL;
        if (r == at)
            taken = error;
        else if (error)
            mf_error_ignore(error);
    }
    return taken;
}

mf_error_object *pjrt_findings_error(const pjrt_findings *s, const uint64_t *found, const void *location, bool shared)
{
    int at = -1;
    for (int r = 0; r < s->replicas; r++)
        if (found[r] && (at < 0 || number_of(found[r]) < number_of(found[at])))
            at = r;
    if (at < 0)
        return NULL;
    mf_error_object *of_host = take_host_errors(s, found, at);
    const mf_hlo_finding *f = finding_of(s, found[at]);
    if (of_host)
        return of_host;
    if (!f)
        return mf_error_new_at(location, MF_ERROR_DEVICE, "a plugin says that a check has failed that its program has not, %" PRIu64,
                               number_of(found[at]));
    const void *where = shared ? location : NULL;
    if (f->first)
        return differ(s, found, at, f, where);
    return mf_nan_error(f->eqn, where, f->operand, (int64_t)(found[at] & (((uint64_t)1 << MF_HLO_PLACE_BITS) - 1)));
}
