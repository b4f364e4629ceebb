/* Parses and validates the header of a safetensors file. Invariant: in an accepted header every name occurs once, every byte behind the
 * header belongs to exactly one tensor, and the size of a tensor follows from its dtype and shape; an error names the file and the
 * offset. */
#include "io/safetensors_header.h"

#include "io/json.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* In the order of the reference library, which writes tensors of later dtypes first. */
static const st_dtype dtypes[] = {
    { "BOOL", MF_BOOL, 1 }, { "U8", MF_U8, 1 },     { "I8", MF_I8, 1 },   { "I16", MF_I16, 2 }, { "U16", MF_U16, 2 },
    { "F16", MF_F16, 2 },   { "BF16", MF_BF16, 2 }, { "I32", MF_I32, 4 }, { "U32", MF_U32, 4 }, { "F32", MF_F32, 4 },
    { "C64", MF_C64, 8 },   { "F64", MF_F64, 8 },   { "I64", MF_I64, 8 }, { "U64", MF_U64, 8 },
};
enum { DTYPES = sizeof dtypes / sizeof *dtypes };

const st_dtype *st_dtype_of(mf_dtype dtype)
{
    for (int i = 0; i < DTYPES; i++)
        if (dtypes[i].dtype == dtype)
            return &dtypes[i];
    return NULL;
}

mf_value st_damaged(const st_file *f, size_t at, const char *expected)
{
    return mf_make_error(MF_ERROR_IO, "%s: at byte %zu: expected %s", f->path, at, expected);
}

mf_value st_out_of_memory(const char *path) { return mf_make_error(MF_ERROR_MEMORY, "%s: out of memory", path); }

/* ---- the parser, whose offsets count from the beginning of the JSON */

static mf_value at_reader(const st_file *f, const mf_json *j) { return st_damaged(f, ST_LENGTH + j->at, j->expected); }

static bool read_dtype(mf_json *j, st_tensor *t)
{
    size_t at = j->at, length;
    char *name = mf_json_string(j, &length);
    for (int i = 0; name && i < DTYPES; i++)
        if (strcmp(dtypes[i].name, name) == 0)
            t->dtype = &dtypes[i];
    free(name);
    return name && (t->dtype || mf_json_wrong(j, at, "a dtype of BOOL, U8 to U64, I8 to I64, F16, BF16, F32, F64 or C64"));
}

static bool read_shape(mf_json *j, st_tensor *t)
{
    uint64_t d;
    if (!mf_json_take(j, '[', "a list of sizes"))
        return false;
    for (bool first = true; mf_json_more(j, ']', &first);) {
        (void)mf_json_peek(j);
        size_t at = j->at;
        if (!mf_json_whole(j, &d))
            return false;
        if (t->shape.rank == MF_MAX_RANK || d > INT64_MAX)
            return mf_json_wrong(j, at, "at most 8 sizes below 2^63");
        t->shape.dims[t->shape.rank++] = (int64_t)d;
    }
    return !j->expected;
}

static bool read_offsets(mf_json *j, st_tensor *t)
{
    return mf_json_take(j, '[', "a list of two offsets") && mf_json_whole(j, &t->begin) &&
           mf_json_take(j, ',', "a comma and the end's offset") && mf_json_whole(j, &t->end) &&
           mf_json_take(j, ']', "the end of the list of two offsets");
}

