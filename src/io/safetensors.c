/* safetensors: eight bytes that tell the header's length, a header in JSON with name, dtype, shape and place of each tensor, and the tensors'
 * bytes, row by row, little-endian. Files are looked at where they lie (mmap), and only the tensors that are asked for are read.
 * Invariants: nothing of a tensor is touched before the whole header has been found right: every byte behind it belongs to exactly one
 * tensor, of the size that dtype and shape make; every refusal names the file and the offset. What is written is what the format's own
 * library writes of the same arrays, byte by byte. */
#include "io/safetensors.h"

#include "io/json.h"
#include "io/leaves.h"
#include "io/numpy/npy.h"
#include "io/regular.h"
#include "io/replace.h"

#include <manyfold/io.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "tensors are copied as they lie");

#define MOST_HEADER ((uint64_t)100000000) /* the format's own bound */

enum { LENGTH = 8 };

/* In the order of the format's library, in which tensors of the greatest elements come first. */
static const struct st_dtype {
    const char *name;
    mf_dtype dtype;
    int size;
} dtypes[] = {
    { "BOOL", MF_BOOL, 1 }, { "U8", MF_U8, 1 },     { "I8", MF_I8, 1 },   { "I16", MF_I16, 2 }, { "U16", MF_U16, 2 },
    { "F16", MF_F16, 2 },   { "BF16", MF_BF16, 2 }, { "I32", MF_I32, 4 }, { "U32", MF_U32, 4 }, { "F32", MF_F32, 4 },
    { "C64", MF_C64, 8 },   { "F64", MF_F64, 8 },   { "I64", MF_I64, 8 }, { "U64", MF_U64, 8 },
};
enum { DTYPES = sizeof dtypes / sizeof *dtypes };

typedef struct tensor {
    char *name;
    const struct st_dtype *dtype;
    mf_shape shape;
    uint64_t begin, end; /* of its bytes, behind the header */
    size_t at;           /* where the header tells of it */
} tensor;

typedef struct st_file {
    const char *path;
    const unsigned char *bytes;
    size_t size, data; /* data: where the tensors begin */
    tensor *tensors;
    size_t count, room;
    mf_value metadata; /* of all strings, unset: the file has none */
    char wrong[320];   /* what was expected of a tensor, and which */
} st_file;

static mf_value damaged(const st_file *f, size_t at, const char *expected)
{
    return mf_make_error(MF_ERROR_IO, "%s: at byte %zu: expected %s", f->path, at, expected);
}

static mf_value out_of_memory(const char *path) { return mf_make_error(MF_ERROR_MEMORY, "%s: out of memory", path); }

/* ---- the header. Offsets in the reader count from the header's begin. */

static mf_value at_reader(const st_file *f, const mf_json *j) { return damaged(f, LENGTH + j->at, j->expected); }

static bool read_dtype(mf_json *j, tensor *t)
{
    size_t at = j->at, length;
    char *name = mf_json_string(j, &length);
    for (int i = 0; name && i < DTYPES; i++)
        if (strcmp(dtypes[i].name, name) == 0)
            t->dtype = &dtypes[i];
    free(name);
    return name && (t->dtype || mf_json_wrong(j, at, "a dtype of BOOL, U8 to U64, I8 to I64, F16, BF16, F32, F64 or C64"));
}

static bool read_shape(mf_json *j, tensor *t)
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

static bool read_offsets(mf_json *j, tensor *t)
{
    return mf_json_take(j, '[', "a list of two offsets") && mf_json_whole(j, &t->begin) &&
           mf_json_take(j, ',', "a comma and the end's offset") && mf_json_whole(j, &t->end) &&
           mf_json_take(j, ']', "the end of the list of two offsets");
}

