/* Arbitrary bytes as an IDX file, plain or gzip'd. */
#include "fuzz/targets.h"

#include <manyfold.h>

void fuzz_idx(const uint8_t *data, size_t size)
{
    MF_SCOPE;
    fuzz_file f = fuzz_file_open(data, size);
    mf_value v = mf_load_idx(f.path);
    if (mf_is_error(v))
        fuzz_must(mf_error(v) && (mf_error_status(v) == MF_ERROR_IO || mf_error_status(v) == MF_ERROR_MEMORY));
    else
        fuzz_must(mf_str(v) != NULL);
    fuzz_file_close(&f);
}