/* {"dtype": ..., "shape": ..., "data_offsets": ...}, in any order, each once. Other members are ignored. */
static bool read_tensor(mf_json *j, st_tensor *t)
{
    static const char *const keys[] = { "dtype", "shape", "data_offsets" };
    static bool (*const readers[])(mf_json *, st_tensor *) = { read_dtype, read_shape, read_offsets };
    unsigned seen = 0;
    if (!mf_json_take(j, '{', "an object that tells of a tensor"))
        return false;
    for (bool first = true; mf_json_more(j, '}', &first);) {
        (void)mf_json_peek(j);
        size_t at = j->at, length;
        char *key = mf_json_string(j, &length);
        int which = 0;
        while (key && which < 3 && strcmp(keys[which], key) != 0)
            which++;
        free(key);
        if (!key || !mf_json_take(j, ':', "a colon"))
            return false;
        if (which < 3 && (seen >> which & 1))
            return mf_json_wrong(j, at, "each of dtype, shape and data_offsets once");
        seen |= 1u << which;
        (void)mf_json_peek(j);
        if (which < 3 ? !readers[which](j, t) : !mf_json_skip(j))
            return false;
    }
    return j->expected ? false : (seen & 7) == 7 || mf_json_wrong(j, j->at, "dtype, shape and data_offsets before the end of the object");
}

/* A dict of strings, or null. */
static mf_value read_metadata(const st_file *f, mf_json *j)
{
    mf_value *pairs = NULL, made = { 0 };
    size_t count = 0, capacity = 0, length;
    if (mf_json_peek(j) == 'n' && mf_json_skip(j))
        return made;
    bool first = true;
    (void)mf_json_take(j, '{', "an object of strings");
    while (mf_json_more(j, '}', &first)) {
        if (count + 2 > capacity) {
            mf_value *wider = realloc(pairs, (capacity = capacity ? capacity * 2 : 16) * sizeof *pairs);
            if (!wider) {
                free(pairs);
                return st_out_of_memory(f->path);
            }
            pairs = wider;
        }
        (void)mf_json_peek(j);
        char *key = mf_json_string(j, &length);
        bool colon = key && mf_json_take(j, ':', "a colon");
        (void)mf_json_peek(j);
        char *text = colon ? mf_json_string(j, &length) : NULL;
        if (text) {
            pairs[count++] = mf_string(key);
            pairs[count++] = mf_string(text);
        }
        free(key);
        free(text);
    }
    made = j->expected ? at_reader(f, j) : mf_dict_n(pairs, (int)count);
    if (!j->expected && mf_error(made)) /* handled: replaced by an error that names the file */
        made = st_damaged(f, ST_LENGTH + j->at, "each key of __metadata__ once");
    free(pairs);
    return made;
}

/* The size that follows from the tensor's dtype and shape; false if it exceeds 2^63 - 1. */
static bool bytes_of(const st_tensor *t, uint64_t *out)
{
    uint64_t reach = (uint64_t)t->dtype->size; /* the product without zeros: a size of 0 must not hide absurd ones */
    *out = reach;
    for (int i = 0; i < t->shape.rank; i++) {
        uint64_t d = (uint64_t)t->shape.dims[i];
        if (d && reach > INT64_MAX / d)
            return false;
        reach *= d ? d : 1;
        *out *= d;
    }
    return true;
}

static bool add_tensor(st_file *f, mf_json *j, char *name, size_t length, size_t at)
{
    st_tensor t = { .name = name, .at = at };
    uint64_t bytes;
    if (strlen(name) != length)
        return mf_json_wrong(j, at, "a name without zeros");
    (void)mf_json_peek(j);
    if (!read_tensor(j, &t))
        return false;
    if (t.begin > t.end || t.end > f->size - f->data)
        return mf_json_wrong(j, at, "a tensor whose bytes begin, and end, before the end of the file");
    if (!bytes_of(&t, &bytes) || bytes != t.end - t.begin)
        return mf_json_wrong(j, at, "a tensor with as many bytes as its dtype and shape make");
    if (f->count == f->capacity) {
        size_t capacity = f->capacity ? f->capacity * 2 : 64;
        st_tensor *more = realloc(f->tensors, capacity * sizeof *more);
        if (!more)
            return mf_json_wrong(j, at, "memory for a tensor");
        f->tensors = more;
        f->capacity = capacity;
    }
    f->tensors[f->count++] = t;
    return true;
}

