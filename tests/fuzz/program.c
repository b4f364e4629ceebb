/* Arbitrary bytes as the text of a program. A program that parses must verify, print, read back as an equal program, and survive the
 * passes. */
#include "fuzz/targets.h"

#include "passes/passes.h"

#include <stdlib.h>
#include <string.h>

static void round_trip(const mf_program *p)
{
    mf_text t = { 0 };
    mf_error_object *error = mf_program_verify(p, NULL);
    fuzz_must(!error);
    mf_program_print(&t, p);
    mf_program *q = mf_program_parse(t.at, NULL, &error);
    fuzz_must(q && mf_program_equal(p, q) && mf_program_hash(p) == mf_program_hash(q));
    mf_program *r = mf_optimize(p, NULL, &error);
    fuzz_must(!r != !error);
    mf_error_ignore(error);
    mf_drop(r);
    mf_drop(q);
    mf_text_free(&t);
}

void fuzz_program(const uint8_t *data, size_t size)
{
    char *text = calloc(size + 1, 1);
    if (!text)
        return;
    memcpy(text, data, size);
    mf_error_object *error = NULL;
    mf_program *p = mf_program_parse(text, NULL, &error);
    fuzz_must(!p != !error);
    mf_error_ignore(error);
    if (p)
        round_trip(p);
    mf_drop(p);
    free(text);
}
