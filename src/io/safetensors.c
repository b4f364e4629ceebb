/* safetensors: a header (safetensors_header.c), then the tensors' bytes, row-major, little-endian. Files are mapped, and only the requested
 * tensors are read. Invariants: no tensor is read before the whole header has been validated; a written file is byte for byte what the
 * format's reference library writes for the same arrays. */
#include "io/safetensors.h"

#include "io/json.h"
#include "io/leaves.h"
#include "io/numpy/npy.h"
#include "io/regular.h"
#include "io/replace.h"
#include "io/safetensors_header.h"

#include <manyfold/io.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "tensors are copied as they lie");

/* ---- reading */

/* The requested tensors: those named by a tree's leaves, sorted by name; or those whose names begin with a prefix. */
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
        return st_out_of_memory(f->path);
    for (size_t i = 0; i < f->count; i++) {
        const st_tensor *t = &f->tensors[i];
        bool wanted = chosen(c, t->name), noticed = c->names && !other;
        if (!wanted && !noticed)
            continue;
        other |= !wanted;
        pairs[count++] = mf_string(t->name);
        pairs[count++] = !wanted ? mf_i(0) : mf_from_host(t->dtype->dtype, t->shape, f->bytes + f->data + t->begin);
    }
    mf_value made = mf_dict_n(pairs, count);
    free(pairs);
    return made;
}

/* Returns a dict of the tensors or, if metadata, of the metadata. */
static mf_value parse(st_file *f, const st_choice *c, bool metadata)
{
    mf_value made = st_read_header(f);
    if (!made.handle)
        made = !metadata ? dict_of(f, c) : f->metadata.handle ? f->metadata : mf_dict_n(NULL, 0);
    st_forget(f);
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
    made = m.size ? parse(&f, c, metadata) : st_damaged(&f, 0, "the length of the header, in 8 bytes; the file is empty");
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
    mf_value made = l.failed ? st_out_of_memory(path) : load(path, &(st_choice){ .names = &l }, false);
    mf_leaves_free(&l);
    return made;
}

bool mf_is_safetensors(const char *path)
{
    static const unsigned char rest[] = { 0, 0, 0, 0, '{' };
    unsigned char first[ST_LENGTH + 1];
    int fd = mf_open_regular(path);
    bool whole = fd >= 0 && read(fd, first, sizeof first) == (ssize_t)sizeof first;
    if (fd >= 0)
        (void)close(fd);
    return whole && memcmp(first + 4, rest, sizeof rest) == 0;
}

/* ---- writing */

static const st_dtype *dtype_of(mf_value v) { return st_dtype_of(mf_dtype_of(v)); }

/* Largest elements first, so that all tensors are aligned; then by name. */
static int by_dtype(const void *a, const void *b)
{
    const mf_named_leaf *x = a, *y = b;
    const st_dtype *p = dtype_of(x->value), *q = dtype_of(y->value);
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

/* Reports every possible error before anything is written. Sorts the leaves into the order of the file. */
static mf_status check_leaves(const char *path, mf_named_leaves *l)
{
    if (l->failed)
        return mf_io_fail(MF_ERROR_MEMORY, "%s: out of memory", path);
    if (l->count)
        qsort(l->at, (size_t)l->count, sizeof *l->at, leaf_against);
    for (int i = 0; i < l->count; i++) {
        mf_status status = mf_block_until_ready(l->at[i].value); /* records the error, if it is one */
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

/* The header's JSON, malloc'd; NULL if out of memory. */
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
        const st_dtype *d = dtype_of(l->at[i].value);
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
    for (long n = ftell(f); n % ST_LENGTH; n++)
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
        const st_dtype *d = dtype_of(l->at[i].value);
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
    unsigned char length[ST_LENGTH];
    for (int i = 0; i < ST_LENGTH; i++)
        length[i] = (unsigned char)((uint64_t)c->size >> 8 * i & 255);
    bool whole = fwrite(length, 1, ST_LENGTH, f) == ST_LENGTH && fwrite(c->header, 1, c->size, f) == c->size;
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
    if (!status && (!header || size > ST_MOST_HEADER))
        status = header
                     ? mf_io_fail(MF_ERROR_ARGUMENT, "%s: the names are longer than the format's header may be (100,000,000 bytes)", path)
                     : mf_io_fail(MF_ERROR_MEMORY, "%s: out of memory", path);
    if (!status)
        status = mf_replace_file(path, write_file, &(st_contents){ &l, header, size });
    free(header);
    mf_leaves_free(&l);
    return status;
}