static bool read_member(st_file *f, mf_json *j, bool *had_metadata)
{
    (void)mf_json_peek(j);
    size_t at = j->at, length;
    char *name = mf_json_string(j, &length);
    if (!name || !mf_json_take(j, ':', "a colon")) {
        free(name);
        return false;
    }
    bool metadata = strcmp(name, "__metadata__") == 0;
    if (!metadata && add_tensor(f, j, name, length, at))
        return true;
    if (!metadata) {
        snprintf(f->wrong, sizeof f->wrong, "%.160s (tensor %.128s)", j->expected, name);
        j->expected = f->wrong;
    }
    free(name);
    if (!metadata)
        return false;
    if (*had_metadata)
        return mf_json_wrong(j, at, "__metadata__ once");
    *had_metadata = true;
    (void)mf_json_peek(j);
    f->metadata = read_metadata(f, j);
    return !mf_is_error(f->metadata);
}

static int by_name(const void *a, const void *b) { return strcmp(((const st_tensor *)a)->name, ((const st_tensor *)b)->name); }

static int by_place(const void *a, const void *b)
{
    const st_tensor *x = a, *y = b;
    if (x->begin != y->begin)
        return x->begin < y->begin ? -1 : 1;
    return x->end < y->end ? -1 : x->end > y->end;
}

/* Checks that names are unique and that the tensors cover the bytes behind the header without gaps or overlaps. Returns an error or
 * unset. */
static mf_value check_places(st_file *f)
{
    uint64_t at = 0;
    if (f->count)
        qsort(f->tensors, f->count, sizeof *f->tensors, by_name);
    for (size_t i = 1; i < f->count; i++) {
        const st_tensor *a = &f->tensors[i - 1], *b = &f->tensors[i];
        if (strcmp(a->name, b->name) == 0)
            return st_damaged(f, ST_LENGTH + (a->at > b->at ? a->at : b->at), "each name once");
    }
    if (f->count)
        qsort(f->tensors, f->count, sizeof *f->tensors, by_place);
    for (size_t i = 0; i < f->count; i++) {
        const st_tensor *t = &f->tensors[i];
        if (t->begin != at)
            return mf_make_error(MF_ERROR_IO,
                                 "%s: at byte %zu: expected a tensor at offset %llu, where the one before it ends; %.128s is at %llu: %s",
                                 f->path, ST_LENGTH + t->at, (unsigned long long)at, t->name, (unsigned long long)t->begin,
                                 t->begin > at ? "a hole" : "they overlap");
        at = t->end;
    }
    return at == f->size - f->data ? (mf_value){ 0 }
                                   : st_damaged(f, f->data + (size_t)at, "the end of the file, where the last tensor ends");
}

mf_value st_read_header(st_file *f)
{
    uint64_t length = 0;
    bool had_metadata = false;
    for (size_t i = 0; i < ST_LENGTH && i < f->size; i++)
        length |= (uint64_t)f->bytes[i] << 8 * i;
    if (f->size < ST_LENGTH || length > ST_MOST_HEADER || length > f->size - ST_LENGTH)
        return st_damaged(f, 0, "the length of the header, in 8 bytes: at most 100,000,000, and no more than the file has");
    f->data = ST_LENGTH + (size_t)length;
    mf_json j = { .text = (const char *)f->bytes + ST_LENGTH, .size = (size_t)length };
    bool good = mf_json_take(&j, '{', "the header's opening brace");
    for (bool first = true; good && mf_json_more(&j, '}', &first);)
        good = read_member(f, &j, &had_metadata);
    if (!good || j.expected)
        return mf_is_error(f->metadata) ? f->metadata : at_reader(f, &j);
    (void)mf_json_peek(&j);
    return j.at == j.size ? check_places(f) : st_damaged(f, ST_LENGTH + j.at, "nothing but blanks behind the closing brace");
}

void st_forget(st_file *f)
{
    for (size_t i = 0; i < f->count; i++)
        free(f->tensors[i].name);
    free(f->tensors);
}
