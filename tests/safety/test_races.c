/* One thread destroys what others are using: a kept handle is released, an array donated or deleted. Readers get the right numbers or an
 * error, never freed memory and never other numbers. */
#include "check.h"

#include <manyfold.h>
#include <pthread.h>
#include <stdlib.h>

enum { READERS = 3, ROUNDS = 1500, LOOKS = 8, SIZE = 4096 };

typedef struct race {
    void (*end)(mf_value v);
    mf_value (*use)(mf_value v);
    double want;
    mf_status refusal;
    _Atomic uint64_t shared;
    _Atomic long good, refused;
    _Atomic bool over;
    _Atomic double wrong;
    _Atomic bool other;
    pthread_barrier_t step;
} race;

static void ignore(mf_status status, const char *message, void *context)
{
    (void)status;
    (void)message;
    (void)context;
}

static void look(race *r, mf_value v)
{
    mf_value result = r->use(v);
    if (!mf_is_error(result)) {
        double x = mf_item_f64(result);
        r->good++;
        if (x != r->want)
            r->wrong = x;
    } else if (mf_error_status(result) == r->refusal) {
        r->refused++;
    } else {
        r->other = true;
    }
}

static void *read_it(void *context)
{
    race *r = context;
    for (;;) {
        pthread_barrier_wait(&r->step);
        if (r->over)
            return NULL;
        {
            MF_SCOPE;
            for (int i = 0; i < LOOKS; i++)
                look(r, (mf_value){ r->shared });
        }
        pthread_barrier_wait(&r->step);
    }
}

static void *end_it(void *context)
{
    race *r = context;
    unsigned seed = 1;
    for (;;) {
        pthread_barrier_wait(&r->step);
        if (r->over)
            return NULL;
        for (volatile int k = rand_r(&seed) % 3000; k > 0; k--)
            ;
        {
            MF_SCOPE;
            r->end((mf_value){ r->shared });
            for (int i = 0; i < LOOKS; i++) /* reuses the memory at once, if it is free */
                mf_add(mf_arange(SIZE, MF_F32), 7);
        }
        pthread_barrier_wait(&r->step);
    }
}

static void run(race *r)
{
    pthread_t threads[READERS + 1];
    mf_set_error_hook(ignore, NULL);
    pthread_barrier_init(&r->step, NULL, READERS + 2);
    for (int i = 0; i <= READERS; i++)
        pthread_create(&threads[i], NULL, i < READERS ? read_it : end_it, r);
    for (int i = 0; i < ROUNDS; i++) {
        mf_value v;
        {
            MF_SCOPE;
            v = mf_keep(mf_add(mf_arange(SIZE, MF_F32), 1));
            mf_block_until_ready(v);
        }
        r->shared = v.handle;
        pthread_barrier_wait(&r->step);
        pthread_barrier_wait(&r->step);
        mf_release(v);
    }
    r->over = true;
    pthread_barrier_wait(&r->step);
    for (int i = 0; i <= READERS; i++)
        pthread_join(threads[i], NULL);
    pthread_barrier_destroy(&r->step);
    mf_set_error_hook(NULL, NULL);
    CHECK_EQ_INT(r->good + r->refused, (long)ROUNDS * READERS * LOOKS);
    CHECK(!r->other);
    CHECK_NEAR(r->wrong, 0, 0);
    CHECK(r->good > 0);
}

static mf_value total(mf_value v) { return mf_sum(v); }
static mf_value total_of_next(mf_value v) { return mf_sum(mf_add(v, 1)); }
static mf_value total_of_row(mf_value v) { return mf_sum(mf_get(mf_reshape(v, MF_SHAPE(2, SIZE / 2)), 1)); }
static mf_value total_of_copy(mf_value v) { return mf_sum(mf_copy(v)); }

static mf_value twice(mf_value x) { return mf_mul(x, 2); }
static void donate(mf_value v) { mf_call(mf_jit(twice, .donate_argnums = MF_INTS(0)), v); }
static void delete (mf_value v) { mf_delete(v); }

static const double sum = SIZE * (SIZE + 1.0) / 2, sum_of_row = SIZE / 2 * (SIZE + (SIZE / 2.0 + 1)) / 2;

TEST(a_kept_handle_released_by_another_thread)
{
    run(&(race){ .end = mf_release, .use = total, .want = sum, .refusal = MF_ERROR_SCOPE });
    run(&(race){ .end = mf_release, .use = total_of_row, .want = sum_of_row, .refusal = MF_ERROR_SCOPE });
}

