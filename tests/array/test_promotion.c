/* Promotion of every pair of dtypes, weak scalars included, against JAX's answers. */
#include "array/types/dtype.h"
#include "check.h"

/* "f32" or a weak "f*", whose dtype is the default of its kind. */
static mf_dtype read_dtype(const char *text, bool *weak)
{
    *weak = strchr(text, '*') != NULL;
    if (!*weak)
        return mf_dtype_parse(text, (int)strlen(text));
    return *text == 'i' ? MF_I32 : *text == 'f' ? MF_F32 : MF_C64;
}

TEST(promotion_is_jax_s)
{
    char a[16], b[16], result[16], line[128];
    int expected_weak, pairs = 0;
    FILE *f = fopen(MF_TESTS_DIR "/oracle/promotion.txt", "r");
    REQUIRE(f != NULL);
    while (fgets(line, sizeof line, f)) {
        if (sscanf(line, "%15s %15s %15s %d", a, b, result, &expected_weak) != 4 || line[0] == '#')
            continue;
        bool a_weak, b_weak, weak;
        mf_dtype x = read_dtype(a, &a_weak), y = read_dtype(b, &b_weak);
        mf_dtype got = mf_dtype_promote(x, a_weak, y, b_weak, &weak);
        if (!CHECK_STR(mf_dtype_short(got), result) || !CHECK_EQ_INT(weak, expected_weak))
            CHECK_NOTE("%s with %s", a, b);
        pairs++;
    }
    fclose(f);
    CHECK_EQ_INT(pairs, 18 * 18);
}
