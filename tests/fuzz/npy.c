/* Arbitrary bytes as an .npy file. An array that is read must survive a round trip with the same bits; an error must be an error of a
 * file. */
#include "fuzz/targets.h"
#include "io/numpy/npy.h"

#include <stdlib.h>
#include <string.h>

static void round_trip(mf_value v)
{
    size_t size = 0, again = 0;
    mf_status status;
    unsigned char *bytes = mf_npy_format("fuzz", v, &size, &status);
    fuzz_must(bytes && !status);
    mf_value w = mf_npy_parse("again", NULL, bytes, size);
    unsigned char *more = mf_npy_format("again", w, &again, &status);
    fuzz_must(more && !status && again == size && memcmp(bytes, more, size) == 0);
    free(bytes);
    free(more);
}

void fuzz_npy(const uint8_t *data, size_t size)
{
    MF_SCOPE;
    mf_value v = mf_npy_parse("fuzz", NULL, data, size);
    if (!mf_is_error(v)) {
        round_trip(v);
        return;
    }
    mf_status status = mf_error_status(v);
    fuzz_must(mf_error(v) && (status == MF_ERROR_IO || status == MF_ERROR_MEMORY));
}
