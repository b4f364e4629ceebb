/* Memory is short inside oneDNN and LLVM, which test_memory.c does not reach: an allocation of theirs fails, alone or with all that
 * follow, or the process may have no more address space. What comes is the right number or an error of memory, and the process goes on
 * and ends well. The functions below stand before the C library's in the whole program; what is asked for by the C library, the loader
 * and our own code is given. So is what the libraries do not bear the lack of: all while they are being loaded, what OpenMP asks for,
 * which ends the process, and oneDNN by posix_memalign and mmap, whose failures it does not look at. There the look for memory to spare
 * helps, which the last test is about. */
#include "check.h"

#include <errno.h>
#include <link.h>
#include <manyfold.h>
#include <stdatomic.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define SANITIZED 1
#else
#define SANITIZED 0
#endif

/* ------------------------------------------------------------------ allocations that fail */

enum { KNOWN = 64 };

static struct {
    uintptr_t from[KNOWN], to[KNOWN]; /* code whose allocations always succeed: what is loaded at the start, and OpenMP */
    int known;
    _Atomic int64_t at, until;
    _Atomic bool armed, maps; /* maps: mmap fails, too */
} inside;

static int learn(struct dl_phdr_info *info, size_t size, void *name)
{
    (void)size;
    if (name && !strstr(info->dlpi_name, name))
        return 0;
    for (int i = 0; i < info->dlpi_phnum && inside.known < KNOWN; i++)
        if (info->dlpi_phdr[i].p_type == PT_LOAD && info->dlpi_phdr[i].p_flags & PF_X) {
            inside.from[inside.known] = info->dlpi_addr + info->dlpi_phdr[i].p_vaddr;
            inside.to[inside.known] = inside.from[inside.known] + info->dlpi_phdr[i].p_memsz;
            inside.known++;
        }
    return 0;
}

__attribute__((constructor)) static void learn_at_start(void) { dl_iterate_phdr(learn, NULL); }

static void start(int64_t n, bool all)
{
    static bool learnt;
    if (!learnt)
        dl_iterate_phdr(learn, "gomp");
    learnt = true;
    atomic_store(&inside.at, 1 - n);
    atomic_store(&inside.until, all ? INT64_MAX : 1);
    atomic_store(&inside.armed, true);
}

/* Whether an allocation failed. */
static bool stop(void)
{
    atomic_store(&inside.armed, false);
    return atomic_load(&inside.at) > 0;
}

#if !SANITIZED
static bool fails(void *caller)
{
    if (!atomic_load_explicit(&inside.armed, memory_order_relaxed))
        return false;
    for (int i = 0; i < inside.known; i++)
        if ((uintptr_t)caller >= inside.from[i] && (uintptr_t)caller < inside.to[i])
            return false;
    int64_t at = atomic_fetch_add(&inside.at, 1);
    if (at < 0 || at >= atomic_load(&inside.until))
        return false;
    errno = ENOMEM;
    return true;
}

#pragma GCC visibility push(default)
#define FAILS fails(__builtin_return_address(0))
void *__libc_malloc(size_t), *__libc_calloc(size_t, size_t), *__libc_realloc(void *, size_t), *__libc_memalign(size_t, size_t);

void *malloc(size_t n) { return FAILS ? NULL : __libc_malloc(n); }
void *calloc(size_t n, size_t size) { return FAILS ? NULL : __libc_calloc(n, size); }
void *realloc(void *p, size_t n) { return FAILS ? NULL : __libc_realloc(p, n); }
void *aligned_alloc(size_t to, size_t n) { return FAILS ? NULL : __libc_memalign(to, n); }
void *memalign(size_t to, size_t n) { return FAILS ? NULL : __libc_memalign(to, n); }

void *mmap(void *at, size_t n, int rights, int flags, int file, off_t offset)
{
    return atomic_load(&inside.maps) && FAILS ? MAP_FAILED : (void *)(uintptr_t)syscall(SYS_mmap, at, n, rights, flags, file, offset);
}
#pragma GCC visibility pop
#endif

/* ------------------------------------------------------------------ programs */

static void quiet(mf_status status, const char *message, void *context) { (void)status, (void)message, (void)context; }

static mf_value convolved(mf_value x, mf_value w) { return mf_conv_general_dilated(x, w, .padding = MF_SAME); }
static mf_value convolved_sum(mf_value x, mf_value w) { return mf_sum(convolved(x, w)); }
static mf_value image(int64_t width) { return mf_ones(MF_SHAPE(2, 12, width, 16), MF_F32); }
static mf_value filter(void) { return mf_ones(MF_SHAPE(3, 3, 16, 16), MF_F32); }

/* The value of all elements if they are equal, else NaN. */
static mf_value all_of(mf_value x)
{
    mf_value low = mf_min(x), high = mf_max(x);
    return mf_where(mf_equal(low, high), low, (double)NAN);
}

static mf_value inner(mf_value x) { return all_of(mf_get(x, 1, 5, 5)); }
static mf_value convolution(int64_t n) { return inner(convolved(image(8 + n), filter())); }
static mf_value both_gradients(int64_t n)
{
    mf_value g = mf_call(mf_grad(convolved_sum, .argnums = MF_INTS(0, 1)), image(8 + n), filter());
    return mf_add(inner(mf_get(g, 0)), all_of(mf_get(mf_get(g, 1), 1, 1)));
}
static mf_value product(int64_t n)
{
    return all_of(mf_matmul(mf_ones(MF_SHAPE(160, 128 + n), MF_F32), mf_ones(MF_SHAPE(128 + n, 160), MF_F32)));
}
static mf_value half_product(int64_t n)
{
    return all_of(mf_matmul(mf_ones(MF_SHAPE(n, 128), MF_BF16), mf_ones(MF_SHAPE(128, 256), MF_BF16)));
}

