/* .npz files: zip archives of .npy members, one for each leaf of a tree, named by its path. Invariant: a file is replaced atomically, when
 * it is complete; what is read is verified by the archive's checksums. */
#include "io/numpy/npy.h"

#include "io/leaves.h"
#include "io/regular.h"
#include "io/replace.h"
#include "io/safetensors.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zip.h>

/* ---- writing */

#define MOST_NAME_BYTES 65000 /* the length of a name is 16 bits in a zip archive, and ".npy" is added */

/* Why a leaf's name cannot be the name of a member; NULL if it can. The parts between slashes are keys of dicts. */
static const char *wrong_name(const char *name)
{
    if (strlen(name) > MOST_NAME_BYTES)
        return "it is longer than 65,000 bytes";
    if (*name == '/')
        return "a part of it is empty";
    for (const char *part = name; part; part = strchr(part, '/')) {
        part += *part == '/';
        size_t length = strcspn(part, "/");
        if (!length)
            return "a part of it is empty";
        if (length <= 2 && strncmp(part, "..", length) == 0)
            return "'.' and '..' would lead elsewhere when the archive is unpacked";
    }
    return NULL;
}

static mf_status zip_failed(const char *path, const char *what, zip_error_t *error)
{
    return mf_io_fail(MF_ERROR_IO, "%s: %s: %s", path, what, zip_error_strerror(error));
}

/* Stores the member's contents in *bytes; they must live until the archive is closed, which reads them. */
static mf_status add_member(zip_t *archive, const char *path, const mf_named_leaf *l, unsigned char **bytes)
{
    size_t size;
    mf_status status;
    *bytes = mf_npy_format(path, l->value, &size, &status);
    if (!*bytes)
        return status;
    zip_source_t *source = zip_source_buffer(archive, *bytes, size, 0);
    if (!source)
        return zip_failed(path, l->name, zip_get_error(archive));
    size_t length = strlen(l->name) + sizeof ".npy";
    char *name = malloc(length);
    if (name)
        snprintf(name, length, "%s.npy", l->name);
    zip_int64_t index = name ? zip_file_add(archive, name, source, ZIP_FL_ENC_UTF_8) : -1;
    free(name);
    if (index < 0) {
        zip_source_free(source);
        return zip_failed(path, l->name, zip_get_error(archive));
    }
    zip_set_file_compression(archive, (zip_uint64_t)index, ZIP_CM_STORE, 0);
    /* the date 1980-01-01, as in NumPy, so equal arrays give equal files */
    (void)zip_file_set_dostime(archive, (zip_uint64_t)index, 0, 1 << 5 | 1, 0);
    return MF_OK;
}

static mf_status write_archive(const char *path, const char *beside, const mf_named_leaves *l, unsigned char **bytes)
{
    int code;
    zip_error_t error;
    zip_t *archive = zip_open(beside, ZIP_CREATE | ZIP_TRUNCATE, &code);
    if (!archive) {
        zip_error_init_with_code(&error, code);
        mf_status status = zip_failed(path, "cannot be written", &error);
        zip_error_fini(&error);
        return status;
    }
    mf_status status = MF_OK;
    for (int i = 0; i < l->count && !status; i++)
        status = add_member(archive, path, &l->at[i], &bytes[i]);
    if (status) {
        zip_discard(archive);
        return status;
    }
    if (zip_close(archive)) {
        status = zip_failed(path, "cannot be written", zip_get_error(archive));
        zip_discard(archive);
    }
    return status;
}

/* Refuses, before anything is written, a tree that the archive could not hold or would not restore. */
static mf_status check_leaves(const char *path, const mf_named_leaves *l)
{
    if (l->failed)
        return mf_io_fail(MF_ERROR_MEMORY, "%s: out of memory", path);
    if (l->count == 0)
        return mf_io_fail(MF_ERROR_TREE, "%s: a tree without leaves cannot be written", path);
    for (int i = 0; i < l->count; i++) {
        const char *wrong = wrong_name(l->at[i].name);
        if (wrong)
            return mf_io_fail(MF_ERROR_ARGUMENT, "%s: '%s' cannot be the name of an array in a file: %s", path, l->at[i].name, wrong);
    }
    return MF_OK;
}

mf_status(mf_save_npz)(const char *path, mf_value tree)
{
    MF_LAYER;
    MF_SCOPE;
    mf_named_leaves l = mf_leaves_of(tree);
    mf_replacement r;
    unsigned char **bytes = calloc((size_t)l.count + 1, sizeof *bytes);
    l.failed |= !bytes;
    mf_status status = check_leaves(path, &l);
    if (!status && !(status = mf_replace_begin(&r, path)))
        status = mf_replace_end(&r, write_archive(path, r.beside, &l, bytes));
    for (int i = 0; bytes && i < l.count; i++)
        free(bytes[i]);
    free(bytes);
    mf_leaves_free(&l);
    return status;
}

/* ---- reading */

enum { REASON = 256 };
/* The default limit of the members' uncompressed sizes: MOST_BYTES plus MOST_RATIO times the size of the archive. */
#define MOST_BYTES (UINT64_C(64) << 20)
#define MOST_RATIO 128

