/* Every collective, transforms and control flow on 1, 3, 8, 64 and 1,024 devices. The number is fixed at first use, so the program runs
 * itself once for each. The expected values come from plain loops. */
#include "numbers.h"

#include <limits.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

extern char **environ;

static int devices_here(void)
{
    const char *own = getenv("MF_TEST_DEVICES");
    return own ? atoi(own) : 0;
}

static int run_self(int devices)
{
    char path[PATH_MAX], count[16];
    ssize_t length = readlink("/proc/self/exe", path, sizeof path - 1);
    path[length > 0 ? length : 0] = 0;
    snprintf(count, sizeof count, "%d", devices);
    setenv("MF_TEST_DEVICES", count, 1);
    setenv("MF_NUM_CPU_DEVICES", count, 1);
    char part[] = "on_these", *arguments[] = { path, part, NULL };
    pid_t child;
    int status = -1;
    fflush(stdout);
    if (posix_spawn(&child, path, NULL, NULL, arguments, environ) == 0)
        waitpid(child, &status, 0);
    unsetenv("MF_TEST_DEVICES");
    return status;
}

TEST(counts)
{
    if (devices_here())
        return;
    static const int counts[] = { 1, 3, 8, 64, 1024 };
    for (int i = 0; i < 5; i++) {
        printf("\n%d devices:\n", counts[i]);
        if (!CHECK_EQ_INT(run_self(counts[i]), 0))
            CHECK_NOTE("%d devices", counts[i]);
    }
}

/* x[d] = d % 13 - 5: sums are exact in f32 in every order */
static double x_of(int64_t d) { return (double)(d % 13) - 5; }

static mf_value make_x(int n)
{
    double *numbers = malloc((size_t)n * sizeof *numbers);
    for (int d = 0; d < n; d++)
        numbers[d] = x_of(d);
    mf_value v = mf_array_n(MF_F32, MF_SHAPE(n), numbers, n);
    free(numbers);
    return v;
}

typedef double (*expected_fn)(int64_t d, int64_t k, int n); /* element k of device d */

static void expect_each(mf_value v, int n, int64_t per_device, expected_fn expected, const char *what)
{
    double *got = malloc((size_t)(n * per_device) * sizeof *got);
    if (CHECK_EQ_INT(mf_to_host(v, MF_F64, got, (size_t)(n * per_device)), MF_OK)) {
        for (int64_t i = 0; i < n * per_device; i++)
            if (!CHECK_NEAR(got[i], expected(i / per_device, i % per_device, n), 1e-6)) {
                CHECK_NOTE("%s, %d devices, element %d of device %d", what, n, (int)(i % per_device), (int)(i / per_device));
                break;
            }
    } else {
        CHECK_NOTE("%s, %d devices: %s", what, n, mf_error(v));
    }
    free(got);
}
#define EACH(v, per_device, expected) expect_each(v, n, per_device, expected, #v)
#define HERE                \
    int n = devices_here(); \
    if (!n)                 \
    return

static double total_of(int n)
{
    double t = 0;
    for (int i = 0; i < n; i++)
        t += x_of(i);
    return t;
}
static double the_total(int64_t d, int64_t k, int n) { return (void)d, (void)k, total_of(n); }
static double the_mean(int64_t d, int64_t k, int n) { return (void)d, (void)k, total_of(n) / n; }
static double the_max(int64_t d, int64_t k, int n) { return (void)d, (void)k, n < 13 ? x_of(n - 1) : 7; }
static double the_min(int64_t d, int64_t k, int n) { return (void)d, (void)k, (void)n, -5; }
static double gathered(int64_t d, int64_t k, int n) { return (void)d, (void)n, x_of(k); }
static double from_before(int64_t d, int64_t k, int n) { return (void)k, x_of((d + n - 1) % n); }
static double plus_index(int64_t d, int64_t k, int n) { return (void)k, (void)n, x_of(d) + (double)d; }
static double times_size(int64_t d, int64_t k, int n) { return (void)k, x_of(d) * n; }
static double scattered(int64_t d, int64_t k, int n) { return (void)k, total_of(n) * (double)(d + 1); }
static double exchanged(int64_t d, int64_t k, int n) { return (void)n, x_of(k) * (double)(d + 1); }