TEST(an_array_donated_by_another_thread)
{
    run(&(race){ .end = donate, .use = total_of_next, .want = sum + SIZE, .refusal = MF_ERROR_DONATED });
    run(&(race){ .end = donate, .use = total_of_row, .want = sum_of_row, .refusal = MF_ERROR_DONATED });
    run(&(race){ .end = donate, .use = total_of_copy, .want = sum, .refusal = MF_ERROR_DONATED });
}

TEST(an_array_deleted_by_another_thread)
{
    run(&(race){ .end = delete, .use = total_of_next, .want = sum + SIZE, .refusal = MF_ERROR_DONATED });
    run(&(race){ .end = delete, .use = total_of_row, .want = sum_of_row, .refusal = MF_ERROR_DONATED });
}

/* Two threads release one handle: the value is destroyed once. */
static void release_twice(mf_value v) { mf_release(v); }
static mf_value use_and_release(mf_value v)
{
    mf_value result = mf_sum(v);
    mf_release(v);
    return result;
}

TEST(a_kept_handle_released_by_all_threads)
{
    run(&(race){ .end = release_twice, .use = use_and_release, .want = sum, .refusal = MF_ERROR_SCOPE });
}

/* A program keeps its constants, whatever happens to the arrays that it was traced with. */
static mf_value weights;
static mf_value weighted(mf_value x) { return mf_sum(mf_mul(x, weights)); }

TEST(a_donated_array_that_a_program_holds)
{
    MF_SCOPE;
    mf_value x = mf_ones(MF_SHAPE(SIZE), MF_F32);
    mf_function f = mf_jit(weighted);
    weights = mf_add(mf_arange(SIZE, MF_F32), 1);
    CHECK_NEAR(mf_item_f64(mf_call(f, x)), sum, 0);
    mf_value doubled = mf_call(mf_jit(twice, .donate_argnums = MF_INTS(0)), weights);
    CHECK_NEAR(mf_item_f64(mf_sum(doubled)), 2 * sum, 0);
    CHECK(mf_is_deleted(weights));
    CHECK_NEAR(mf_item_f64(mf_call(f, x)), sum, 0);
}

/* A call updates a state's memory in place if nobody reads it: concurrent readers see the value before or after the call. */
static mf_state cell;
static mf_value one_more(mf_value x)
{
    mf_state_set_value(cell, mf_add(mf_state_value(cell), x));
    return x;
}

static void *step_cell(void *wrong)
{
    mf_function f = mf_jit(one_more);
    for (int i = 0; i < ROUNDS; i++) {
        MF_SCOPE;
        mf_value e = mf_call(f, 1);
        if (mf_is_error(e))
            *(_Atomic bool *)wrong = true;
    }
    return NULL;
}

static void *look_at_cell(void *wrong)
{
    double last = 0;
    for (int i = 0; i < ROUNDS; i++) {
        MF_SCOPE;
        mf_value v = mf_state_value(cell);
        double low = mf_item_f64(mf_min(v)), high = mf_item_f64(mf_max(v));
        if (!(low == high && low >= last))
            *(_Atomic bool *)wrong = true;
        last = low;
    }
    return NULL;
}

TEST(a_cell_that_a_call_overwrites)
{
    pthread_t readers[READERS], writer;
    _Atomic bool wrong = false;
    cell = mf_hidden_state(mf_zeros(MF_SHAPE(1), MF_F32));
    for (int64_t size = SIZE; size <= 64 * SIZE; size *= 64) { /* on the calling thread, and by the pool */
        mf_state_set_value(cell, mf_zeros(MF_SHAPE(size), MF_F32));
        for (int i = 0; i < READERS; i++)
            pthread_create(&readers[i], NULL, look_at_cell, (void *)&wrong);
        pthread_create(&writer, NULL, step_cell, (void *)&wrong);
        pthread_join(writer, NULL);
        for (int i = 0; i < READERS; i++)
            pthread_join(readers[i], NULL);
        MF_SCOPE;
        CHECK(!wrong);
        CHECK_NEAR(mf_item_f64(mf_max(mf_state_value(cell))), ROUNDS, 0);
    }
}

TEST(any_number_of_handles_is_looked_at_in_one_call)
{
    enum { MANY = 1000 };
    static mf_value kept[MANY];
    MF_SCOPE;
    mf_value sum = mf_f(0);
    for (int i = 0; i < MANY; i++)
        kept[i] = mf_keep(mf_f(i));
    sum = mf_sum(mf_stack(mf_list_n(kept, MANY), 0));
    CHECK_NEAR(mf_item_f64(sum), MANY * (MANY - 1.0) / 2, 0);
    for (int i = 0; i < MANY; i++)
        mf_release(kept[i]);
    CHECK(mf_is_error(mf_add(kept[0], kept[MANY - 1])));
}
