/* Findings: errors that a program detects while it runs, for the host to report afterwards. Invariant: main's last result is a ui64 per
 * replica: 0, or the replica's first finding: the finding's number, counted from 1, above MF_HLO_PLACE_BITS bits that say where. It passes
 * through every loop and branch as one more carry. A module without a list of findings has no such result. */
#include "stablehlo/hlo.h"

#include <inttypes.h>

bool h_reports(const mf_hlo *h) { return h->found.type; }

bool h_looks_at(const mf_hlo *h, const mf_eqn *e)
{
    for (int i = 0; h_reports(h) && i < h->findings->wanted.count; i++)
        if (h->findings->wanted.at[i] == e)
            return true;
    return false;
}

void hlo_begin_findings(mf_hlo *h)
{
    if (mf_hlo_finds_out(h->findings))
        h->found = h_full(h, mf_type_scalar(MF_U64, false), 0);
}

int h_put_found(const mf_hlo *h, mf_hlo_value *list, int count)
{
    if (h_reports(h))
        list[count++] = h->found;
    return count;
}

void h_set_found(mf_hlo *h, mf_hlo_value v)
{
    if (h_reports(h))
        h->found = v;
}

/* Records a finding and takes over `first`. Returns the finding's number; 0 after a failure. */
static int64_t new_finding(mf_hlo *h, const mf_eqn *e, int operand, int *first)
{
    if (mf_vector_push(&h->findings->made, (mf_hlo_finding){ e, operand, first }))
        return h->findings->made.count;
    mf_free(first);
    h_fail(h, NULL);
    return 0;
}

void h_find(mf_hlo *h, const mf_eqn *e, int operand, mf_hlo_value is, mf_hlo_value place, int *first)
{
    const mf_type *number = mf_type_scalar(MF_U64, false);
    int64_t n = new_finding(h, e, operand, first);
    mf_hlo_value code = h_bytes(h, number, &(uint64_t){ (uint64_t)n << MF_HLO_PLACE_BITS });
    mf_hlo_value none = h_compare(h, "EQ", false, h->found, h_full(h, number, 0));
    if (place.type)
        code = h_binary(h, "or", code, place);
    h->found = h_select(h, h_binary(h, "and", is, none), code, h->found);
}

bool h_calls_host(const mf_hlo *h) { return h_reports(h) && h->findings->host; }

static void put_values(mf_hlo *h, const mf_hlo_value *values, int count, mf_hlo_value last, bool types)
{
    for (int i = 0; i <= count; i++) {
        mf_hlo_value v = i < count ? values[i] : last;
        mf_text_put(h->text, i ? ", " : "");
        if (types)
            hlo_type(h, v.type);
        else
            hlo_name(h, v);
    }
}

void h_host_call(mf_hlo *h, const mf_eqn *e, const mf_hlo_value *in, mf_hlo_value *out)
{
    mf_hlo_value before = h->found, after = { 0, before.type };
    int64_t n = new_finding(h, e, 0, NULL);
    if (h->error)
        return;
    for (int o = 0; o < e->out_count; o++)
        out[o].name = h->next++;
    after.name = h->next++;
    hlo_indent(h);
    put_values(h, out, e->out_count, after, false);
    mf_text_put(h->text, " = \"stablehlo.custom_call\"(");
    put_values(h, in, e->in_count, before, false);
    mf_text_add(h->text,
                ") <{api_version = 4 : i32, backend_config = {call = %" PRId64 " : i64, program = %" PRId64
                " : i64}, call_target_name = \"" MF_HLO_HOST_CALL "\", has_side_effect = true}> : (",
                n, h->findings->host);
    put_values(h, in, e->in_count, before, true);
    mf_text_put(h->text, ") -> (");
    put_values(h, out, e->out_count, after, true);
    mf_text_put(h->text, ")\n");
    h->found = after;
}

void mf_hlo_findings_end(mf_hlo_findings *f)
{
    for (int i = 0; i < f->made.count; i++)
        mf_free(f->made.at[i].first);
    mf_free(f->made.at);
    mf_free(f->wanted.at);
    mf_free(f->agreements.at);
}
