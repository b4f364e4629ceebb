/* Programs as StableHLO modules. */
#ifndef MF_STABLEHLO_HLO_MODULE_H
#define MF_STABLEHLO_HLO_MODULE_H

#include "base/memory/vector.h"
#include "ir/program.h"
#include "ops/params.h"

/* Findings: errors that only a run can detect, for instance a NaN. Each replica reports a number: 0, or the index, counted from 1, of the
 * finding in `made` that it met first, above MF_HLO_PLACE_BITS bits for a place. */
enum { MF_HLO_PLACE_BITS = 40 };
typedef struct mf_hlo_finding {
    const mf_eqn *eqn;
    int operand;
    int *first; /* by replica: the replica it was compared with; NULL: this finding compares nothing */
} mf_hlo_finding;

/* The replicas of these axes, or of each of these groups, must take the same way through a branch or loop because it contains a collective;
 * so they first compare their predicates (hlo_agree.c). */
typedef struct mf_hlo_agreement {
    const mf_eqn *on, *of; /* the branch or loop; the collective */
    const mf_namelist *axes;
    const mf_intlist *groups; /* as in mf_collective_params; NULL: none */
    int64_t group_size;
} mf_hlo_agreement;

typedef struct mf_hlo_findings {      /* a zeroed one is empty */
    MF_VECTOR(const mf_eqn *) wanted; /* the checks that the program should make */
    MF_VECTOR(mf_hlo_agreement) agreements;
    MF_VECTOR(mf_hlo_finding) made; /* filled by the emitter */
    int64_t host;                   /* the number by which a host call identifies this program; 0: it cannot call the host */
} mf_hlo_findings;
static inline bool mf_hlo_finds_out(const mf_hlo_findings *f) { return f && (f->wanted.count || f->agreements.count); }
const mf_hlo_agreement *mf_hlo_agreement_on(const mf_hlo_findings *f, const mf_eqn *e); /* NULL: none; f may be NULL */
void mf_hlo_findings_end(mf_hlo_findings *f);

/* The target of the custom call that stands for a call of the host. Its attributes "program" and "call" are the program's number (`host`)
 * and the finding's. Its last operand is the finding before the call, its last result the finding after it. */
#define MF_HLO_HOST_CALL "manyfold_host_call"

/* The part of an array that is one replica's argument or result (hlo_parts.c): one index along each of these axes, which are dropped from
 * the shape. Without axes: the whole array. */
typedef struct mf_hlo_cut {
    int axis;
    int64_t size, stride; /* the replica's index is its number / stride % size */
} mf_hlo_cut;
typedef struct mf_hlo_part {
    int count;
    mf_hlo_cut cuts[MF_RANK]; /* the outermost map's first */
} mf_hlo_part;

/* If p is just one map, whose operands are p's inputs (each at most once) or constants and whose results are p's outputs in order: that
 * map. Else NULL. */
const mf_eqn *mf_hlo_sole_map(const mf_program *p);
/* The parts of p's inputs and outputs that each replica takes and gives. If p is just one map, returns the map, and the parts are the rows
 * of its devices, or of the devices of maps directly inside it. Else returns NULL, and each part is the whole array. */
const mf_eqn *mf_hlo_parts(const mf_program *p, int64_t replicas, mf_hlo_part *in, mf_hlo_part *out);
/* The axes that the part keeps of an array of that rank, in order. Returns their number. */
int mf_hlo_part_axes(const mf_hlo_part *part, int rank, int *axes);
const mf_type *mf_hlo_part_type(const mf_hlo_part *part, const mf_type *type); /* NULL: out of memory */
int64_t mf_hlo_part_count(const mf_hlo_part *part);                            /* the number of different parts */
int64_t mf_hlo_part_index(const mf_hlo_part *part, int64_t replica);           /* which of them a replica has, in row-major order */
int64_t mf_hlo_part_first(const mf_hlo_part *part, int64_t index);             /* the first replica that has part `index` */
int64_t mf_hlo_part_offset(const mf_hlo_part *part, int64_t replica, const int64_t *strides); /* byte offset of the part's first element */

/* ---- maps that cannot run as replicas: every replica runs a program that computes all of their rows (hlo_rows.c) */
typedef struct mf_hlo_place {  /* the position of an equation */
    int64_t run;               /* the number of replicas for one index of the enclosing maps, which a map divides among its own indices */
    const mf_intlist *devices; /* the devices that the program's maps name, one per replica; NULL: none are named */
} mf_hlo_place;
mf_hlo_place mf_hlo_place_of(const mf_program *p, int64_t replicas); /* for p's own equations */
mf_hlo_place mf_hlo_place_inside(const mf_eqn *e, mf_hlo_place at);  /* for the equations of e's nested programs */
bool mf_hlo_are_replicas(const mf_pmap_params *m, mf_hlo_place at);
bool mf_hlo_rows_serve(const mf_program *p); /* for a map's body p: whether all rows computed together equal each computed alone */
/* The program that computes all rows of the map, from its operands to its results. One reference, or NULL and *error. */
mf_program *mf_hlo_over_rows(const mf_pmap_params *m, const mf_axis_env *env, mf_error_object **error);
/* p with such programs in place of the maps that cannot be replicas, where that is equivalent. One reference, or NULL and *error. */
mf_program *mf_hlo_fit_maps(const mf_program *p, mf_hlo_place at, mf_error_object **error);

/* Appends "module @name ... { func.func public @main ... }": p as one program for `replicas` replicas, whose arguments and results are each
 * replica's own parts (mf_hlo_parts). Keys are pairs of ui32. donated: by input of p, or NULL. findings: may be NULL; if some are wanted,
 * main has one more result, a ui64 per replica (hlo_findings.c). for_cpu: for XLA's CPU plugin: matrix products and convolutions of f16 and
 * bf16 are computed in f32 and rounded once, and counters 0, 1, 2, ... are hidden from the compiler (h_count). Returns NULL, or an error
 * that names the op without a rule. */
mf_error_object *mf_hlo_module(mf_text *t, const char *name, const mf_program *p, int64_t replicas, const bool *donated,
                               mf_hlo_findings *findings, bool for_cpu);

#endif
