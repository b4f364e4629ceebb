/* The emitter: a module's text under construction. */
#ifndef MF_STABLEHLO_HLO_H
#define MF_STABLEHLO_HLO_H

#include "ir/stablehlo.h"
#include "stablehlo/hlo_module.h"

typedef struct mf_hlo_axis {
    const char *name; /* interned; NULL for a map without a name */
    int64_t size, stride;
} mf_hlo_axis;

enum { MF_HLO_AXES = 32 };
struct mf_hlo {
    mf_text *text;
    mf_arena arena;
    mf_error_object *error;
    int next, indent, depth; /* the next value's name; spaces; number of axes in scope */
    int64_t replicas;
    bool for_cpu;                  /* see mf_hlo_module */
    mf_hlo_axis axes[MF_HLO_AXES]; /* outermost first */
    mf_hlo_findings *findings;     /* or NULL */
    mf_hlo_value found;            /* the findings so far; no type if nothing is reported */
};

void hlo_type(mf_hlo *h, const mf_type *type);
const mf_type *hlo_sound(mf_hlo *h, const mf_type *type); /* type; if it is NULL, fails and gives another, so that rules need no check */
void hlo_type_dims(mf_hlo *h, const mf_type *type, const char *element); /* the same with another element type */
void hlo_name(mf_hlo *h, mf_hlo_value v);
void hlo_indent(mf_hlo *h);
void hlo_begin_findings(mf_hlo *h);

/* ---- parts (hlo_parts.c) */
/* How often p uses the variable, as an operand or an output. *by: an equation that uses it; *operand: as which operand. */
int hlo_uses(const mf_program *p, const mf_variable *v, const mf_eqn **by, int *operand);
/* v is the value of `of`, a map's result. Cuts it down to this replica's part, of type `part`, along the axes of that map and of maps
 * inside it. */
mf_hlo_value hlo_cut(mf_hlo *h, mf_hlo_value v, const mf_variable *of, const mf_type *part);

#endif
