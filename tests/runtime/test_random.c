/* Random bodies of maps, compared with a small interpreter: scheduling together, computing once, awaiting, and writing directly to a result
 * must not change a bit. Every body runs with inputs held once and not, on the calling thread and on the pool. */
#include "check.h"
#include "run_text.h"

#define WIDTH   8
#define MOST    24
#define DEVICES 6

static uint64_t state;

static int pick(int n)
{
    state = state * 6364136223846793005u + 1442695040888963407u;
    return (int)((state >> 33) % (uint64_t)n);
}

typedef float value[DEVICES][WIDTH];
static value values[MOST];

static float tree(value v, int how, int from, int n, int k)
{
    if (n == 1)
        return v[from][k];
    int part = 1;
    while (2 * part < n)
        part *= 2;
    float a = tree(v, how, from, part, k), b = tree(v, how, from + part, n - part, k);
    return how == 0 ? a + b : a > b ? a : b;
}

/* Adds an equation: its text, and its value on every device. */
static int add_equation(char *text, size_t room, int at)
{
    int a = pick(at), b = pick(at), how = pick(9);
    static const char *const binary[] = { "add", "sub", "max", "min" };
    const char *name = "abcdefghijklmnopqrstuvwxyz";
    value *r = &values[at];
    for (int d = 0; d < DEVICES; d++)
        for (int k = 0; k < WIDTH; k++) {
            float x = values[a][d][k], y = values[b][d][k];
            (*r)[d][k] = how == 0   ? x + y
                         : how == 1 ? x - y
                         : how == 2 ? fmaxf(x, y)
                         : how == 3 ? fminf(x, y)
                         : how == 4 ? x * 0.125f
                         : how == 5 ? tree(values[a], 0, 0, DEVICES, k)
                         : how == 6 ? tree(values[a], 1, 0, DEVICES, k)
                         : how == 7 ? values[a][(d + DEVICES - 1) % DEVICES][k]
                                    : tree(values[a], 0, d / 2 * 2, 2, k);
        }
    switch (how) {
    case 4:
        return snprintf(text, room, "%c: f32[8] = mul %c {0.125, 0.125, 0.125, 0.125, 0.125, 0.125, 0.125, 0.125}:f32[8]\n", name[at],
                        name[a]);
    case 5: return snprintf(text, room, "%c: f32[8] = psum[axes=(i)] %c\n", name[at], name[a]);
    case 6: return snprintf(text, room, "%c: f32[8] = pmax[axes=(i)] %c\n", name[at], name[a]);
    case 7: return snprintf(text, room, "%c: f32[8] = ppermute[axes=(i), perm=(0,1,1,2,2,3,3,4,4,5,5,0)] %c\n", name[at], name[a]);
    case 8: return snprintf(text, room, "%c: f32[8] = psum[axes=(i), groups=(0,1,2,3,4,5), group_size=2] %c\n", name[at], name[a]);
    default: return snprintf(text, room, "%c: f32[8] = %s %c %c\n", name[at], binary[how], name[a], name[b]);
    }
}

static mf_array *full_copy(mf_array *a)
{
    mf_array *copy = mf_array_new(a->type);
    mf_copy_strided(a->type->rank, a->type->dims, 4, mf_array_data(copy), copy->strides, mf_array_data(a), a->strides);
    return copy;
}

static void one_body(int round)
{
    static char text[8192];
    int count = 3 + pick(MOST - 3), out[3];
    size_t at = (size_t)snprintf(
        text, sizeof text,
        "program (p: f32[6,8], q: f32[8], r: f32[6,8]) { x: f32[6,8], y: f32[6,8], z: f32[6,8] = pmap[axis_name=i, axis_size=6,"
        " in_axes=(0,None,0), out_axes=(0,0,0), program=(a: f32[8], b: f32[8], c: f32[8]) {\n");
    for (int d = 0; d < DEVICES; d++)
        for (int k = 0; k < WIDTH; k++) {
            values[0][d][k] = (float)(d * WIDTH + k);
            values[1][d][k] = (float)k + 0.5f;
            values[2][d][k] = (float)k - 3;
        }
    for (int e = 3; e < count; e++)
        at += (size_t)add_equation(text + at, sizeof text - at, e);
    for (int o = 0; o < 3; o++)
        out[o] = pick(count);
    snprintf(text + at, sizeof text - at, "return %c, %c, %c }] p q r\n return x, y, z }", 'a' + out[0], 'a' + out[1], 'a' + out[2]);
    mf_error_object *error = NULL;
    bool donated[3] = { true, false, true };
    mf_executable *x = executable_of(text, donated, &error);
    if (!CHECK(x)) {
        CHECK_NOTE("%s\n%s", mf_error_text(error), text);
        return;
    }
    for (int way = 0; way < 8; way++) {
        mf_array *once = held_once("f32[6,8]", -3),
                 *in[3] = { counting("f32[6,8]", 0), counting("f32[8]", 0.5), way & 1 ? mf_retain(once) : full_copy(once) };
        mf_array *view = way & 4 ? mf_array_view(in[0], in[0]->type, 0, in[0]->strides, in[0]->sharding) : NULL, *results[3];
        mf_executable_inline_below(way & 2 ? 0 : 1e12);
        bool ok = CHECK(start(x, in, results)) || CHECK_NOTE("%s", run_error);
        for (int o = 0; o < 3 && ok; o++) {
            double got[DEVICES * WIDTH];
            ok = CHECK(read_array(results[o], got, DEVICES * WIDTH)) || CHECK_NOTE("%s", run_error);
            for (int k = 0; k < DEVICES * WIDTH && ok; k++)
                ok = CHECK((float)got[k] == values[out[o]][k / WIDTH][k % WIDTH]) ||
                     CHECK_NOTE("round %d, way %d, result %d, element %d: %g, expected %g\n%s", round, way, o, k, got[k],
                                (double)values[out[o]][k / WIDTH][k % WIDTH], text);
        }
        drop_all(results, 3);
        drop_all(in, 3);
        mf_drop(once);
        mf_drop(view);
    }
    mf_executable_inline_below(200000);
    mf_drop(x);
}

TEST(random_bodies)
{
    state = 1;
    for (int round = 0; round < 400 && !check_failures; round++)
        one_body(round);
}
