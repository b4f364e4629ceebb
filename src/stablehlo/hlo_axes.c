/* Axes of maps as replicas. The replicas are divided into equal runs, one per index of the outermost axis; each run is divided in the same
 * way for the next axis inside. Where a map needs fewer replicas than there are, several compute the same. Invariant: every replica is in
 * exactly one group of a collective, at the position of its index along the axes; the members of a group have the same index along all
 * other axes and the same position within their run of the innermost one. */
#include "stablehlo/hlo.h"

#include <inttypes.h>

void h_push_axis(mf_hlo *h, const char *name, int64_t size)
{
    int64_t run = h->depth ? h->axes[h->depth - 1].stride : h->replicas;
    if (h->depth == MF_HLO_AXES || run % size)
        h_fail(h, mf_error_new(MF_ERROR_AXIS,
                               "StableHLO: a map over %lld devices stands where there are %lld: they are no multiple, so they are not the "
                               "replicas of one program",
                               (long long)size, (long long)run));
    else
        h->axes[h->depth++] = (mf_hlo_axis){ name, size, run / size };
}

void h_pop_axis(mf_hlo *h) { h->depth -= h->depth > 0; }

static const mf_hlo_axis *axis_of(const mf_hlo *h, const char *name)
{
    for (int i = h->depth - 1; i >= 0; i--)
        if (h->axes[i].name == name)
            return &h->axes[i];
    return NULL;
}

/* Finds the axes with these names, in order; false if one is not bound. */
static bool axes_of(mf_hlo *h, const mf_namelist *names, mf_hlo_axis *axes)
{
    for (int i = 0; i < names->count && !h->error; i++) {
        const mf_hlo_axis *a = i < MF_HLO_AXES ? axis_of(h, names->at[i]) : NULL;
        if (a)
            axes[i] = *a;
        else
            h_fail(h, mf_error_new(MF_ERROR_AXIS, "StableHLO: unbound axis name: %s", names->at[i]));
    }
    return !h->error;
}

/* ---- indices */
static mf_hlo_value index_along(mf_hlo *h, const mf_hlo_axis *a)
{
    mf_hlo_value id = h_op(h, "replica_id", mf_type_scalar(MF_U32, false), NULL, 0, NULL);
    if (a->stride > 1)
        id = h_binary(h, "divide", id, h_scalar(h, MF_U32, (double)a->stride));
    if (a->stride * a->size < h->replicas)
        id = h_binary(h, "remainder", id, h_scalar(h, MF_U32, (double)a->size));
    return h_convert(h, id, MF_I32);
}

mf_hlo_value h_innermost_index(mf_hlo *h) { return h->depth ? index_along(h, &h->axes[h->depth - 1]) : h_scalar(h, MF_I32, 0); }

mf_hlo_value h_axis_index(mf_hlo *h, const mf_namelist *names)
{
    mf_hlo_axis axes[MF_HLO_AXES];
    if (!axes_of(h, names, axes) || !names->count)
        return h_scalar(h, MF_I32, 0);
    mf_hlo_value sum = index_along(h, &axes[0]);
    for (int i = 1; i < names->count; i++) {
        mf_hlo_value all = h_binary(h, "multiply", sum, h_scalar(h, MF_I32, (double)axes[i].size));
        sum = h_binary(h, "add", all, index_along(h, &axes[i]));
    }
    return sum;
}

/* ---- groups */
static int64_t members_of(const mf_hlo_axis *axes, int count)
{
    int64_t n = 1;
    for (int i = 0; i < count; i++)
        n *= axes[i].size;
    return n;
}

/* The replica with index 0 along these axes and otherwise the same indices. */
static int64_t root_of(const mf_hlo_axis *axes, int count, int64_t replica)
{
    for (int i = 0; i < count; i++)
        replica -= replica / axes[i].stride % axes[i].size * axes[i].stride;
    return replica;
}

