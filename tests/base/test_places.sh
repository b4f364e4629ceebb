#!/usr/bin/env bash
# Errors name the user's line, also if the library's function calls other public functions, and if the compiler turned the call into a jump; with
# the shared library and with the archive.
set -euo pipefail
command -v addr2line >/dev/null || { echo "SKIP: there is no addr2line"; exit 0; }
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cat > "$work/places.c" <<'C'
#include <manyfold.h>
#include <stdio.h>
#include <string.h>

static int failures;

static void expect(mf_value v, int line)
{
    char wanted[32];
    snprintf(wanted, sizeof wanted, "places.c:%d", line);
    const char *place = mf_error_place(v);
    if (mf_is_error(v) && place && strstr(place, wanted))
        return;
    printf("expected %s, not %s (%s)\n", wanted, place ? place : "no place", mf_error(v));
    failures++;
}

static mf_value first(mf_loader *l)
{
    mf_value batch;
    mf_loader_next(l, &batch);
    return batch;
}

static mf_value by_layer(mf_module self, mf_value x)
{
    return mf_call(mf_member_module(self, "layer"), x);
}
enum { LAYER = __LINE__ - 2 };
static mf_value loss(mf_value x)
{
    return mf_sum(mf_random_normal(x, MF_SHAPE(3), MF_F32));
}
enum { LOSS = __LINE__ - 2 };

static mf_value branches(mf_value x)
{
    return mf_item_bool(mf_any(x)) ? x : mf_neg(x);
}
enum { BRANCH = __LINE__ - 2 };

enum { BAD = __LINE__ + 4, JUMPS = __LINE__ + 6, INSIDE = __LINE__ + 10 };

static mf_value bad(mf_value x)
{
    return mf_mean(x, .axis = 7);
}
static mf_value jumps(mf_value x) { return mf_add(x, mf_ones(MF_SHAPE(3), MF_F32)); }

static mf_value inside(mf_value x)
{
    mf_value y = mf_mean(x, .axis = 9);
    return mf_tuple(y, y);
}

/* Each line that draws numbers is in the profile of a program that draws them on two lines. */
static mf_value draws(mf_value key)
{
    mf_value one = mf_random_normal(key, MF_SHAPE(100000), MF_F32);
    mf_value two = mf_random_normal(mf_random_fold_in(key, 1), MF_SHAPE(100000), MF_F32);
    return mf_add(one, two);
}
enum { DRAWS = __LINE__ - 4 };

/* Outside of a program the numbers' own is compiled once; each line that runs it is in the profile of its run, and none that did before. */
static void draw(mf_value key)
{
    mf_block_until_ready(mf_random_normal(key, MF_SHAPE(70000), MF_F32));
}
static void draw_later(mf_value key)
{
    mf_block_until_ready(mf_random_normal(mf_random_fold_in(key, 2), MF_SHAPE(70000), MF_F32));
}
enum { LATER = __LINE__ - 2, BEFORE = __LINE__ - 6 };

static void expect_slice(char *text, int line, bool there)
{
    char wanted[32];
    bool found = false;
    snprintf(wanted, sizeof wanted, "places.c:%d\"", line);
    for (char *at = strstr(text, wanted); at; at = strstr(at + 1, wanted)) {
        char *begin = at;
        while (begin > text && *begin != '\n')
            begin--;
        char *kind = strstr(begin, "\"cat\":\"device\"");
        found |= kind && kind < at;
    }
    if (found == there)
        return;
    printf("%s device's slice should name %s\n", there ? "a" : "no", wanted);
    failures++;
}

static void profile(void)
{
    draw(mf_random_key(1));
    mf_profiler_start_trace(MF_PROFILE_FILE);
    mf_block_until_ready(mf_call(mf_jit(draws), mf_random_key(1)));
    draw_later(mf_random_key(1));
    mf_profiler_stop_trace();
    static char text[1 << 20];
    FILE *f = fopen(MF_PROFILE_FILE, "r");
    if (!f)
        return;
    text[fread(text, 1, sizeof text - 1, f)] = 0;
    fclose(f);
    expect_slice(text, LATER, true);
    expect_slice(text, BEFORE, false);
    for (int line = DRAWS; line < DRAWS + 2; line++) {
        char wanted[32];
        snprintf(wanted, sizeof wanted, "places.c:%d", line);
        if (!strstr(text, wanted)) {
            printf("the profile does not name %s\n", wanted);
            failures++;
        }
    }
}

int main(void)
{
    mf_value x = mf_ones(MF_SHAPE(2, 2), MF_F32);
    expect(mf_mean(x, .axis = 5), __LINE__);
    expect(mf_sum(x, .axis = 5), __LINE__);
    expect(mf_call(mf_jit(inside), x), INSIDE);
    expect(mf_call(mf_jit(jumps), x), JUMPS);
    expect(mf_call(mf_jit(bad), x), BAD);
    expect(mf_shard_batch(mf_ones(MF_SHAPE(10, 3), MF_F32), 8), __LINE__);
    expect(mf_random_normal(x, MF_SHAPE(3), MF_F32), __LINE__);
    expect(mf_random_uniform(mf_random_key(0), MF_SHAPE(3), MF_I32), __LINE__);
    expect(mf_random_split(x, 3), __LINE__);
    expect(mf_call(mf_grad(loss), x), LOSS);
    expect(mf_tree_map(bad, x), BAD);
    expect(mf_tree_map(mf_add, x, mf_ones(MF_SHAPE(3), MF_F32)), __LINE__);
    mf_module layer = mf_nn_linear(mf_random_state(0), 3, 2), net = mf_module_new("Net", by_layer, "layer", layer);
    expect(mf_call(layer, x), __LINE__);
    expect(mf_call(net, x), LAYER);
    expect(mf_call(mf_jit(net), x), LAYER);
    mf_loader *none = mf_loader_open(mf_f(3), .batch_size = 2); expect(first(none), __LINE__);
    mf_loader_close(none);
    expect(mf_load_npy("/no/such/file"), __LINE__);
    expect(mf_softmax_cross_entropy_with_integer_labels(x, mf_ones(MF_SHAPE(7), MF_I32)), __LINE__);
    expect(mf_einsum("ij,jk->il", x, x), __LINE__);
    expect(mf_call(mf_jit(branches), x), BRANCH);
    profile();
    return failures != 0;
}
C
sanitize=${MF_SANITIZE:+-fsanitize=$MF_SANITIZE}
for level in -O0 -O2; do
    "$MF_CC" -std=c11 -g $level $sanitize -I"$MF_SOURCE_DIR/include" -I"$MF_BUILD_DIR/include" -DMF_PROFILE_FILE="\"$work/profile.json\"" "$work/places.c" -o "$work/shared" "$MF_BUILD_DIR/libmanyfold.so" -Wl,-rpath,"$MF_BUILD_DIR"
    "$work/shared" || { echo "failed: shared, $level"; exit 1; }
    "$MF_CC" -std=c11 -g $level $sanitize -I"$MF_SOURCE_DIR/include" -I"$MF_BUILD_DIR/include" -DMF_PROFILE_FILE="\"$work/profile.json\"" "$work/places.c" -o "$work/static" "$MF_BUILD_DIR/libmanyfold.a" -lz -lzip -lm -ldl -pthread
    "$work/static" || { echo "failed: static, $level"; exit 1; }
done