/* The member's bytes, malloc'd. On failure returns NULL and writes the reason. */
static unsigned char *read_member(zip_t *archive, zip_uint64_t index, size_t *size, char *reason)
{
    zip_stat_t stat;
    zip_file_t *f = zip_stat_index(archive, index, 0, &stat) ? NULL : zip_fopen_index(archive, index, 0);
    if (!f) {
        snprintf(reason, REASON, "%s", zip_strerror(archive));
        return NULL;
    }
    unsigned char *bytes = malloc(stat.size ? stat.size : 1), beyond;
    zip_int64_t got = bytes ? zip_fread(f, bytes, stat.size) : -1;
    bool complete = got == (zip_int64_t)stat.size, whole = complete && zip_fread(f, &beyond, 1) == 0; /* the end verifies the checksum */
    if (!whole) {
        const char *said = zip_file_strerror(f);
        snprintf(reason, REASON, "%s", !bytes ? "out of memory" : got >= 0 && !complete ? "the member is truncated" : said);
        free(bytes);
        bytes = NULL;
    }
    zip_fclose(f);
    *size = (size_t)stat.size;
    return bytes;
}

static mf_value load_member(zip_t *archive, const char *path, zip_uint64_t index, const char *name)
{
    size_t size;
    char reason[REASON];
    unsigned char *bytes = read_member(archive, index, &size, reason);
    if (!bytes)
        return mf_make_error(MF_ERROR_IO, "%s: %s: %s", path, name, reason);
    mf_value v = mf_npy_parse(path, name, bytes, size);
    free(bytes);
    return v;
}

/* Guards against zip bombs: a small archive can declare members of any size. deflate compresses at most 1,032 to 1. Returns NULL, or the
 * reason. */
static const char *check_claims(zip_t *archive, const char *path, const mf_load_options *o, char *reason)
{
    struct stat file;
    zip_uint64_t claimed = 0, most = o->max_bytes > 0 ? (zip_uint64_t)o->max_bytes : MOST_BYTES;
    if (o->max_bytes <= 0 && stat(path, &file) == 0)
        most += (zip_uint64_t)file.st_size * MOST_RATIO;
    for (zip_int64_t i = zip_get_num_entries(archive, 0); i-- > 0;) {
        zip_stat_t s;
        if (zip_stat_index(archive, (zip_uint64_t)i, 0, &s) == 0 && (s.valid & ZIP_STAT_SIZE))
            claimed = s.size > UINT64_MAX - claimed ? UINT64_MAX : claimed + s.size;
    }
    if (claimed <= most)
        return NULL;
    snprintf(reason, REASON, "its members claim %llu bytes, of which %llu are believed; if they are meant, raise .max_bytes",
             (unsigned long long)claimed, (unsigned long long)most);
    return reason;
}

/* Loads every .npy member to (key, value) pairs. Returns an error or unset. */
static mf_value load_members(zip_t *archive, const char *path, mf_value *pairs, int *count)
{
    zip_int64_t n = zip_get_num_entries(archive, 0);
    for (zip_int64_t i = 0; i < n; i++) {
        const char *name = zip_get_name(archive, (zip_uint64_t)i, 0);
        size_t length = name ? strlen(name) : 0;
        if (length < 5 || strcmp(name + length - 4, ".npy") != 0)
            continue;
        mf_value v = load_member(archive, path, (zip_uint64_t)i, name);
        if (mf_is_error(v))
            return v;
        char *key = strndup(name, length - 4);
        pairs[(*count)++] = key ? mf_string(key) : mf_make_error(MF_ERROR_MEMORY, "out of memory");
        free(key);
        pairs[(*count)++] = v;
    }
    return (mf_value){ 0 };
}

static mf_value no_archive(const char *path, const char *why)
{
    return mf_make_error(MF_ERROR_IO, "%s: cannot be read as a zip archive: %s", path, why);
}

/* On failure returns NULL and sets *error. */
static zip_t *open_archive(const char *path, mf_value *error)
{
    int code, fd = mf_open_regular(path);
    if (fd < 0) {
        *error = mf_unreadable(path);
        return NULL;
    }
    zip_t *archive = zip_fdopen(fd, ZIP_CHECKCONS, &code);
    if (!archive) {
        zip_error_t reason;
        zip_error_init_with_code(&reason, code);
        *error = no_archive(path, zip_error_strerror(&reason));
        zip_error_fini(&reason);
        (void)close(fd);
    }
    return archive;
}

mf_value mf_load_npz_opt(const char *path, const mf_load_options *o)
{
    MF_LAYER;
    MF_SCOPE;
    int count = 0;
    char reason[REASON];
    mf_value v;
    zip_t *archive = open_archive(path, &v);
    if (!archive)
        return mf_escape(v);
    if (check_claims(archive, path, o, reason)) {
        zip_discard(archive);
        return mf_escape(mf_make_error(MF_ERROR_IO, "%s: %s", path, reason));
    }
    mf_value *pairs = calloc((size_t)zip_get_num_entries(archive, 0) * 2 + 1, sizeof *pairs);
    v = pairs ? load_members(archive, path, pairs, &count) : mf_make_error(MF_ERROR_MEMORY, "out of memory");
    if (!v.handle)
        v = mf_dict_n(pairs, count);
    free(pairs);
    zip_discard(archive);
    return mf_escape(v);
}

mf_value mf_load_tree_opt(const char *path, mf_value like, const mf_load_options *o)
{
    MF_LAYER;
    MF_SCOPE;
    mf_value file = mf_is_safetensors(path) ? mf_safetensors_load(path, like) : mf_load_npz_opt(path, o);
    return mf_escape(mf_is_error(file) ? file : mf_leaves_fit(path, like, file, o && o->partial));
}