/* The m-th replica, in row-major order of these axes, of the root's. */
static int64_t member_of(const mf_hlo_axis *axes, int count, int64_t root, int64_t m)
{
    for (int i = count - 1; i >= 0; i--) {
        root += m % axes[i].size * axes[i].stride;
        m /= axes[i].size;
    }
    return root;
}

/* The groups as text: for each root, the groups of its members. */
static const char *groups_text(mf_hlo *h, const mf_hlo_axis *axes, int count, const mf_intlist *groups, int64_t group_size)
{
    mf_text t = { 0 };
    int64_t n = members_of(axes, count), rows = 0, listed = groups ? groups->count : 0, size = listed ? group_size : n;
    mf_text_put(&t, "dense<[");
    for (int64_t r = 0; r < h->replicas; r++) {
        if (root_of(axes, count, r) != r)
            continue;
        for (int64_t k = 0; k < (listed ? listed : n); k++) {
            int64_t m = listed ? groups->at[k] : k;
            rows += k % size == 0;
            mf_text_add(&t, "%s%" PRId64 "%s",
                        k % size   ? ", "
                        : rows > 1 ? ", ["
                                   : "[",
                        m < 0 ? -1 : member_of(axes, count, r, m), k % size == size - 1 ? "]" : "");
        }
    }
    mf_text_add(&t, "]> : tensor<%" PRId64 "x%" PRId64 "xi64>", rows, size);
    return h_keep(h, &t);
}

int *h_roots(mf_hlo *h, const mf_namelist *names, const mf_intlist *groups, int64_t group_size)
{
    mf_hlo_axis axes[MF_HLO_AXES];
    int *roots = axes_of(h, names, axes) ? mf_alloc((size_t)h->replicas * sizeof *roots) : NULL;
    int64_t listed = groups ? groups->count : 0;
    if (!roots)
        h_fail(h, NULL);
    for (int64_t r = 0; roots && r < h->replicas; r++)
        roots[r] = (int)root_of(axes, names->count, r);
    for (int64_t r = 0; roots && listed && r < h->replicas; r++)
        for (int64_t k = 0; root_of(axes, names->count, r) == r && k < listed; k++)
            if (groups->at[k] >= 0)
                roots[member_of(axes, names->count, r, groups->at[k])] = (int)member_of(axes, names->count, r,
                                                                                        groups->at[k / group_size * group_size]);
    return roots;
}

const char *h_groups(mf_hlo *h, const mf_namelist *names, const mf_intlist *groups, int64_t group_size)
{
    mf_hlo_axis axes[MF_HLO_AXES];
    return axes_of(h, names, axes) ? groups_text(h, axes, names->count, groups, group_size) : "";
}

int64_t h_group_size(mf_hlo *h, const mf_namelist *names, const mf_intlist *groups, int64_t group_size)
{
    mf_hlo_axis axes[MF_HLO_AXES];
    return groups->count ? group_size : axes_of(h, names, axes) ? members_of(axes, names->count) : 1;
}

const char *h_innermost_groups(mf_hlo *h) { return h->depth ? groups_text(h, &h->axes[h->depth - 1], 1, NULL, 0) : ""; }

const char *h_pairs(mf_hlo *h, const mf_namelist *names, const mf_intlist *perm)
{
    mf_hlo_axis axes[MF_HLO_AXES];
    mf_text t = { 0 };
    int64_t count = 0;
    if (!axes_of(h, names, axes))
        return "";
    mf_text_put(&t, "dense<");
    for (int64_t r = 0; r < h->replicas; r++)
        for (int k = 0; k + 1 < perm->count && root_of(axes, names->count, r) == r; k += 2, count++)
            mf_text_add(&t, "%s[%" PRId64 ", %" PRId64 "]", count ? ", " : "[", member_of(axes, names->count, r, perm->at[k]),
                        member_of(axes, names->count, r, perm->at[k + 1]));
    mf_text_add(&t, "%s> : tensor<%" PRId64 "x2xi64>", count ? "]" : "", count);
    return h_keep(h, &t);
}
