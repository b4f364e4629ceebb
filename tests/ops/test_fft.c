/* Fourier transforms, in addition to JAX's answers (test_oracle.c) and the ops' samples: every length up to 130 and some large ones,
 * compared with the defining sum; errors that grow only with log n; the same bits alone and in a batch; and invalid arguments. */
#include "check.h"

#include <manyfold.h>

static mf_value noise(mf_shape shape, mf_dtype dtype) { return mf_random_normal(mf_random_key(5), shape, dtype); }

static mf_value complex_noise(mf_shape shape, mf_dtype part)
{
    mf_value x = noise(shape, part);
    return mf_complex(x, mf_cos(mf_mul(x, 7)));
}

/* The sum by its definition, in double precision. */
static mf_value by_definition(mf_value x, int n)
{
    mf_value k = mf_arange(n, MF_I32), turns = mf_remainder(mf_outer(k, k), n);
    mf_value angle = mf_mul(mf_astype(turns, MF_F64), mf_scalar(-2 * 3.14159265358979323846 / n, MF_F64));
    return mf_matmul(mf_complex(mf_cos(angle), mf_sin(angle)), x);
}

static double distance(mf_value a, mf_value b)
{
    mf_value wide = mf_astype(b, MF_C128);
    return mf_item_f64(mf_norm(mf_sub(mf_astype(a, MF_C128), wide))) / mf_item_f64(mf_norm(wide));
}

TEST(every_length_is_the_sum)
{
    for (int n = 1; n <= 130; n++) {
        MF_SCOPE;
        mf_value x = complex_noise(MF_SHAPE(n), MF_F64), real = mf_astype(mf_real(x), MF_C128), y = mf_fft(x);
        double tolerance = 1e-15 * (4 + log2(n)) * 4;
        CHECK(distance(y, by_definition(x, n)) < tolerance);
        CHECK(distance(mf_ifft(y), x) < tolerance);
        CHECK(distance(mf_rfft(mf_real(x)), mf_slice_in_dim(by_definition(real, n), 0, n / 2 + 1, 1, 0)) < tolerance);
        if (!CHECK(distance(mf_irfft(mf_rfft(mf_real(x)), n), real) < tolerance))
            CHECK_NOTE("n = %d", n);
    }
}

TEST(errors_grow_with_the_logarithm)
{
    static const int lengths[] = { 1024, 3000, 4099, 10007, 65536, 60060, 131101 };
    for (size_t i = 0; i < sizeof lengths / sizeof *lengths; i++) {
        MF_SCOPE;
        int n = lengths[i];
        mf_value x = complex_noise(MF_SHAPE(n), MF_F32), wide = mf_astype(x, MF_C128);
        double tolerance = 6e-8 * log2(n);
        CHECK(distance(mf_fft(x), mf_fft(wide)) < tolerance);
        CHECK(distance(mf_ifft(mf_fft(x)), wide) < tolerance);
        if (!CHECK(distance(mf_irfft(mf_rfft(mf_real(x)), n), mf_astype(mf_real(x), MF_C128)) < tolerance))
            CHECK_NOTE("n = %d", n);
    }
}

/* A single line is transformed alone, lines of a batch several at a time, and large batches are cut into tasks. */
TEST(a_line_has_the_same_bits_alone_and_in_a_batch)
{
    static const int lengths[] = { 1, 2, 6, 31, 37, 60, 210, 256, 1009 };
    for (size_t i = 0; i < sizeof lengths / sizeof *lengths; i++)
        for (int wide = 0; wide < 2; wide++) {
            MF_SCOPE;
            int n = lengths[i];
            mf_value x = complex_noise(MF_SHAPE(203, n), wide ? MF_F64 : MF_F32), real = mf_real(x);
            mf_value all[] = { mf_fft(x), mf_ifft(x), mf_rfft(real), mf_irfft(x, n) };
            for (int line = 0; line < 203; line += 101) {
                mf_value one = mf_get(x, line), r = mf_real(one);
                mf_value single[] = { mf_fft(one), mf_ifft(one), mf_rfft(r), mf_irfft(one, n) };
                for (int f = 0; f < 4; f++)
                    if (!CHECK(mf_item_bool(mf_array_equal(mf_get(all[f], line), single[f]))))
                        CHECK_NOTE("n = %d, transform %d, line %d", n, f, line);
            }
        }
}

TEST(what_is_not_finite_spoils_its_own_line)
{
    mf_value x = mf_array(MF_F32, MF_SHAPE(2, 3), 1, NAN, 2, 3, 4, 5), y = mf_abs(mf_fft(x));
    CHECK(isnan(mf_item_f64(mf_sum(mf_get(y, 0)))));
    CHECK(isfinite(mf_item_f64(mf_sum(mf_get(y, 1)))));
}

TEST(errors_say_what_is_wrong)
{
    mf_value x = mf_ones(MF_SHAPE(2, 3), MF_F32), z = mf_complex(x, x);
    CHECK_CONTAINS(mf_error(mf_rfft(z)), "rfft: the operand must be real, not complex64");
    CHECK_CONTAINS(mf_error(mf_fft(x, .axis = 2)), "axis 2");
    CHECK_CONTAINS(mf_error(mf_fft(mf_f(1))), "axis -1");
    CHECK_CONTAINS(mf_error(mf_fft(x, -4)), "the length -4 is below 1");
    CHECK_CONTAINS(mf_error(mf_fft(mf_ones(MF_SHAPE(2, 0), MF_F32))), "the length 0 along axis 1 is below 1");
    CHECK_CONTAINS(mf_error(mf_irfft(mf_ones(MF_SHAPE(1), MF_F32))), "the length 0 along axis 0 is below 1");
    CHECK_CONTAINS(mf_error(mf_fftn(x, MF_INTS(2, 3, 4))), "axis -3");
    CHECK_CONTAINS(mf_error(mf_fftn(x, MF_INTS(2), MF_INTS(0, 1))), "1 lengths for 2 axes");
    CHECK_CONTAINS(mf_error(mf_fft2(x, MF_INTS(2, 0))), "the length 0 is below 1");
    CHECK_CONTAINS(mf_error(mf_fftfreq(0, 1)), "the length 0 is below 1");
    CHECK_CONTAINS(mf_error(mf_fftshift(x, 5)), "axis 5");
    CHECK_CONTAINS(mf_error(mf_fft(mf_make_error(MF_ERROR_IO, "mine"))), "mine");
    CHECK_STR(mf_str(mf_fft(mf_ones(MF_SHAPE(0, 2), MF_F32))), "[]");
}

/* More lengths than plans are cached. */
TEST(plans_beyond_those_kept)
{
    for (int n = 0; n < 5; n++) {
        MF_SCOPE;
        int length = (1 << 18) + 2 * n;
        mf_value x = noise(MF_SHAPE(length), MF_F64);
        if (!CHECK(distance(mf_irfft(mf_rfft(x), length), mf_astype(x, MF_C128)) < 1e-13))
            CHECK_NOTE("n = %d", length);
    }
}
