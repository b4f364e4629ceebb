/* The summary table of a model: its contents, and that shared states are counted once. */
#include "check.h"

#include <manyfold.h>

#include <unistd.h>

static mf_value through(mf_module self, mf_value x)
{
    x = mf_call(mf_member_module(self, "linear"), x);
    return mf_call(mf_member_module(self, "dropout"), mf_call(mf_member_module(self, "bn"), x));
}

static mf_module block(mf_state r)
{
    return mf_module_new("Block", through, "linear", mf_nn_linear(r, 32, 32), "bn", mf_nn_batch_norm(r, 32), "dropout",
                         mf_nn_dropout(r, 0.1));
}

TEST(a_model_is_a_table)
{
    MF_SCOPE;
    mf_state r = mf_random_state(0);
    mf_module model = mf_nn_sequential(block(r), mf_relu, mf_nn_linear(r, 32, 2, .no_bias = true, .param_dtype = MF_BF16));
    static const char *const lines[] = {
        "Sequential Summary",
        "┏━━━━━━━━━━━━━━━━━━┳━━━━━━━━━━━━┳━━━━━━━━━━━━━━━━━━━┳━━━━━━━━━━━━━━━━━━━━━━━━┳━━━━━━━━━━━━━━━━━┓",
        "┃ path             ┃ type       ┃ BatchState        ┃ ParamState             ┃ RandomState     ┃",
        "┡━━━━━━━━━━━━━━━━━━╇━━━━━━━━━━━━╇━━━━━━━━━━━━━━━━━━━╇━━━━━━━━━━━━━━━━━━━━━━━━╇━━━━━━━━━━━━━━━━━┩",
        "│                  │ Sequential │ 64 (256 B)        │ 1,184 (4.6 KB)         │ 2 (8 B)         │",
        "├──────────────────┼────────────┼───────────────────┼────────────────────────┼─────────────────┤",
        "│ layers/0         │ Block      │ 64 (256 B)        │ 1,120 (4.5 KB)         │ 2 (8 B)         │",
        "├──────────────────┼────────────┼───────────────────┼────────────────────────┼─────────────────┤",
        "│ layers/0/linear  │ Linear     │                   │ kernel: float32[32,32] │                 │",
        "│                  │            │                   │ bias: float32[32]      │                 │",
        "│                  │            │                   │                        │                 │",
        "│                  │            │                   │ 1,056 (4.2 KB)         │                 │",
        "├──────────────────┼────────────┼───────────────────┼────────────────────────┼─────────────────┤",
        "│ layers/0/bn      │ BatchNorm  │ mean: float32[32] │ scale: float32[32]     │                 │",
        "│                  │            │ var: float32[32]  │ bias: float32[32]      │                 │",
        "│                  │            │                   │                        │                 │",
        "│                  │            │ 64 (256 B)        │ 64 (256 B)             │                 │",
        "├──────────────────┼────────────┼───────────────────┼────────────────────────┼─────────────────┤",
        "│ layers/0/dropout │ Dropout    │                   │                        │ rngs: uint32[2] │",
        "│                  │            │                   │                        │                 │",
        "│                  │            │                   │                        │ 2 (8 B)         │",
        "├──────────────────┼────────────┼───────────────────┼────────────────────────┼─────────────────┤",
        "│ layers/2         │ Linear     │                   │ kernel: bfloat16[32,2] │                 │",
        "│                  │            │                   │                        │                 │",
        "│                  │            │                   │ 64 (128 B)             │                 │",
        "├──────────────────┼────────────┼───────────────────┼────────────────────────┼─────────────────┤",
        "│                  │ Total      │ 64 (256 B)        │ 1,184 (4.6 KB)         │ 2 (8 B)         │",
        "└──────────────────┴────────────┴───────────────────┴────────────────────────┴─────────────────┘",
        "Total Parameters: 1,250 (4.9 KB)",
    };
    const char *at = mf_nn_tabulate(model);
    for (size_t i = 0; i < sizeof lines / sizeof *lines; i++) {
        size_t length = strcspn(at, "\n");
        if (!CHECK(length == strlen(lines[i]) && memcmp(at, lines[i], length) == 0))
            CHECK_NOTE("line %zu is\n%.*s, not\n%s", i, (int)length, at, lines[i]);
        at += length + (at[length] == '\n');
    }
    CHECK_STR(at, "");
}

static mf_value nothing(mf_module self, mf_value x) { return (void)self, x; }

TEST(what_is_shared_counts_once)
{
    MF_SCOPE;
    mf_module linear = mf_nn_linear(mf_random_state(0), 1000, 1001), twice = mf_module_new("Twice", nothing, "a", linear, "b", linear);
    CHECK(strstr(mf_nn_tabulate(twice), "Total Parameters: 1,002,001 (4.0 MB)"));
    CHECK(strstr(mf_nn_tabulate(mf_nn_average(NULL)), "sums: 2 arrays"));
    CHECK(strstr(mf_nn_tabulate(mf_module_new("None", nothing, "k", 1)), "Total Parameters: 0 (0 B)"));
    CHECK(strstr(mf_nn_tabulate((mf_module){ mf_make_error(MF_ERROR_IO, "no model").handle }), "no model"));
}

/* Captures what mf_print writes for the model. */
static void printed(char *out, size_t size, mf_module model)
{
    FILE *file = tmpfile();
    int old = dup(STDOUT_FILENO);
    out[0] = 0;
    if (CHECK(file != NULL && old >= 0)) {
        fflush(stdout);
        dup2(fileno(file), STDOUT_FILENO);
        mf_print(model);
        fflush(stdout);
        dup2(old, STDOUT_FILENO);
        rewind(file);
        out[fread(out, 1, size - 1, file)] = 0;
        close(old);
        fclose(file);
    }
}

TEST(printing_a_model_shows_the_table)
{
    MF_SCOPE;
    static char text[1 << 14];
    mf_module model = block(mf_random_state(0));
    const char *table = mf_nn_tabulate(model);
    printed(text, sizeof text, model);
    CHECK(strlen(text) == strlen(table) + 1 && memcmp(text, table, strlen(table)) == 0 && text[strlen(table)] == '\n');
    CHECK_CONTAINS(mf_str(model), "Block("); /* its text shows its members */
    printed(text, sizeof text, (mf_module){ mf_make_error(MF_ERROR_IO, "no model").handle });
    CHECK_CONTAINS(text, "no model");
}
