/* A program's text being read: what parse.c and parse_params.c share.
 * Invariant: the first error sticks. After it every function does nothing and gives 0, false or NULL, so callers look once, at the end. */
#ifndef MF_IR_TEXT_PARSER_H
#define MF_IR_TEXT_PARSER_H

#include "ir/op.h"

typedef struct parser {
    const char *start, *at;
    int depth;              /* of nested programs */
    mf_error_object *error; /* the first */
} parser;

void parse_fail_at(parser *p, const char *at, mf_error_object *why); /* with the line and column of `at`; takes the reference */
void parse_expected(parser *p, const char *what);                    /* fails here: "expected <what>, found <what is there>" */
void parse_out_of_memory(parser *p);

/* Skips white space, and comments from # to the end of the line. Whether a line ended in it. */
bool parse_skip(parser *p);
bool parse_accept(parser *p, const char *word); /* takes the word if it is next */
bool parse_expect(parser *p, const char *word); /* the same; fails if it is not */

int parse_word_length(const char *s);   /* [A-Za-z_][A-Za-z0-9_.]*; 0 when there is none */
int parse_number_length(const char *s); /* likewise */
/* Takes a word; its length, and where it begins in *word. `what` is expected. */
int parse_word(parser *p, const char **word, const char *what);
/* Takes a number of this dtype, into out. */
bool parse_number(parser *p, mf_dtype dtype, void *out, const char *what);
/* Takes ": f32[2,3]". */
const mf_type *parse_type(parser *p);

/* "[field=value, ...]" of an op that has parameters, in the arena. Holds references, also when an error is set: the caller gives them up in
 * either case (mf_params_drop). */
void *parse_params(parser *p, mf_arena *arena, const mf_op *op, const mf_axis_env *env);
/* "(inputs) { equations return outputs }". One reference. */
mf_program *parse_body(parser *p, const mf_axis_env *env);

#endif
