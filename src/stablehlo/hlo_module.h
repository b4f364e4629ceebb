/* Programs as StableHLO modules. */
#ifndef MF_STABLEHLO_HLO_MODULE_H
#define MF_STABLEHLO_HLO_MODULE_H

#include "base/memory/vector.h"
#include "ir/program.h"
#include "ops/params.h"

/* Findings: errors that only a run can discover, a NaN for instance. Each replica reports a number, 0 or which of the findings in `made`,
 * counted from 1, it came to first, above MF_HLO_PLACE_BITS bits for a place. */
enum { MF_HLO_PLACE_BITS = 40 };
typedef struct mf_hlo_finding {
    const mf_eqn *eqn;
    int operand;
    int *first; /* by replica: the replica that it is compared with; NULL: this finding compares none */
} mf_hlo_finding;

/* The devices of these axes, or of each of these groups, have to take the same way through a branch or a loop, since there is a collective in
 * it: they compare their predicates first (hlo_agree.c). */
typedef struct mf_hlo_agreement {
    const mf_eqn *on, *of; /* the branch or loop; the collective */
    const mf_namelist *axes;
    const mf_intlist *groups; /* as in mf_collective_params; NULL: none */
    int64_t group_size;
} mf_hlo_agreement;

typedef struct mf_hlo_findings {      /* zeroes are an empty one */
    MF_VECTOR(const mf_eqn *) wanted; /* the checks that the program shall make */
    MF_VECTOR(mf_hlo_agreement) agreements;
    MF_VECTOR(mf_hlo_finding) made; /* filled by the emitter */
    int64_t host;                   /* the number under which a call of the host finds this program; 0: the program cannot call it */
} mf_hlo_findings;
static inline bool mf_hlo_finds_out(const mf_hlo_findings *f) { return f && (f->wanted.count || f->agreements.count); }
const mf_hlo_agreement *mf_hlo_agreement_on(const mf_hlo_findings *f, const mf_eqn *e); /* NULL: none; so is NULL for f */
void mf_hlo_findings_end(mf_hlo_findings *f);

/* The target of the custom call that stands for a call of the host. Its attributes "program" and "call" are the program's number (`host`) and
 * that of the finding; its last operand is what was found before the call, its last result what has been found after it. */
#define MF_HLO_HOST_CALL "manyfold_host_call"

/* The part of an array that is a replica's argument or result (hlo_parts.c): one index along each of these axes, which are dropped from the
 * shape; with no axes, the whole array. */
typedef struct mf_hlo_cut {
    int axis;
    int64_t size, stride; /* the replica's index is its number / stride % size */
} mf_hlo_cut;
typedef struct mf_hlo_part {
    int count;
    mf_hlo_cut cuts[MF_RANK]; /* the outermost map's first */
} mf_hlo_part;

/* The map, where p is one map and nothing else: its operands are p's inputs or constants, its results p's outputs, each once and in order.
 * Else NULL. */
const mf_eqn *mf_hlo_sole_map(const mf_program *p);
/* Which parts of p's inputs and outputs each of so many replicas takes and gives. Where p is one map and nothing else, the map is returned,
 * and the parts are the rows of its devices, or of the devices of maps right inside it. Else NULL is returned, and each part is the whole. */
const mf_eqn *mf_hlo_parts(const mf_program *p, int64_t replicas, mf_hlo_part *in, mf_hlo_part *out);
/* The axes of an array of that rank that the part keeps, in order. Returns how many. */
int mf_hlo_part_axes(const mf_hlo_part *part, int rank, int *axes);
const mf_type *mf_hlo_part_type(const mf_hlo_part *part, const mf_type *type); /* NULL: memory is out */
int64_t mf_hlo_part_count(const mf_hlo_part *part);                            /* how many parts there are */
int64_t mf_hlo_part_index(const mf_hlo_part *part, int64_t replica);           /* which part a replica has, in row-major order */
int64_t mf_hlo_part_first(const mf_hlo_part *part, int64_t index);             /* the first replica that has it */
int64_t mf_hlo_part_offset(const mf_hlo_part *part, int64_t replica, const int64_t *strides); /* of the part's first element */

/* ---- maps that cannot run as replicas: the program of all of their rows, which every replica runs (hlo_rows.c) */
typedef struct mf_hlo_place {  /* where an equation stands */
    int64_t run;               /* the replicas that are there for one index of the maps around it: a map shares them out */
    const mf_intlist *devices; /* those that the program's maps name, one a replica; NULL: they name none */
} mf_hlo_place;
mf_hlo_place mf_hlo_place_of(const mf_program *p, int64_t replicas); /* of p's own equations */
mf_hlo_place mf_hlo_place_inside(const mf_eqn *e, mf_hlo_place at);  /* of those of e's programs */
bool mf_hlo_are_replicas(const mf_pmap_params *m, mf_hlo_place at);
bool mf_hlo_rows_serve(const mf_program *p); /* p is a map's body: whether all rows together give what each gives by itself */
/* The program of all rows of the map, from its operands to its results; one reference, or NULL and *error. */
mf_program *mf_hlo_over_rows(const mf_pmap_params *m, const mf_axis_env *env, mf_error_object **error);
/* p with such programs in place of the maps that cannot be replicas, where that gives the same; one reference, or NULL and *error. */
mf_program *mf_hlo_fit_maps(const mf_program *p, mf_hlo_place at, mf_error_object **error);

/* Appends "module @name ... { func.func public @main ... }": p as one program of so many replicas, whose arguments and results are each
 * replica's own parts (mf_hlo_parts). Keys are pairs of ui32.
 * donated: by input of p, NULL for none. findings: NULL for none; else, where some are wanted, main has one more result, a ui64 of each
 * replica (hlo_findings.c). for_cpu: for XLA's CPU plugin: matrix products and convolutions of f16 and bf16 are computed in f32 and rounded
 * once, and what counts 0, 1, 2 is hidden from the compiler (h_count). NULL, or an error that names the op that has no rule. */
mf_error_object *mf_hlo_module(mf_text *t, const char *name, const mf_program *p, int64_t replicas, const bool *donated,
                               mf_hlo_findings *findings, bool for_cpu);

#endif
