/* The emitter: a module's text under construction. */
#ifndef MF_STABLEHLO_HLO_H
#define MF_STABLEHLO_HLO_H

#include "ir/stablehlo.h"
#include "stablehlo/hlo_module.h"

typedef struct mf_hlo_axis {
    const char *name; /* interned; NULL for a map without one */
    int64_t size, stride;
} mf_hlo_axis;

enum { MF_HLO_AXES = 32 };
struct mf_hlo {
    mf_text *text;
    mf_arena arena;
    mf_error_object *error;
    int next, indent, depth; /* the next value's name; spaces; axes */
    int64_t replicas;
    bool for_cpu;                  /* see mf_hlo_module */
    mf_hlo_axis axes[MF_HLO_AXES]; /* outermost first */
    mf_hlo_findings *findings;     /* or NULL */
    mf_hlo_value found;            /* so far; without a type where nothing is reported */
};

void hlo_type(mf_hlo *h, const mf_type *type);
const mf_type *hlo_sound(mf_hlo *h, const mf_type *type); /* type; for NULL, fails and gives another, so that a rule need not look */
void hlo_type_dims(mf_hlo *h, const mf_type *type, const char *element); /* ... with another element, "x" in front of it */
void hlo_name(mf_hlo *h, mf_hlo_value v);
void hlo_indent(mf_hlo *h);
void hlo_begin_findings(mf_hlo *h);

/* ---- parts (hlo_parts.c) */
/* How often p uses the variable, as an operand or an output; *by: one of the equations that do, *operand: as which of its operands. */
int hlo_uses(const mf_program *p, const mf_variable *v, const mf_eqn **by, int *operand);
/* v is the value of `of`, a result of a map: cut down to this replica's part, of type `part`, along that map's axis and the axes of maps
 * inside it. */
mf_hlo_value hlo_cut(mf_hlo *h, mf_hlo_value v, const mf_variable *of, const mf_type *part);

#endif
