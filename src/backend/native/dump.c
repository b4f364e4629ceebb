/* What fusion made of a segment, for MF_DUMP=fuse: a line per unit, which is a loop over so many elements with its operations, or a
 * step. */
#include "backend/native/segment_build.h"

#include <stdio.h>

static const char *node_name(const mf_node *n)
{
    switch (n->kind) {
    case MF_NODE_IOTA: return "iota";
    case MF_NODE_CALL: return n->name;
    case MF_NODE_SELECT: return "select";
    case MF_NODE_CONVERT: return "convert";
    case MF_NODE_BITCAST: return "bitcast";
    default: return NULL; /* operands and constants */
    }
}

void mf_native_dump(const mf_build *b)
{
    mf_text t = { 0 };
    mf_text_put(&t, "-- fuse\n");
    for (int i = 0; i < b->unit_count; i++) {
        const mf_unit *u = &b->units[i];
        if (u->dead)
            continue;
        if (u->group) {
            mf_text_add(&t, "loop over %lld:", (long long)u->group->n);
            for (int k = 0; k < u->group->count; k++)
                if (node_name(&u->group->nodes[k]))
                    mf_text_add(&t, " %s", node_name(&u->group->nodes[k]));
            mf_text_put(&t, "\n");
        } else if (u->step) {
            mf_text_add(&t, "%s\n", u->step->eqn ? u->step->eqn->op->name : "copy");
        }
    }
    if (!t.failed)
        fputs(t.at, stderr);
    mf_text_free(&t);
}
