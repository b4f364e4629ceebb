/* Arbitrary bytes as a safetensors file. What is read must survive a round trip; an error must be an error of a file. */
#include "fuzz/targets.h"
#include "io/safetensors.h"

#include <string.h>

static void same(mf_value a, mf_value b)
{
    fuzz_must(mf_len(a) == mf_len(b));
    for (int i = 0; i < mf_len(a); i++) {
        const char *key = mf_key(a, i);
        mf_value x = mf_get(a, key), y = mf_get(b, key);
        fuzz_must(mf_dtype_of(x) == mf_dtype_of(y) && mf_size(x) == mf_size(y));
        const char *words = mf_str(x);
        fuzz_must(words && strcmp(words, mf_str(y)) == 0);
    }
}

void fuzz_safetensors(const uint8_t *data, size_t size)
{
    MF_SCOPE;
    mf_value v = mf_safetensors_parse("fuzz", data, size);
    if (mf_is_error(v)) {
        mf_status status = mf_error_status(v);
        fuzz_must(mf_error(v) && strncmp(mf_error(v), "fuzz: ", 6) == 0 && (status == MF_ERROR_IO || status == MF_ERROR_MEMORY));
        return;
    }
    fuzz_file f = fuzz_file_open(data, size);
    mf_value mapped = mf_load_safetensors(f.path), metadata = mf_load_safetensors_metadata(f.path);
    fuzz_must(!mf_is_error(mapped) && !mf_is_error(metadata));
    same(v, mapped);
    fuzz_file_close(&f);
}