/* Each n is a problem that is new to oneDNN; the result is base + step * n. */
static const struct program {
    const char *name;
    mf_value (*run)(int64_t n);
    double base, step;
} programs[] = { { "convolution", convolution, 144, 0 },
                 { "both gradients", both_gradients, 144 + 2.0 * 12 * 8, 24 },
                 { "product", product, 128, 1 },
                 { "product of bf16", half_product, 128, 0 } };

/* Whether the result is right, or an out-of-memory error, which is then handled. */
static bool right(const struct program *p, int64_t n, bool must)
{
    MF_SCOPE;
    mf_value v = p->run(n);
    mf_status status = mf_block_until_ready(v);
    if (status)
        (void)mf_error(v);
    return status ? !must && status == MF_ERROR_MEMORY : mf_item_f64(v) == p->base + p->step * (double)n;
}

/* ------------------------------------------------------------------ in processes of their own */

static bool is_fine_in_a_child(bool (*run)(int64_t context), int64_t context)
{
    int status = 0;
    fflush(NULL);
    pid_t child = fork();
    if (child == 0) {
        alarm(100);
        mf_set_error_hook(quiet, NULL);
        exit(run(context) ? EXIT_SUCCESS : EXIT_FAILURE);
    }
    return CHECK(child > 0 && waitpid(child, &status, 0) == child && WIFEXITED(status) && WEXITSTATUS(status) == EXIT_SUCCESS);
}

static mf_value chain(void *length, mf_value x)
{
    for (int64_t i = 0; i < *(int64_t *)length; i++)
        x = mf_add(mf_mul(mf_abs(x), 2), 1);
    return x;
}
static mf_value loop(int64_t length) { return all_of(mf_call(mf_jit(mf_closure(chain, &length)), mf_ones(MF_SHAPE(64, 64), MF_F32))); }
static bool loop_is_right(int64_t length, bool must)
{
    return right(&(struct program){ "loop", loop, ldexp(2, (int)length) - 1, 0 }, length, must);
}

/* Compiles while LLVM's n-th allocation fails; for negative n also all later ones. */
static bool compiles(int64_t n)
{
    bool fine = loop_is_right(1, true);
    atomic_store(&inside.maps, true);
    start(llabs(n), n < 0);
    fine = loop_is_right(2, true) && loop_is_right(3, true) && fine;
    (void)stop();
    return loop_is_right(4, true) && fine;
}

TEST(a_failure_inside_llvm_leaves_the_first_tier)
{
    if (SANITIZED)
        SKIP("the sanitizer has the C library's place");
    setenv("MF_COMPILE_TIER", "loops", 1);
    for (int64_t n = 1; n < 2000 && !check_failures; n += n < 20 ? 1 : 61)
        for (int64_t way = -1; way <= 1; way += 2)
            if (!is_fine_in_a_child(compiles, way * n))
                CHECK_NOTE("allocation %d fails%s", (int)n, way < 0 ? " and all that follow" : "");
}

static bool fits(int64_t more)
{
    long pages = 0;
    FILE *f = fopen("/proc/self/statm", "r");
    bool known = f && fscanf(f, "%ld", &pages) == 1;
    if (f)
        (void)fclose(f);
    rlim_t most = (rlim_t)pages * (rlim_t)sysconf(_SC_PAGESIZE) + ((rlim_t)more << 20);
    bool fine = known && setrlimit(RLIMIT_AS, &(struct rlimit){ most, most }) == 0;
    for (int64_t n = 1; n <= 3; n++) {
        for (size_t i = 0; i < sizeof programs / sizeof *programs; i++)
            fine = right(&programs[i], n, false) && fine;
        fine = loop_is_right(n, false) && fine;
    }
    return fine;
}

TEST(with_so_much_address_space_left_it_is_right_or_an_error)
{
    static const int64_t more[] = { 0, 1, 2, 4, 8, 16, 30, 50, 80, 100, 110, 150, 200, 300, 400, 420, 450, 520, 600, 1000 };
    if (SANITIZED)
        SKIP("the sanitizer maps terabytes");
    setenv("MF_COMPILE_TIER", "loops", 1);
    for (size_t i = 0; i < sizeof more / sizeof *more; i++)
        if (!is_fine_in_a_child(fits, more[i]))
            CHECK_NOTE("%d MiB", (int)more[i]);
}

/* ------------------------------------------------------------------ in this one */

/* False if no allocation failed. */
static bool fail_once(const struct program *p, int64_t n, bool all)
{
    mf_clear_caches();
    start(n, all);
    bool first = right(p, n, false), second = right(p, n, false), failed = stop();
    if (!CHECK(first && second && right(p, n, true)))
        CHECK_NOTE("%s, allocation %d fails%s", p->name, (int)n, all ? " and all that follow" : "");
    return failed;
}

TEST(a_failure_inside_onednn_is_an_error)
{
    int64_t failures = 0;
    if (SANITIZED)
        SKIP("the sanitizer has the C library's place");
    setenv("MF_COMPILE_TIER", "1", 1);
    mf_set_error_hook(quiet, NULL);
    for (size_t i = 0; i < sizeof programs / sizeof *programs; i++)
        for (int all = 0; all < 2; all++) {
            int64_t n = 1;
            CHECK(right(&programs[i], 4000, true)); /* the library is loaded */
            while (n < 2000 && fail_once(&programs[i], n, all) && !check_failures)
                n++;
            failures += n - 1;
        }
    printf("(%lld allocations failed) ", (long long)failures);
    mf_set_error_hook(NULL, NULL);
}
