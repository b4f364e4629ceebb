/* Dtypes: JAX's promotion for every pair (tests/oracle/promotion.txt) and conversion with JAX's edges. */
#include "array/types/dtype.h"
#include "array/types/type.h"
#include "check.h"

static void parse_name(const char *s, mf_dtype *d, bool *weak)
{
    size_t n = strlen(s);
    *weak = s[n - 1] == '*';
    *d = *weak ? (s[0] == 'i' ? MF_I32 : s[0] == 'f' ? MF_F32 : MF_C64) : mf_dtype_parse(s, (int)n);
}

TEST(promotes_like_jax)
{
    FILE *f = fopen(MF_TESTS_DIR "/oracle/promotion.txt", "r");
    REQUIRE(f);
    char line[256], a[8], b[8], result[8];
    int pairs = 0, is_weak;
    while (fgets(line, sizeof line, f)) {
        if (line[0] == '#' || sscanf(line, "%7s %7s %7s %d", a, b, result, &is_weak) != 4)
            continue;
        mf_dtype da, db, expected;
        bool wa, wb, weak, unused;
        parse_name(a, &da, &wa);
        parse_name(b, &db, &wb);
        parse_name(result, &expected, &unused);
        mf_dtype got = mf_dtype_promote(da, wa, db, wb, &weak);
        if (!CHECK(got == expected && weak == (bool)is_weak))
            CHECK_NOTE("%s with %s: %s%s, not %s%s", a, b, mf_dtype_short(got), weak ? "*" : "", result, is_weak ? "*" : "");
        pairs++;
    }
    fclose(f);
    CHECK_EQ_INT(pairs, 18 * 18);
}

TEST(keys_promote_with_nothing)
{
    bool weak;
    CHECK_EQ_INT(mf_dtype_promote(MF_KEY, false, MF_F32, false, &weak), MF_DTYPE_DEFAULT);
    CHECK_EQ_INT(mf_dtype_promote(MF_KEY, false, MF_KEY, false, &weak), MF_KEY);
    CHECK_EQ_INT(mf_dtype_promote(MF_BOOL, true, MF_BOOL, false, NULL), MF_BOOL);
}

static int64_t to_int(mf_dtype d, double x)
{
    int64_t out = 0;
    mf_convert(d, &out, MF_F64, &x, 1);
    return mf_load_i64(d, &out);
}

TEST(floats_saturate_into_integers)
{
    CHECK_EQ_INT(to_int(MF_I32, 3e10), INT32_MAX);
    CHECK_EQ_INT(to_int(MF_I32, -3e10), INT32_MIN);
    CHECK_EQ_INT(to_int(MF_I32, (double)NAN), 0);
    CHECK_EQ_INT(to_int(MF_I8, 200), 127);
    CHECK_EQ_INT(to_int(MF_I8, -128.9), -128);
    CHECK_EQ_INT(to_int(MF_U8, -1), 0);
    CHECK_EQ_INT(to_int(MF_U8, -0.9), 0);
    CHECK_EQ_INT(to_int(MF_U8, 255.9), 255);
    CHECK_EQ_INT(to_int(MF_U32, 5e9), UINT32_MAX);
    CHECK_EQ_INT(to_int(MF_I64, 1e30), INT64_MAX);
    CHECK_EQ_INT(to_int(MF_I64, -1e30), INT64_MIN);
    CHECK_EQ_UINT((uint64_t)to_int(MF_U64, 1e30), UINT64_MAX);
    CHECK_EQ_UINT((uint64_t)to_int(MF_U64, 0x1p63), (uint64_t)1 << 63);
    CHECK_EQ_INT(to_int(MF_BOOL, 0.25), 1);
    CHECK_EQ_INT(to_int(MF_BOOL, (double)NAN), 1);
    CHECK_EQ_INT(to_int(MF_I32, -1.9), -1);
}

TEST(integers_wrap)
{
    int32_t x = 300;
    uint8_t u;
    int8_t s;
    mf_convert(MF_U8, &u, MF_I32, &x, 1);
    CHECK_EQ_INT(u, 44);
    x = 200;
    mf_convert(MF_I8, &s, MF_I32, &x, 1);
    CHECK_EQ_INT(s, -56);
    x = -1;
    uint64_t wide;
    mf_convert(MF_U64, &wide, MF_I32, &x, 1);
    CHECK_EQ_UINT(wide, UINT64_MAX);
    float f;
    mf_convert(MF_F32, &f, MF_U64, &wide, 1);
    CHECK_NEAR((double)f, 0x1p64, 0);
}