static mf_value psum(mf_value v) { return mf_psum(v, "i"); }
static mf_value pmean(mf_value v) { return mf_pmean(v, "i"); }
static mf_value pmax(mf_value v) { return mf_pmax(v, "i"); }
static mf_value pmin(mf_value v) { return mf_pmin(v, "i"); }
static mf_value gather(mf_value v) { return mf_all_gather(v, 0, "i"); }
static mf_value shift(mf_value v)
{
    int n = (int)mf_item_i64(mf_axis_size("i"));
    mf_value *pairs = malloc((size_t)n * sizeof *pairs);
    for (int d = 0; d < n; d++)
        pairs[d] = mf_tuple(d, (d + 1) % n);
    mf_value r = mf_ppermute(v, "i", mf_list_n(pairs, n));
    free(pairs);
    return r;
}
static mf_value with_index(mf_value v) { return mf_add(v, mf_axis_index("i")); }
static mf_value with_size(mf_value v) { return mf_mul(v, mf_psum(1, "i")); }
static mf_value one_to_n(mf_value v) { return mf_mul(v, mf_add(mf_iota(MF_F32, MF_SHAPE(mf_item_i64(mf_axis_size("i"))), 0), 1)); }
static mf_value scatter(mf_value v) { return mf_psum_scatter(one_to_n(v), 0, "i"); }
static mf_value exchange(mf_value v) { return mf_all_to_all(one_to_n(v), 0, 0, "i"); }

TEST(collectives_on_these)
{
    HERE;
    CHECK_EQ_INT(mf_device_count(), n);
    mf_value x = make_x(n);
    EACH(mf_call(mf_pmap(psum, "i"), x), 1, the_total);
    EACH(mf_call(mf_pmap(pmean, "i"), x), 1, the_mean);
    EACH(mf_call(mf_pmap(pmax, "i"), x), 1, the_max);
    EACH(mf_call(mf_pmap(pmin, "i"), x), 1, the_min);
    EACH(mf_call(mf_pmap(gather, "i"), x), n, gathered);
    EACH(mf_call(mf_pmap(shift, "i"), x), 1, from_before);
    EACH(mf_call(mf_pmap(with_index, "i"), x), 1, plus_index);
    EACH(mf_call(mf_pmap(with_size, "i"), x), 1, times_size);
    EACH(mf_call(mf_pmap(scatter, "i"), x), 1, scattered);
    EACH(mf_call(mf_pmap(exchange, "i"), x), n, exchanged);
}

/* x psum(x) */
static mf_value times_sum(mf_value v) { return mf_mul(v, mf_psum(v, "i")); }
static mf_value call_times_sum(mf_value v) { return mf_call(mf_pmap(times_sum, "i"), v); }
static mf_value loss(mf_value v) { return mf_sum(call_times_sum(v)); }
static double x_times_total(int64_t d, int64_t k, int n) { return (void)k, x_of(d) * total_of(n); }
static double twice_total(int64_t d, int64_t k, int n) { return (void)d, (void)k, 2 * total_of(n); }
static double own_plus_total(int64_t d, int64_t k, int n) /* grad of x psum(x) on each replica: psum(1) of cotangents x, and psum(x) */
{
    return (void)d, (void)k, total_of(n) + total_of(n);
}
static double tangent(int64_t d, int64_t k, int n) { return (void)k, total_of(n) + x_of(d) * n; }
static mf_value inside(mf_value v) { return mf_call(mf_grad(times_sum), v); }
static mf_value captured(void *w, mf_value v) { return mf_mul(mf_psum(mf_mul(v, *(mf_value *)w), "i"), 1); }
static mf_value outer(mf_value w) { return mf_call(mf_pmap(mf_closure(captured, &w), "i"), make_x(devices_here())); }
static double seven_totals(int64_t d, int64_t k, int n) { return (void)d, (void)k, 7 * total_of(n); }

TEST(transforms_on_these)
{
    HERE;
    mf_value x = make_x(n), ones = mf_ones(MF_SHAPE(n), MF_F32);
    EACH(mf_call(mf_jit(call_times_sum), x), 1, x_times_total);
    EACH(mf_call(mf_pmap(mf_jit(times_sum), "i"), x), 1, x_times_total);
    EACH(mf_call(mf_grad(loss), x), 1, twice_total);
    EACH(mf_call(mf_pmap(inside, "i"), x), 1, own_plus_total);
    EACH(mf_get(mf_jvp(call_times_sum, mf_tuple(x), mf_tuple(ones)), 1), 1, tangent);
    EACH(mf_call(mf_jit(outer), 7.0), 1, seven_totals);
    EACH(mf_get(mf_call(mf_vmap(call_times_sum), mf_stack(mf_list(ones, x), 0)), 1), 1, x_times_total);
}

