/* The parser on invalid texts, and everything with memory that runs out: errors, never a crash. */
#include "check.h"
#include "passes/passes.h"

static const char *const seeds[] = {
    "program (a: f32[2,3], b: f32[]*) {\n"
    "  c: f32[3] = reduce_sum[axes=(0)] a\n"
    "  d: f32[2,3] = broadcast_in_dim[shape=(2,3), broadcast_dimensions=(1)] c\n"
    "  e: f32[3,2] = transpose[permutation=(1,0)] d\n"
    "  f: f32[2] = slice[start=(0), limit=(2), strides=(1)] c\n"
    "  g: f32[5] = concatenate[axis=0] c f\n"
    "  h: f32[3] = add c {1.0, nan, -inf}:f32[3]\n"
    "  i: f32[6] = reshape[shape=(6)] a\n"
    "  j: f32[7] = pad[low=(1), high=(0), interior=(0)] i 0.0:f32[]\n"
    "  return e, g, h, b, j\n}\n",
    "program (a: f32[8,4], b: f32[]) {\n"
    "  c: f32[8,4] = pmap[axis_name=i, axis_size=8, in_axes=(0,None), out_axes=(0), name=f, program=(a: f32[4], b: f32[]) {\n"
    "    c: f32[4] = psum[axes=(i), groups=(), group_size=0] a\n"
    "    d: f32[] = jit[name=\"g \\x41\", program=(a: f32[]) {\n"
    "      b: f32[] = mul a 2.5e-3:f32[]\n"
    "      return b\n    }] b\n"
    "    e: f32[4] = ppermute[axes=(i), perm=(0,1,1,0)] c\n"
    "    f: f32[8,4] = all_gather[axes=(i), axis=0, tiled=false] c\n"
    "    return e\n  }] a b\n  return c\n}\n",
    "program (a: i32[], b: f32[]) {\n"
    "  c: f32[] = cond[branches=[(a: f32[]) {\n    return a\n  }, (a: f32[]) {\n    b: f32[] = neg a\n    return b\n  }]] a b\n"
    "  return c\n}\n",
};
enum { SEEDS = sizeof seeds / sizeof seeds[0] };

static uint64_t next_random(uint64_t *state)
{
    *state ^= *state << 13;
    *state ^= *state >> 7;
    *state ^= *state << 17;
    return *state;
}

/* Changes, doubles, removes or copies a few bytes. */
static void mutate(char *text, size_t room, uint64_t *state)
{
    static const char alphabet[] = "abcijf0123456789()[]{}=:,.-*\n \"\\#e";
    for (int k = 0, n = 1 + (int)(next_random(state) % 3); k < n; k++) {
        size_t length = strlen(text), at = next_random(state) % (length + 1), piece = 1 + next_random(state) % 12;
        if (at + piece > length)
            piece = length - at;
        switch (next_random(state) % 4) {
        case 0: text[at] = at < length ? alphabet[next_random(state) % (sizeof alphabet - 1)] : 0; break;
        case 1: memmove(text + at, text + at + piece, length - at - piece + 1); break;
        case 2:
            if (length + piece + 1 < room)
                memmove(text + at + piece, text + at, length - at + 1);
            break;
        default: memmove(text + at, text + next_random(state) % (length - piece + 1), piece); break;
        }
    }
}

static void forget(mf_error_object *e)
{
    mf_error_handle(e);
    mf_drop(e);
}

TEST(mutated_texts_give_programs_or_errors)
{
    static char text[4096];
    uint64_t state = 88172645463325252u;
    const char *rounds = getenv("MF_FUZZ_ROUNDS");
    int programs = 0, count = rounds ? atoi(rounds) : 20000;
    for (int i = 0; i < count; i++) {
        snprintf(text, sizeof text, "%s", seeds[i % SEEDS]);
        mutate(text, sizeof text, &state);
        mf_error_object *error = NULL;
        mf_program *p = mf_program_parse(text, NULL, &error);
        CHECK(!p != !error);
        if (error) {
            if (!CHECK(!strncmp(error->message, "line ", 5)))
                CHECK_NOTE("%s", error->message);
            forget(error);
            continue;
        }
        programs++;
        error = mf_program_verify(p, NULL);
        if (!CHECK(!error))
            CHECK_NOTE("%s\n%s", error->message, text);
        if (error)
            forget(error);
        mf_drop(p);
    }
    CHECK(programs > 0);
}

TEST(nesting_is_bounded)
{
    mf_text t = { 0 };
    mf_error_object *error = NULL;
    mf_text_put(&t, "program () {");
    for (int i = 0; i < 10000; i++)
        mf_text_put(&t, "() = jit[program=() {");
    CHECK(!mf_program_parse(t.at, NULL, &error));
    REQUIRE(error);
    CHECK_CONTAINS(error->message, "deep");
    forget(error);
    mf_text_free(&t);
}

/* Every allocation fails once, one after the other; without fault injection this runs once only. */
TEST(out_of_memory_is_an_error)
{
    for (int s = 0; s < SEEDS; s++)
        for (int n = 1; n < 5000; n++) {
            mf_error_object *error = NULL;
            mf_alloc_fail_after(n);
            mf_program *p = mf_program_parse(seeds[s], NULL, &error);
            mf_program *q = p ? mf_optimize(p, NULL, &error) : NULL;
            mf_alloc_fail_after(0);
            mf_drop(p);
            bool done = q;
            CHECK(!q == !!error);
            if (error) {
                if (!CHECK_EQ_INT(error->status, MF_ERROR_MEMORY))
                    CHECK_NOTE("seed %d, allocation %d: %s", s, n, error->message);
                forget(error);
            }
            mf_drop(q);
            if (done)
                break;
        }
}