/* Every f16 survives a round trip, and midpoints between neighbours round to even. */
TEST(half_precision_rounds_to_nearest_even)
{
    int wrong = 0;
    for (uint32_t h = 0; h < 0x10000; h++) {
        float x = mf_f16_to_f32((uint16_t)h);
        uint16_t back = mf_f32_to_f16(x);
        wrong += isnan(x) ? !isnan(mf_f16_to_f32(back)) : back != h;
        if ((h & 0x7fff) < 0x7bff) {
            float next = mf_f16_to_f32((uint16_t)(h + 1)), middle = x + (next - x) / 2;
            wrong += mf_f32_to_f16(middle) != ((h & 1) ? h + 1 : h);
            wrong += mf_f32_to_f16(nextafterf(middle, next)) != h + 1;
            wrong += mf_f32_to_f16(nextafterf(middle, x)) != h;
        }
    }
    CHECK_EQ_INT(wrong, 0);
    CHECK_EQ_UINT(mf_f32_to_f16(65519.99f), 0x7bff);
    CHECK_EQ_UINT(mf_f32_to_f16(65520.0f), 0x7c00);
    CHECK_EQ_UINT(mf_f32_to_f16(0x1p-25f), 0);
    CHECK_EQ_UINT(mf_f32_to_f16(nextafterf(0x1p-25f, 1)), 1);
}

TEST(f64_to_f16_rounds_once)
{
    uint16_t h;
    double x = 1 + 0x1p-11 + 0x1p-40; /* just above a midpoint; rounded to f32 first, it would be the midpoint and round down */
    mf_store_f64(MF_F16, &h, x);
    CHECK_EQ_UINT(h, 0x3c01);
    x = 1 + 0x1p-11 - 0x1p-40;
    mf_store_f64(MF_F16, &h, x);
    CHECK_EQ_UINT(h, 0x3c00);
    mf_store_f64(MF_F16, &h, -1e300);
    CHECK_EQ_UINT(h, 0xfc00);
}

TEST(bfloat_rounds_to_nearest_even)
{
    int wrong = 0;
    for (uint32_t b = 0; b < 0x10000; b++) {
        float x = mf_bf16_to_f32((uint16_t)b);
        wrong += isnan(x) ? !isnan(mf_bf16_to_f32(mf_f32_to_bf16(x))) : mf_f32_to_bf16(x) != b;
    }
    CHECK_EQ_INT(wrong, 0);
    CHECK_EQ_UINT(mf_f32_to_bf16(1 + 0x1p-8f), 0x3f80);
    CHECK_EQ_UINT(mf_f32_to_bf16(1 + 3 * 0x1p-8f), 0x3f82);
    CHECK_EQ_UINT(mf_f32_to_bf16(3.4028235e38f), 0x7f80);
}

TEST(complex_keeps_both_parts)
{
    float c[2] = { 0, 3 }, f;
    double wide[2];
    uint8_t truth;
    mf_convert(MF_C128, wide, MF_C64, c, 1);
    CHECK_NEAR(wide[1], 3, 0);
    mf_convert(MF_BOOL, &truth, MF_C64, c, 1);
    CHECK_EQ_INT(truth, 1);
    mf_convert(MF_F32, &f, MF_C64, c, 1);
    CHECK_NEAR((double)f, 0, 0);
}

TEST(types_are_interned_and_print)
{
    const mf_type *t = mf_type_get(MF_F32, false, 2, (const int64_t[]){ 2, 3 });
    CHECK(t == mf_type_get(MF_F32, false, 2, (const int64_t[]){ 2, 3 }));
    CHECK(t != mf_type_get(MF_F32, true, 2, (const int64_t[]){ 2, 3 }));
    CHECK(mf_type_strong(mf_type_get(MF_F32, true, 2, t->dims)) == t);
    CHECK_STR(mf_type_name(t), "float32[2,3]");
    CHECK_EQ_INT(t->bytes, 24);
    CHECK(mf_type_without_axis(mf_type_insert_axis(t, 1, 7), 1) == t);
    CHECK(mf_type_get(MF_F32, false, 17, (const int64_t[17]){ 0 }) == NULL);
    CHECK(mf_type_get(MF_F32, false, 2, (const int64_t[]){ INT64_MAX, 2 }) == NULL);
    CHECK(mf_type_get(MF_F32, false, 3, (const int64_t[]){ 0, INT64_MAX, INT64_MAX }) == NULL);
    CHECK(mf_type_get(MF_F32, false, 1, (const int64_t[]){ -1 }) == NULL);
    static const char *const texts[] = { "f32[2,3]", "i32[]*", "bf16[0]", "key[4]", "bool[1,1,1]" };
    for (int i = 0; i < 5; i++) {
        const char *s = texts[i];
        mf_text out = { 0 };
        const mf_type *parsed = mf_type_parse(&s);
        REQUIRE(parsed && !*s);
        mf_type_print(&out, parsed);
        CHECK_STR(out.at, texts[i]);
        mf_text_free(&out);
    }
    static const char *const bad[] = { "f32", "f33[2]", "f32[2", "f32[2,]", "f32[-1]", "f32[a]", "f32[2;3]", "" };
    for (int i = 0; i < 8; i++) {
        const char *s = bad[i];
        CHECK(mf_type_parse(&s) == NULL);
    }
}