/* c <- c + psum(c), three times; while the sum over the group is small; a branch by index */
static mf_value step(mf_value c, mf_value t)
{
    (void)t;
    return mf_tuple(mf_div(mf_add(c, mf_pmean(c, "i")), 2), mf_none());
}
static mf_value scanned(mf_value v) { return mf_get(mf_scan(step, v, mf_none(), .length = 3), 0); }
static double towards_mean(int64_t d, int64_t k, int n) { return (void)k, total_of(n) / n * 7 / 8 + x_of(d) / 8; }
static mf_value small(mf_value c) { return mf_less(mf_psum(c, "i"), 100000); }
static mf_value grow(mf_value c) { return mf_add(c, mf_pmax(c, "i")); }
static mf_value loop(mf_value v) { return mf_while(small, grow, mf_add(mf_abs(v), 1)); }
static double grown(int64_t d, int64_t k, int n)
{
    (void)k;
    double most = 0, sum = 0, own = fabs(x_of(d)) + 1;
    for (int i = 0; i < n; i++) {
        sum += fabs(x_of(i)) + 1;
        most = fmax(most, fabs(x_of(i)) + 1);
    }
    for (; sum < 100000; sum += n * most, own += most, most *= 2)
        ;
    (void)d;
    return own;
}
static mf_value twice(mf_value v) { return mf_mul(v, 2); }
static mf_value minus(mf_value v) { return mf_neg(v); }
static mf_value branch(mf_value v) { return mf_add(mf_cond(mf_less(mf_axis_index("i"), 2), twice, minus, v), mf_psum(v, "i")); }
static double branched(int64_t d, int64_t k, int n) { return (void)k, (d < 2 ? 2 : -1) * x_of(d) + total_of(n); }

TEST(control_flow_on_these)
{
    HERE;
    mf_value x = make_x(n);
    EACH(mf_call(mf_pmap(scanned, "i"), x), 1, towards_mean);
    EACH(mf_call(mf_pmap(loop, "i"), x), 1, grown);
    EACH(mf_call(mf_pmap(branch, "i"), x), 1, branched);
}

/* nested: rows of 2 (or 1), groups */
static mf_value row_and_column(mf_value v) { return mf_add(mf_mul(1000, mf_psum(v, "j")), mf_psum(v, "i")); }
static double rows_and_columns(int64_t d, int64_t k, int n)
{
    (void)k;
    int64_t width = n % 2 ? 1 : 2;
    double row = 0, column = 0;
    for (int64_t i = 0; i < n; i++) {
        row += i / width == d / width ? x_of(i) : 0;
        column += i % width == d % width ? x_of(i) : 0;
    }
    return 1000 * row + column;
}
static mf_value halves(mf_value v)
{
    int n = devices_here();
    mf_value low = mf_list_n(NULL, 0), high = low, *items = malloc((size_t)n * sizeof *items);
    for (int d = 0; d < n; d++)
        items[d] = mf_i(d);
    low = mf_list_n(items, n / 2);
    high = mf_list_n(items + n / 2, n - n / 2);
    free(items);
    return mf_psum(v, "i", .axis_index_groups = n % 2 ? mf_list(high) : mf_list(low, high));
}
static double half_total(int64_t d, int64_t k, int n)
{
    double t = 0;
    (void)k;
    for (int i = 0; i < n; i++)
        t += n % 2 || (i < n / 2) == (d < n / 2) ? x_of(i) : 0;
    return t;
}

TEST(nested_maps_and_groups_on_these)
{
    HERE;
    int width = n % 2 ? 1 : 2;
    mf_value x = make_x(n), grid = mf_reshape(x, MF_SHAPE(n / width, width));
    EACH(mf_call(mf_pmap(mf_pmap(row_and_column, "j"), "i"), grid), 1, rows_and_columns);
    if (n == 1 || n % 2 == 0)
        EACH(mf_call(mf_pmap(halves, "i"), x), 1, half_total);
}