/* {"dtype": ..., "shape": ..., "data_offsets": ...}, in any order, each once. Other members are nobody's business. */
static bool read_tensor(mf_json *j, tensor *t)
{
    static const char *const keys[] = { "dtype", "shape", "data_offsets" };
    static bool (*const readers[])(mf_json *, tensor *) = { read_dtype, read_shape, read_offsets };
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
    size_t count = 0, room = 0, length;
    if (mf_json_peek(j) == 'n' && mf_json_skip(j))
        return made;
    bool first = true;
    (void)mf_json_take(j, '{', "an object of strings");
    while (mf_json_more(j, '}', &first)) {
        if (count + 2 > room) {
            mf_value *wider = realloc(pairs, (room = room ? room * 2 : 16) * sizeof *pairs);
            if (!wider) {
                free(pairs);
                return out_of_memory(f->path);
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
    if (!j->expected && mf_error(made)) /* handled: ours is closer to the file */
        made = damaged(f, LENGTH + j->at, "each key of __metadata__ once");
    free(pairs);
    return made;
}

/* What the tensor's bytes should be; false where no file has as many. */
static bool bytes_of(const tensor *t, uint64_t *out)
{
    uint64_t reach = (uint64_t)t->dtype->size; /* a size of zero does not make the others believable */
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
    tensor t = { .name = name, .at = at };
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
    if (f->count == f->room) {
        size_t room = f->room ? f->room * 2 : 64;
        tensor *more = realloc(f->tensors, room * sizeof *more);
        if (!more)
            return mf_json_wrong(j, at, "memory for a tensor");
        f->tensors = more;
        f->room = room;
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

static int by_name(const void *a, const void *b) { return strcmp(((const tensor *)a)->name, ((const tensor *)b)->name); }

static int by_place(const void *a, const void *b)
{
    const tensor *x = a, *y = b;
    if (x->begin != y->begin)
        return x->begin < y->begin ? -1 : 1;
    return x->end < y->end ? -1 : x->end > y->end;
}

/* Each name once; and the tensors cover the bytes behind the header, one behind the other. Error or unset. */
static mf_value check_places(st_file *f)
{
    uint64_t at = 0;
    if (f->count)
        qsort(f->tensors, f->count, sizeof *f->tensors, by_name);
    for (size_t i = 1; i < f->count; i++) {
        const tensor *a = &f->tensors[i - 1], *b = &f->tensors[i];
        if (strcmp(a->name, b->name) == 0)
            return damaged(f, LENGTH + (a->at > b->at ? a->at : b->at), "each name once");
    }
    if (f->count)
        qsort(f->tensors, f->count, sizeof *f->tensors, by_place);
    for (size_t i = 0; i < f->count; i++) {
        const tensor *t = &f->tensors[i];
        if (t->begin != at)
            return mf_make_error(MF_ERROR_IO,
                                 "%s: at byte %zu: expected a tensor at offset %llu, where the one before it ends; %.128s is at %llu: %s",
                                 f->path, LENGTH + t->at, (unsigned long long)at, t->name, (unsigned long long)t->begin,
                                 t->begin > at ? "a hole" : "they overlap");
        at = t->end;
    }
    return at == f->size - f->data ? (mf_value){ 0 } : damaged(f, f->data + (size_t)at, "the end of the file, where the last tensor ends");
}

/* Error or unset. */
static mf_value read_header(st_file *f)
{
    uint64_t length = 0;
    bool had_metadata = false;
    for (size_t i = 0; i < LENGTH && i < f->size; i++)
        length |= (uint64_t)f->bytes[i] << 8 * i;
    if (f->size < LENGTH || length > MOST_HEADER || length > f->size - LENGTH)
        return damaged(f, 0, "the length of the header, in 8 bytes: at most 100,000,000, and no more than the file has");
    f->data = LENGTH + (size_t)length;
    mf_json j = { .text = (const char *)f->bytes + LENGTH, .size = (size_t)length };
    bool good = mf_json_take(&j, '{', "the header's opening brace");
    for (bool first = true; good && mf_json_more(&j, '}', &first);)
        good = read_member(f, &j, &had_metadata);
    if (!good || j.expected)
        return mf_is_error(f->metadata) ? f->metadata : at_reader(f, &j);
    (void)mf_json_peek(&j);
    return j.at == j.size ? check_places(f) : damaged(f, LENGTH + j.at, "nothing but blanks behind the closing brace");
}

static void forget(st_file *f)
{
    for (size_t i = 0; i < f->count; i++)
        free(f->tensors[i].name);
    free(f->tensors);
}

/* ---- reading */

/* The names that are asked for: the leaves of a tree, sorted; all that begin with a prefix. */
typedef struct st_choice {
    const mf_named_leaves *names;
    const char *prefix;
} st_choice;

static int name_against(const void *name, const void *leaf) { return strcmp(name, ((const mf_named_leaf *)leaf)->name); }
static int leaf_against(const void *a, const void *b) { return strcmp(((const mf_named_leaf *)a)->name, ((const mf_named_leaf *)b)->name); }

static bool chosen(const st_choice *c, const char *name)
{
    if (c->names)
        return bsearch(name, c->names->at, (size_t)c->names->count, sizeof *c->names->at, name_against) != NULL;
    return !c->prefix || strncmp(name, c->prefix, strlen(c->prefix)) == 0;
}

static mf_value dict_of(const st_file *f, const st_choice *c)
{
    int count = 0;
    bool other = false;
    mf_value *pairs = f->count < INT32_MAX / 4 ? malloc((f->count * 2 + 1) * sizeof *pairs) : NULL;
    if (!pairs)
        return out_of_memory(f->path);
    for (size_t i = 0; i < f->count; i++) {
        const tensor *t = &f->tensors[i];
        bool wanted = chosen(c, t->name), told = c->names && !other;
        if (!wanted && !told)
            continue;
        other |= !wanted;
        pairs[count++] = mf_string(t->name);
        pairs[count++] = !wanted ? mf_i(0) : mf_from_host(t->dtype->dtype, t->shape, f->bytes + f->data + t->begin);
    }
    mf_value made = mf_dict_n(pairs, count);
    free(pairs);
    return made;
}

/* metadata: the dict of them in place of the tensors. */
static mf_value parse(st_file *f, const st_choice *c, bool metadata)
{
    mf_value made = read_header(f);
    if (!made.handle)
        made = !metadata ? dict_of(f, c) : f->metadata.handle ? f->metadata : mf_dict_n(NULL, 0);
    forget(f);
    return made;
}

mf_value mf_safetensors_parse(const char *path, const unsigned char *bytes, size_t size)
{
    return parse(&(st_file){ .path = path, .bytes = bytes, .size = size }, &(st_choice){ NULL, NULL }, false);
}

static mf_value load(const char *path, const st_choice *c, bool metadata)
{
    mf_mapping m;
    mf_value made = mf_map_regular(path, &m);
    if (made.handle)
        return made;
    st_file f = { .path = path, .bytes = m.bytes, .size = m.size };
    made = m.size ? parse(&f, c, metadata) : damaged(&f, 0, "the length of the header, in 8 bytes; the file is empty");
    mf_unmap(&m);
    return made;
}

mf_value mf_load_safetensors_opt(const char *path, const mf_load_safetensors_options *o)
{
    MF_LAYER;
    MF_SCOPE;
    return mf_escape(load(path, &(st_choice){ .prefix = o ? o->prefix : NULL }, false));
}

mf_value mf_load_safetensors_metadata(const char *path)
{
    MF_LAYER;
    MF_SCOPE;
    return mf_escape(load(path, &(st_choice){ NULL, NULL }, true));
}

mf_value mf_safetensors_load(const char *path, mf_value like)
{
    mf_named_leaves l = mf_leaves_of(like);
    if (l.count)
        qsort(l.at, (size_t)l.count, sizeof *l.at, leaf_against);
    mf_value made = l.failed ? out_of_memory(path) : load(path, &(st_choice){ .names = &l }, false);
    mf_leaves_free(&l);
    return made;
}

bool mf_is_safetensors(const char *path)
{
    static const unsigned char rest[] = { 0, 0, 0, 0, '{' };
    unsigned char first[LENGTH + 1];
    int fd = mf_open_regular(path);
    bool whole = fd >= 0 && read(fd, first, sizeof first) == (ssize_t)sizeof first;
    if (fd >= 0)
        (void)close(fd);
    return whole && memcmp(first + 4, rest, sizeof rest) == 0;
}

/* ---- writing */

static const struct st_dtype *dtype_of(mf_value v)
{
    for (int i = 0; i < DTYPES; i++)
        if (dtypes[i].dtype == mf_dtype_of(v))
            return &dtypes[i];
    return NULL;
}

/* Elements of the greatest size first, so that all are aligned; then by name. */
static int by_dtype(const void *a, const void *b)
{
    const mf_named_leaf *x = a, *y = b;
    const struct st_dtype *p = dtype_of(x->value), *q = dtype_of(y->value);
    return p != q ? (p < q) - (p > q) : strcmp(x->name, y->name);
}

static const char *wrong_leaf(const mf_named_leaf *l, const mf_named_leaf *before)
{
    if (mf_shape_of(l->value).rank < 0 || !dtype_of(l->value))
        return "only arrays of numbers other than c128 can be written";
    if (strcmp(l->name, "__metadata__") == 0)
        return "the format has this name for itself";
    if (!mf_is_utf8(l->name, strlen(l->name)))
        return "it is not UTF-8";
    return before && strcmp(l->name, before->name) == 0 ? "two leaves have this name" : NULL;
}

/* Everything that can be wrong is said before anything is written. */
static mf_status check_leaves(const char *path, mf_named_leaves *l)
{
    if (l->failed)
        return mf_io_fail(MF_ERROR_MEMORY, "%s: out of memory", path);
    if (l->count)
        qsort(l->at, (size_t)l->count, sizeof *l->at, leaf_against);
    for (int i = 0; i < l->count; i++) {
        mf_status status = mf_block_until_ready(l->at[i].value); /* an error is remembered there */
        if (status)
            return status;
        const char *wrong = wrong_leaf(&l->at[i], i ? &l->at[i - 1] : NULL);
        if (wrong)
            return mf_io_fail(MF_ERROR_ARGUMENT, "%s: %.256s: %s", path, l->at[i].name, wrong);
    }
    if (l->count)
        qsort(l->at, (size_t)l->count, sizeof *l->at, by_dtype);
    return MF_OK;
}

static mf_status check_metadata(const char *path, mf_value metadata)
{
    size_t size;
    for (int i = 0; metadata.handle && i < mf_len(metadata); i++) {
        const char *key = mf_key(metadata, i), *text = key ? mf_static_data(mf_get(metadata, key), &size) : NULL;
        if (!text || !mf_is_utf8(key, strlen(key)) || !mf_is_utf8(text, size))
            return mf_io_fail(MF_ERROR_ARGUMENT, "%s: the metadata is a dict of strings in UTF-8, not %s", path, mf_str(metadata));
    }
    if (metadata.handle && mf_kind_of(metadata) != MF_KIND_DICT && mf_kind_of(metadata) != MF_KIND_NONE)
        return mf_io_fail(MF_ERROR_ARGUMENT, "%s: the metadata is a dict of strings, not %s", path, mf_str(metadata));
    return MF_OK;
}

static void write_metadata(FILE *f, mf_value metadata)
{
    size_t size;
    fputs("\"__metadata__\":{", f);
    for (int i = 0; i < mf_len(metadata); i++) {
        const char *key = mf_key(metadata, i);
        if (i)
            (void)putc(',', f);
        const char *text = mf_static_data(mf_get(metadata, key), &size);
        (void)mf_json_write(f, key, strlen(key));
        (void)putc(':', f);
        (void)mf_json_write(f, text, size);
    }
    (void)putc('}', f);
}

/* In memory of malloc; NULL: there is none. */
static char *make_header(const mf_named_leaves *l, mf_value metadata, size_t *size)
{
    char *header = NULL;
    uint64_t at = 0;
    FILE *f = open_memstream(&header, size);
    if (!f)
        return NULL;
    bool some = metadata.handle && mf_kind_of(metadata) == MF_KIND_DICT && mf_len(metadata) > 0;
    (void)putc('{', f);
    if (some)
        write_metadata(f, metadata);
    for (int i = 0; i < l->count; i++) {
        const struct st_dtype *d = dtype_of(l->at[i].value);
        mf_shape shape = mf_shape_of(l->at[i].value);
        uint64_t end = at + (uint64_t)mf_size(l->at[i].value) * (uint64_t)d->size;
        if (some || i)
            (void)putc(',', f);
        (void)mf_json_write(f, l->at[i].name, strlen(l->at[i].name));
        fprintf(f, ":{\"dtype\":\"%s\",\"shape\":[", d->name);
        for (int k = 0; k < shape.rank; k++)
            fprintf(f, "%s%lld", k ? "," : "", (long long)shape.dims[k]);
        fprintf(f, "],\"data_offsets\":[%llu,%llu]}", (unsigned long long)at, (unsigned long long)end);
        at = end;
    }
    (void)putc('}', f);
    for (long n = ftell(f); n % LENGTH; n++)
        (void)putc(' ', f);
    bool whole = !ferror(f);
    whole = fclose(f) == 0 && whole;
    if (whole)
        return header;
    free(header);
    return NULL;
}

static mf_status write_tensors(FILE *f, const char *path, const mf_named_leaves *l)
{
    for (int i = 0; i < l->count; i++) {
        const struct st_dtype *d = dtype_of(l->at[i].value);
        size_t count = (size_t)mf_size(l->at[i].value), size = (size_t)d->size;
        void *bytes = malloc(count * size + 1);
        if (!bytes)
            return mf_io_fail(MF_ERROR_MEMORY, "%s: out of memory", path);
        mf_status status = mf_to_host(l->at[i].value, d->dtype, bytes, count);
        bool whole = !status && fwrite(bytes, size, count, f) == count;
        free(bytes);
        if (!whole)
            return status ? status : mf_unwritable(path);
    }
    return MF_OK;
}

typedef struct st_contents {
    const mf_named_leaves *leaves;
    const char *header;
    size_t size; /* of the header */
} st_contents;

static mf_status write_file(FILE *f, const char *path, const void *context)
{
    const st_contents *c = context;
    unsigned char length[LENGTH];
    for (int i = 0; i < LENGTH; i++)
        length[i] = (unsigned char)((uint64_t)c->size >> 8 * i & 255);
    bool whole = fwrite(length, 1, LENGTH, f) == LENGTH && fwrite(c->header, 1, c->size, f) == c->size;
    return whole ? write_tensors(f, path, c->leaves) : mf_unwritable(path);
}

mf_status mf_save_safetensors_opt(const char *path, mf_value tree, const mf_save_safetensors_options *o)
{
    MF_LAYER;
    MF_SCOPE;
    mf_value metadata = o ? o->metadata : (mf_value){ 0 };
    mf_named_leaves l = mf_leaves_of(tree);
    mf_status status = check_leaves(path, &l);
    status = status ? status : check_metadata(path, metadata);
    size_t size = 0;
    char *header = status ? NULL : make_header(&l, metadata, &size);
    if (!status && (!header || size > MOST_HEADER))
        status = header
                     ? mf_io_fail(MF_ERROR_ARGUMENT, "%s: the names are longer than the format's header may be (100,000,000 bytes)", path)
                     : mf_io_fail(MF_ERROR_MEMORY, "%s: out of memory", path);
    if (!status)
        status = mf_replace_file(path, write_file, &(st_contents){ &l, header, size });
    free(header);
    mf_leaves_free(&l);
    return status;
}
