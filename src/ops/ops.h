/* Declarations of every op, generated from ops.def. */
#ifndef MF_OPS_OPS_H
#define MF_OPS_OPS_H

#include "ir/op.h"
#include "ops/params.h"

#define X(name) extern const mf_op mf_op_##name;
#include "ops/ops.def"
#undef X

#endif
