/* For libFuzzer: any bytes as a program text. What parses must verify, print, read back as an equal program, and survive the passes.
 *   clang -g -O1 -fsanitize=fuzzer,address,undefined -Isrc -Iinclude tests/ir/fuzz_parse.c build-fuzz/libmanyfold.a */
#include "passes/passes.h"
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void forget(mf_error_object *e)
{
    if (e)
        atomic_store(&e->observed, true);
    mf_drop(e);
}

static void must(bool good)
{
    if (!good)
        __builtin_trap();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char *text = calloc(size + 1, 1);
    if (!text)
        return 0;
    memcpy(text, data, size);
    mf_error_object *error = NULL;
    mf_program *p = mf_program_parse(text, NULL, &error);
    must(!p != !error);
    forget(error);
    if (p) {
        mf_text t = { 0 };
        error = NULL;
        must(!mf_program_verify(p, NULL));
        mf_program_print(&t, p);
        mf_program *q = mf_program_parse(t.at, NULL, &error);
        must(q && mf_program_equal(p, q));
        mf_program *r = mf_optimize(p, NULL, &error);
        forget(error);
        mf_drop(r);
        mf_drop(q);
        mf_drop(p);
        mf_text_free(&t);
    }
    free(text);
    return 0;
}
