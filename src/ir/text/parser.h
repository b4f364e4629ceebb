/* The state of parsing a program's text, shared by parse.c and parse_params.c, and by plan_parse.c. Invariant: the first error sticks.
 * After it every function does nothing and returns 0, false or NULL, so callers check once, at the end. */
#ifndef MF_IR_TEXT_PARSER_H
#define MF_IR_TEXT_PARSER_H

#include "ir/op.h"

typedef struct parser {
    const char *start, *at;
    int depth;              /* of nested programs */
    mf_error_object *error; /* the first error */
} parser;

void parse_fail_at(parser *p, const char *at, mf_error_object *why); /* adds the line and column of `at`; takes the reference */
void parse_expected(parser *p, const char *what);                    /* fails here: "expected <what>, found <text>" */
void parse_out_of_memory(parser *p);

/* Skips white space and comments (# to the end of the line). Returns whether it passed the end of a line. */
bool parse_skip(parser *p);
bool parse_accept(parser *p, const char *word); /* consumes the word if it is next */
bool parse_expect(parser *p, const char *word); /* the same; fails if it is not next */

int parse_word_length(const char *s);   /* [A-Za-z_][A-Za-z0-9_.]*; 0 when there is none */
int parse_number_length(const char *s); /* the length of a number; 0 when there is none */
/* Consumes a word, stores its start in *word and returns its length. `what` is for the error. */
int parse_word(parser *p, const char **word, const char *what);
/* Consumes a number of this dtype and stores it in out. */
bool parse_number(parser *p, mf_dtype dtype, void *out, const char *what);
const mf_type *parse_type(parser *p);                         /* consumes ": f32[2,3]" */
const mf_type *parse_type_after(parser *p, const char *word); /* the same after this word in place of the colon */

/* Parses "[field=value, ...]" for an op that has parameters, in the arena. The result holds references even if an error is set: the caller
 * drops them in either case (mf_params_drop). */
void *parse_params(parser *p, mf_arena *arena, const mf_op *op, const mf_axis_env *env);
/* Parses "(inputs) { equations return outputs }". Returns one reference. */
mf_program *parse_body(parser *p, const mf_axis_env *env);

#endif
