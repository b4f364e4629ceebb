/* Rebuilds the inputs of sequences.py and reads its answers, sequences.txt. */
#ifndef MANYFOLD_TESTS_ORACLE_SEQUENCES_H
#define MANYFOLD_TESTS_ORACLE_SEQUENCES_H

#include "check.h"
#include "oracle/cnn_inputs.h"

#include <manyfold.h>

#include <string.h>

/* Uniform numbers in [-scale, scale), from this seed. */
__attribute__((unused)) static mf_value fill(uint32_t seed, mf_shape shape, double scale)
{
    static double numbers[8192];
    int count = 1;
    for (int i = 0; i < shape.rank; i++)
        count *= (int)shape.dims[i];
    for (int i = 0; i < count; i++)
        numbers[i] = ((int32_t)cnn_draw(&seed) - (1 << 23)) * (1.0 / (1 << 23)) * scale;
    return mf_array_n(MF_F32, shape, numbers, count);
}

/* The parameters of a module, with each leaf filled. */
__attribute__((unused)) static mf_value filled_parameters(mf_module m)
{
    mf_value values = mf_module_values(m, mf_of_type(MF_PARAM_STATE)), leaves = mf_tree_leaves(values), filled[128];
    int count = mf_len(leaves);
    for (int i = 0; i < count && i < 128; i++)
        filled[i] = fill(1000 + (uint32_t)i, mf_shape_of(mf_get(leaves, i)), 0.5);
    return mf_tree_unflatten(values, mf_list_n(filled, count));
}

/* The scalar that is differentiated: the sum over a tree of each leaf times its own fill. */
__attribute__((unused)) static mf_value weighted_sum(mf_value tree)
{
    mf_value leaves = mf_tree_leaves(tree), sum = mf_f(0);
    for (int i = 0; i < mf_len(leaves); i++)
        sum = mf_add(sum, mf_sum(mf_mul(mf_get(leaves, i), fill(900, mf_shape_of(mf_get(leaves, i)), 1))));
    return sum;
}

/* A line "<word> f32 <dims> <values...>" as an array. */
__attribute__((unused)) static mf_value array_of_line(char *line)
{
    static double numbers[8192];
    char *rest = NULL;
    mf_shape shape = { .rank = 0 };
    int count = 0;
    strtok_r(line, " ", &rest);
    const char *dtype = strtok_r(NULL, " ", &rest), *dims = strtok_r(NULL, " ", &rest);
    for (const char *at = dims; at && *at != '-' && shape.rank < MF_MAX_RANK;) {
        char *end = NULL;
        shape.dims[shape.rank++] = strtol(at, &end, 10);
        at = *end == ',' ? end + 1 : NULL;
    }
    for (const char *number; count < 8192 && (number = strtok_r(NULL, " \n", &rest)); count++)
        numbers[count] = strtod(number, NULL);
    return mf_array_n(dtype && strcmp(dtype, "i32") == 0 ? MF_I32 : MF_F32, shape, numbers, count);
}

/* The array named `word` in the case `name` of a file of answers; unset if there is none. */
__attribute__((unused)) static mf_value answer_in(const char *path, const char *name, const char *word)
{
    static char line[1 << 17];
    char head[160];
    bool inside = false;
    mf_value found = { 0 };
    FILE *f = fopen(path, "r");
    snprintf(head, sizeof head, "case %s\n", name);
    while (f && !found.handle && fgets(line, sizeof line, f)) {
        if (strncmp(line, "case ", 5) == 0)
            inside = strcmp(line, head) == 0;
        else if (inside && strncmp(line, word, strlen(word)) == 0 && line[strlen(word)] == ' ')
            found = array_of_line(line);
    }
    if (f)
        fclose(f);
    return found;
}

/* Whether x equals JAX's answer: its shape, and every element within tolerance * max(1, the largest element). */
__attribute__((unused)) static bool is_answer(const char *path, const char *name, const char *word, mf_value x, double tolerance)
{
    MF_SCOPE;
    mf_value wanted = answer_in(path, name, word);
    const char *error = mf_error(x);
    if (!CHECK(wanted.handle != 0) || !CHECK_STR(error, NULL) || !CHECK_STR(mf_str(mf_shape_of(x)), mf_str(mf_shape_of(wanted))))
        return check_note_("%s, %s", name, word);
    double most = fmax(1, mf_item_f64(mf_max(mf_abs(wanted)))), off = mf_item_f64(mf_max(mf_abs(mf_sub(x, wanted))));
    return CHECK(off <= tolerance * most) || check_note_("%s, %s: off by %g of %g", name, word, off, most);
}

#endif
