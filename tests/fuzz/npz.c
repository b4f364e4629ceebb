/* Arbitrary bytes as an .npz archive. The result must be a dict of readable arrays. */
#include "fuzz/targets.h"

#include <manyfold.h>

void fuzz_npz(const uint8_t *data, size_t size)
{
    MF_SCOPE;
    fuzz_file f = fuzz_file_open(data, size);
    mf_value v = mf_load_npz(f.path);
    if (mf_is_error(v)) {
        fuzz_must(mf_error(v) != NULL);
    } else {
        const char *key;
        for (int i = 0; (key = mf_key(v, i)); i++) {
            mf_value member = mf_get(v, key);
            if (mf_is_error(member)) /* the dict holds one of two members with the same name */
                fuzz_must(mf_error(member) != NULL);
            else
                fuzz_must(mf_str(member) != NULL);
        }
    }
    fuzz_file_close(&f);
}
