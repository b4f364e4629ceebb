/* Agreement on predicates. Where a branch or a loop contains a collective, and its predicate may differ among the replicas that take part,
 * they compare the predicate before they enter. Invariant: after the comparison all take the same way, so none waits forever for another. A
 * disagreement is a finding (hlo_findings.c), and a loop ends as soon as one of its devices has a finding. */
#include "stablehlo/hlo.h"

const mf_hlo_agreement *mf_hlo_agreement_on(const mf_hlo_findings *f, const mf_eqn *e)
{
    for (int i = 0; f && i < f->agreements.count; i++)
        if (f->agreements.at[i].on == e)
            return &f->agreements.at[i];
    return NULL;
}

/* The extremum of a scalar over the replicas that must agree. */
static mf_hlo_value over_all(mf_hlo *h, const mf_hlo_agreement *a, mf_reducer r, mf_hlo_value x)
{
    mf_hlo_value all = { 0, x.type };
    h_open(h, "all_reduce", &x, 1, &all, 1, "replica_groups = %s", h_groups(h, a->axes, a->groups, a->group_size));
    h_reducer_region(h, r, x.type->dtype);
    h_close(h, &x, 1, &all, 1);
    return all;
}

static void find_difference(mf_hlo *h, const mf_eqn *e, const mf_hlo_agreement *a, mf_hlo_value own, mf_hlo_value all)
{
    h_find(h, e, 0, h_compare(h, "NE", false, own, all), (mf_hlo_value){ 0, NULL }, h_roots(h, a->axes, a->groups, a->group_size));
}

mf_hlo_value h_agreed_branch(mf_hlo *h, const mf_eqn *e, mf_hlo_value index)
{
    const mf_hlo_agreement *a = mf_hlo_agreement_on(h->findings, e);
    if (!a || h->error)
        return index;
    mf_hlo_value all = over_all(h, a, MF_REDUCE_MAX, index);
    find_difference(h, e, a, index, all);
    return all;
}

mf_hlo_value h_agreed_round(mf_hlo *h, const mf_eqn *e, mf_hlo_value more)
{
    const mf_hlo_agreement *a = mf_hlo_agreement_on(h->findings, e);
    if (!a || h->error)
        return more;
    mf_hlo_value sound = h_compare(h, "EQ", false, h->found, h_full(h, h->found.type, 0));
    mf_hlo_value own = h_convert(h, h_binary(h, "and", more, sound), MF_I32), all = over_all(h, a, MF_REDUCE_MIN, own);
    find_difference(h, e, a, own, all);
    return h_compare(h, "NE", false, all, h_full(h, all.type, 0));
}
