/* Checkpoints: a folder that the processes of a job write together and any number of processes can read.
 *
 *     index.npz      "checkpoint": version, slot (0: a, 1: b), shards; "id"; "rows/...": for each leaf, where the shards' rows begin, and
 *                    the end
 *     a-whole.npz    "id"; "whole/...": what is the same in all processes; written by process 0
 *     a-3.npz        "id"; "rows/...": the rows of process 3
 *
 * Invariants: the index names only complete files, because it is written last, atomically; a save writes to the slot that the index does
 * not name and removes the files of the other slot afterwards; the id is new with each save and tells whether a file belongs to the index.
 * All processes go through the same exchanges whatever happens, so an error of one process is an error of all, and none waits forever. */
#include "io/checkpoint/checkpoint.h"

#include "io/numpy/npy.h"

#include <manyfold/distributed.h>
#include <manyfold/io.h>

#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

enum { VERSION = 1, PATH = 4096 };
enum { STATUS, SLOT, ID, ROWS }; /* the numbers that processes exchange; from ROWS on, a process's number of rows of each leaf */

/* The innermost scope reports the error unless it is handled before. */
mf_status mf_checkpoint_fail(mf_checkpoint *c, mf_status status, mf_value error)
{
    if (!c->error.handle)
        c->error = error;
    return status;
}

static mf_value out_of_memory(const mf_checkpoint *c) { return mf_make_error(MF_ERROR_MEMORY, "%s: out of memory", c->folder); }

/* Paths of the index, which belongs to no slot; of the file of `whole`; of a shard's rows. A path that is too long sets c->error. */
static mf_status put_path(mf_checkpoint *c, char *path, int length)
{
    if (length < PATH)
        return MF_OK;
    *path = 0;
    return mf_checkpoint_fail(c, MF_ERROR_IO,
                              mf_make_error(MF_ERROR_IO, "%.64s...: the path is longer than %d bytes", c->folder, PATH - 1));
}
static mf_status path_of_index(mf_checkpoint *c, char *path) { return put_path(c, path, snprintf(path, PATH, "%s/index.npz", c->folder)); }
static mf_status path_of_whole(mf_checkpoint *c, char *path)
{
    return put_path(c, path, snprintf(path, PATH, "%s/%c-whole.npz", c->folder, "ab"[c->slot]));
}
static mf_status path_of_shard(mf_checkpoint *c, char *path, int64_t shard)
{
    return put_path(c, path, snprintf(path, PATH, "%s/%c-%lld.npz", c->folder, "ab"[c->slot], (long long)shard));
}

/* ------------------------------------------------------------------ between processes */

/* The numbers of all processes, in the order of the processes, malloc'd. On failure returns NULL and sets *status. */
static int64_t *gather(mf_checkpoint *c, const int64_t *own, int count, mf_status *status)
{
    size_t total = (size_t)c->processes * (size_t)count;
    mf_value all = mf_process_allgather(mf_from_host(MF_I64, MF_SHAPE(count), own));
    int64_t *made = malloc((total + 1) * sizeof *made);
    *status = made ? mf_block_until_ready(all) : mf_checkpoint_fail(c, MF_ERROR_MEMORY, out_of_memory(c));
    if (made && !*status)
        *status = mf_to_host(all, MF_I64, made, total);
    if (!*status)
        return made;
    if (!c->error.handle)
        c->error = all;
    free(made);
    return NULL;
}

/* The status that follows from those of all processes, the first number of each row of `reports`: the own one if it is an error, else
 * MF_ERROR_PEER if another process failed. */
static mf_status status_of_all(mf_checkpoint *c, const int64_t *reports, int count, mf_status own, const char *what)
{
    for (int p = 0; p < c->processes && !own; p++)
        if (reports[(size_t)p * (size_t)count])
            return mf_checkpoint_fail(c, MF_ERROR_PEER,
                                      mf_make_error(MF_ERROR_PEER, "%s: process %d could not %s; it says why", c->folder, p, what));
    return own;
}

mf_status mf_checkpoint_agree(mf_checkpoint *c, mf_status own, const char *what)
{
    mf_status status;
    int64_t *reports = gather(c, &(int64_t){ own }, 1, &status);
    if (reports)
        status = status_of_all(c, reports, 1, own, what);
    free(reports);
    return own ? own : status;
}

/* ------------------------------------------------------------------ saving and loading */

static mf_status begin(mf_checkpoint *c, const char *folder, mf_value rows)
{
    *c = (mf_checkpoint){
        .folder = folder, .rows = rows, .leaves = mf_tree_leaves(rows), .processes = mf_process_count(), .rank = mf_process_index()
    };
    if (c->rank < 0)
        return mf_checkpoint_fail(c, MF_ERROR_PEER, mf_make_error(MF_ERROR_PEER, "%s: the job was not joined", folder));
    if (mf_is_error(rows))
        return mf_block_until_ready(rows);
    c->leaf_count = mf_len(c->leaves);
    return MF_OK;
}

typedef struct naming {
    int left; /* leaves before it */
    char *out;
    size_t capacity;
} naming;

static mf_value name_leaf(void *context, mf_value path, mf_value leaf)
{
    naming *n = *(naming **)context;
    if (n->left-- == 0)
        snprintf(n->out, n->capacity, "%s", mf_str(path));
    return leaf;
}

/* A leaf's path, "['layers'][0]['w']"; valid until the innermost scope ends. */
static const char *leaf_name(const mf_checkpoint *c, int leaf)
{
    char name[256] = "";
    naming n = { leaf, name, sizeof name }, *at = &n;
    (void)mf_tree_map_with_path(mf_closure(name_leaf, &at), c->rows);
    return mf_str(mf_string(name));
}

/* Exchanges status, slot, id and numbers of rows between all processes; sets c->reports. */
static mf_status exchange_reports(mf_checkpoint *c, mf_status own, const char *what)
{
    int count = ROWS + c->leaf_count;
    mf_status status = MF_OK;
    int64_t *mine = calloc((size_t)count, sizeof *mine);
    if (!mine)
        return mf_checkpoint_fail(c, MF_ERROR_MEMORY, out_of_memory(c));
    mine[SLOT] = c->slot;
    mine[ID] = c->id;
    for (int l = 0; l < c->leaf_count; l++) {
        mine[ROWS + l] = mf_dim(mf_get(c->leaves, l), 0);
        if (mf_ndim(mf_get(c->leaves, l)) < 1 && !own)
            own = mf_checkpoint_fail(c, MF_ERROR_SHAPE,
                                     mf_make_error(MF_ERROR_SHAPE, "%s: rows%s is no array with rows: %s", c->folder, leaf_name(c, l),
                                                   mf_str(mf_get(c->leaves, l))));
    }
    mine[STATUS] = own;
    c->reports = gather(c, mine, count, &status);
    free(mine);
    return c->reports ? status_of_all(c, c->reports, count, own, what) : own ? own : status;
}

static int64_t rows_of(const mf_checkpoint *c, int process, int leaf)
{
    return c->reports[(size_t)process * (size_t)(ROWS + c->leaf_count) + ROWS + (size_t)leaf];
}

/* The tree c->rows with these leaves instead. */
static mf_value with_leaves(const mf_checkpoint *c, mf_value *leaves)
{
    return mf_tree_unflatten(c->rows, mf_list_n(leaves, c->leaf_count));
}

/* ------------------------------------------------------------------ saving */

/* The tree of the index's "rows": for each leaf, the first row of each process, and the total. */
static mf_value bounds(mf_checkpoint *c)
{
    mf_value *leaves = calloc((size_t)c->leaf_count + 1, sizeof *leaves);
    int64_t *at = calloc((size_t)c->processes + 1, sizeof *at);
    mf_value made = { 0 };
    for (int l = 0; leaves && at && l < c->leaf_count; l++) {
        for (int p = 0; p < c->processes; p++)
            at[p + 1] = at[p] + rows_of(c, p, l);
        leaves[l] = mf_from_host(MF_I64, MF_SHAPE(c->processes + 1), at);
    }
    if (leaves && at)
        made = with_leaves(c, leaves);
    else
        made = out_of_memory(c);
    free(leaves);
    free(at);
    return made;
}

static mf_value id_of(const mf_checkpoint *c) { return mf_from_host(MF_I64, MF_SHAPE(1), &c->id); }

mf_status mf_checkpoint_write_index(mf_checkpoint *c)
{
    char path[PATH];
    const int64_t head[3] = { VERSION, c->slot, c->shards };
    mf_status status = path_of_index(c, path);
    return status ? status
                  : mf_save_npz(path, mf_dict("checkpoint", mf_from_host(MF_I64, MF_SHAPE(3), head), "id", id_of(c), "rows", bounds(c)));
}

mf_status mf_checkpoint_write_part(mf_checkpoint *c, mf_value whole)
{
    char path[PATH];
    mf_status status = path_of_shard(c, path, c->rank);
    if (!status && c->shards)
        status = mf_save_npz(path, mf_dict("id", id_of(c), "rows", c->rows));
    if (!status && c->rank == 0 && !(status = path_of_whole(c, path)))
        status = mf_save_npz(path, mf_dict("id", id_of(c), "whole", whole));
    return status;
}

/* The slot that the folder's index names; -1 if there is no readable index. */
static int64_t slot_in_use(mf_checkpoint *c)
{
    MF_SCOPE;
    char path[PATH];
    int64_t head[3] = { 0 };
    if (path_of_index(c, path) || access(path, R_OK) != 0)
        return -1;
    mf_value index = mf_load_npz(path), at = mf_is_error(index) ? index : mf_get(index, "checkpoint");
    if (mf_is_error(at) || mf_to_host(at, MF_I64, head, 3) != MF_OK) {
        (void)mf_error(at); /* handled: the index will be replaced */
        return -1;
    }
    return head[1] & 1;
}

/* In process 0: makes the folder, and chooses the slot that is not in use and an id. */
static mf_status choose(mf_checkpoint *c)
{
    if (mkdir(c->folder, 0777) != 0 && errno != EEXIST)
        return mf_checkpoint_fail(c, MF_ERROR_IO, mf_make_error(MF_ERROR_IO, "%s: cannot be made: %s", c->folder, strerror(errno)));
    c->slot = slot_in_use(c) == 0;
    if (getrandom(&c->id, sizeof c->id, 0) != sizeof c->id)
        return mf_checkpoint_fail(c, MF_ERROR_IO, mf_make_error(MF_ERROR_IO, "%s: no random number: %s", c->folder, strerror(errno)));
    return MF_OK;
}

/* Parses a file's name: returns the number of its shard, or WHOLE, INDEX, or NONE if it is no file of a checkpoint. *left: it is a
 * temporary file that a killed process left: "a-whole.npz.k3Xw9Q.tmp". */
enum { NONE = -3, INDEX = -2, WHOLE = -1 };

static long long part_of(const char *name, bool *left)
{
    const char *dot = strchr(name, '.');
    bool slot = dot && (*name == 'a' || *name == 'b') && name[1] == '-';
    char *end = NULL;
    long long number = slot && name[2] >= '0' && name[2] <= '9' ? strtoll(name + 2, &end, 10) : NONE;
    if (slot && strncmp(name + 2, "whole.", 6) == 0)
        number = WHOLE;
    else if (dot && strncmp(name, "index.", 6) == 0)
        number = INDEX;
    else if (!end || end != dot)
        return NONE;
    *left = strncmp(dot, ".npz.", 5) == 0 && strstr(dot, ".tmp"); /* libzip appends more to the name */
    return *left || strcmp(dot, ".npz") == 0 ? number : NONE;
}

bool mf_checkpoint_is_file(const char *name)
{
    bool left;
    return part_of(name, &left) != NONE;
}

/* Whether it is a file of a checkpoint that the index does not name, or a leftover temporary file. */
static bool is_left_over(const mf_checkpoint *c, const char *name)
{
    bool left = false;
    long long part = part_of(name, &left);
    return part != NONE && (left || (part != INDEX && (*name != "ab"[c->slot] || part >= c->shards)));
}

/* Removes the files that the index does not name. Called after all processes have finished writing. */
static void remove_others(const mf_checkpoint *c)
{
    char path[PATH + 257];
    DIR *folder = opendir(c->folder);
    for (const struct dirent *e; folder && (e = readdir(folder));)
        if (is_left_over(c, e->d_name)) {
            snprintf(path, sizeof path, "%s/%s", c->folder, e->d_name);
            (void)unlink(path);
        }
    if (folder)
        (void)closedir(folder);
}

mf_status mf_checkpoint_begin(mf_checkpoint *c, const char *folder, mf_value whole, mf_value rows)
{
    mf_status status = begin(c, folder, rows);
    if (c->rank < 0)
        return status;
    if (!status)
        status = mf_is_error(whole) ? mf_block_until_ready(whole) : c->rank == 0 ? choose(c) : MF_OK;
    status = exchange_reports(c, status, "begin to save");
    if (status)
        return status;
    c->slot = c->reports[SLOT];
    c->id = c->reports[ID];
    c->shards = c->leaf_count ? c->processes : 0;
    return MF_OK;
}

void mf_checkpoint_end(mf_checkpoint *c)
{
    free(c->reports);
    c->reports = NULL;
}

mf_status(mf_save_checkpoint)(const char *folder, mf_value whole, mf_value rows)
{
    MF_LAYER;
    MF_SCOPE;
    mf_checkpoint c;
    mf_status status = mf_checkpoint_begin(&c, folder, whole, rows);
    if (!status)
        status = mf_checkpoint_agree(&c, mf_checkpoint_write_part(&c, whole), "write its part");
    if (!status)
        status = mf_checkpoint_agree(&c, c.rank == 0 ? mf_checkpoint_write_index(&c) : MF_OK, "write the index");
    if (!status && c.rank == 0)
        remove_others(&c);
    mf_checkpoint_end(&c);
    return status;
}

/* ------------------------------------------------------------------ loading */

/* The rows of a leaf that this process loads. If the job has another number of rows now than the file (another number of devices), the
 * file's rows are regrouped: both sides are counted in parts, the entries of axis 1. */
typedef struct wanted {
    const int64_t *begins; /* the first row of each shard, in rows of the file */
    int64_t first, end;    /* what is wanted, in parts */
    int64_t file_parts;    /* the parts in a row of the file; 1 unless regrouped */
    bool regrouped;
} wanted;

static int64_t *read_bounds(const mf_checkpoint *c, mf_value index, int leaf, mf_value *error)
{
    int64_t *at = malloc((size_t)(c->shards + 1) * sizeof *at);
    if (!at || mf_to_host(mf_get(mf_tree_leaves(index), leaf), MF_I64, at, (size_t)c->shards + 1) != MF_OK) {
        *error = out_of_memory(c);
        free(at);
        return NULL;
    }
    bool good = at[0] == 0;
    for (int64_t s = 0; s < c->shards; s++)
        good &= at[s + 1] >= at[s];
    if (!good) {
        *error = mf_make_error(MF_ERROR_IO, "%s/index.npz: rows%s: its shards do not follow one another", c->folder, leaf_name(c, leaf));
        free(at);
        return NULL;
    }
    return at;
}

/* Finds the rows of a leaf that this process loads. Returns an error or unset. */
static mf_value find_wanted(const mf_checkpoint *c, int leaf, wanted *w)
{
    int64_t total = 0, before = 0, in_file = w->begins[c->shards];
    mf_shape shape = mf_shape_of(mf_get(c->leaves, leaf));
    for (int p = 0; p < c->processes; p++) {
        before += p < c->rank ? rows_of(c, p, leaf) : 0;
        total += rows_of(c, p, leaf);
    }
    int64_t parts = 1;
    w->file_parts = 1;
    if (total != in_file) {
        w->regrouped = true;
        parts = shape.rank > 1 ? shape.dims[1] : 0;
        int64_t all = parts && total > INT64_MAX / parts ? 0 : total * parts;
        w->file_parts = in_file && all % in_file == 0 ? all / in_file : 0;
        if (!w->file_parts)
            return mf_make_error(MF_ERROR_IO, "%s/index.npz: rows%s: expected %lld rows of %s over all processes, the file has %lld",
                                 c->folder, leaf_name(c, leaf), (long long)total, mf_str(shape), (long long)in_file);
    }
    w->first = before * parts;
    w->end = (before + rows_of(c, c->rank, leaf)) * parts;
    return (mf_value){ 0 };
}

static bool needs(const wanted *w, int64_t shard)
{
    return w->begins[shard] * w->file_parts < w->end && w->begins[shard + 1] * w->file_parts > w->first;
}

/* The expected struct of a leaf in a shard's file. */
static mf_value leaf_of_shard(const mf_checkpoint *c, const wanted *w, int leaf, int64_t shard)
{
    mf_value like = mf_get(c->leaves, leaf);
    mf_shape shape = mf_shape_of(like);
    shape.dims[0] = w->begins[shard + 1] - w->begins[shard];
    if (w->regrouped)
        shape.dims[1] = w->file_parts;
    return mf_struct(shape, mf_dtype_of(like));
}

/* Merges the first two axes. */
static mf_value flat(mf_value x)
{
    mf_shape s = mf_shape_of(x);
    s.dims[0] *= s.dims[1];
    for (int i = 1; i + 1 < s.rank; i++)
        s.dims[i] = s.dims[i + 1];
    s.rank--;
    return mf_reshape(x, s);
}

static mf_value cut_out(const wanted *w, mf_value x, int64_t shard)
{
    int64_t begin = w->begins[shard] * w->file_parts, end = w->begins[shard + 1] * w->file_parts;
    int64_t first = w->first > begin ? w->first : begin, last = w->end < end ? w->end : end;
    return mf_get(w->regrouped ? flat(x) : x, mf_range(first - begin, last - begin));
}

/* Loads the item `name`, which has the structure of `like`, from a file of this checkpoint. */
static mf_value load_part(mf_checkpoint *c, const char *path, const char *name, mf_value like)
{
    mf_value file = mf_load_tree(path, mf_dict("id", mf_struct(MF_SHAPE(1), MF_I64), name, like), .partial = c->partial);
    if (mf_is_error(file))
        return file;
    int64_t id = 0;
    if (mf_to_host(mf_get(file, "id"), MF_I64, &id, 1) != MF_OK || id != c->id)
        return mf_make_error(MF_ERROR_IO, "%s: expected a file of the checkpoint that the index names, and it is of another one", path);
    return mf_get(file, name);
}

/* Loads the wanted rows of a shard to pieces[leaf * c->shards + shard]; pieces that are not wanted stay unset. Returns an error or
 * unset. */
static mf_value load_shard(mf_checkpoint *c, const wanted *w, int64_t shard, mf_value *pieces)
{
    char path[PATH];
    mf_value *likes = calloc((size_t)c->leaf_count, sizeof *likes);
    bool any = false;
    for (int l = 0; likes && l < c->leaf_count; l++) {
        likes[l] = leaf_of_shard(c, &w[l], l, shard);
        any |= needs(&w[l], shard);
    }
    mf_value made = { 0 };
    if (!likes)
        made = out_of_memory(c);
    else if (any)
        made = path_of_shard(c, path, shard) ? c->error : load_part(c, path, "rows", with_leaves(c, likes));
    free(likes);
    if (!made.handle || mf_is_error(made))
        return made;
    mf_value leaves = mf_tree_leaves(made);
    for (int l = 0; l < c->leaf_count; l++)
        if (needs(&w[l], shard))
            pieces[(int64_t)l * c->shards + shard] = cut_out(&w[l], mf_get(leaves, l), shard);
    return (mf_value){ 0 };
}

/* The pieces of a leaf, concatenated and reshaped to its shape. */
static mf_value join(const mf_checkpoint *c, int leaf, mf_value *pieces)
{
    mf_value like = mf_get(c->leaves, leaf);
    int count = 0;
    for (int64_t s = 0; s < c->shards; s++)
        if (pieces[s].handle)
            pieces[count++] = pieces[s];
    mf_value all = count == 0   ? mf_zeros(mf_shape_of(like), mf_dtype_of(like))
                   : count == 1 ? *pieces
                                : mf_concatenate(mf_list_n(pieces, count), 0);
    return mf_reshape(all, mf_shape_of(like));
}

static mf_value load_rows(mf_checkpoint *c, const wanted *w)
{
    mf_value *pieces = calloc((size_t)c->leaf_count * (size_t)c->shards + 1, sizeof *pieces),
             *leaves = calloc((size_t)c->leaf_count + 1, sizeof *leaves);
    mf_value made = { 0 };
    if (!pieces || !leaves)
        made = out_of_memory(c);
    for (int64_t s = 0; s < c->shards && !made.handle; s++)
        made = load_shard(c, w, s, pieces);
    for (int l = 0; l < c->leaf_count && !made.handle; l++)
        leaves[l] = join(c, l, pieces + (int64_t)l * c->shards);
    if (!made.handle)
        made = with_leaves(c, leaves);
    free(pieces);
    free(leaves);
    return made;
}

/* Reads the index: sets slot, id and shards, and returns its tree "rows", or an error. */
static mf_value load_index(mf_checkpoint *c)
{
    char path[PATH];
    int64_t head[3];
    if (path_of_index(c, path))
        return c->error;
    mf_value like = mf_dict("checkpoint", mf_struct(MF_SHAPE(3), MF_I64), "id", mf_struct(MF_SHAPE(1), MF_I64));
    mf_value index = mf_load_tree(path, like, .partial = true);
    if (mf_is_error(index))
        return index;
    mf_to_host(mf_get(index, "checkpoint"), MF_I64, head, 3);
    mf_to_host(mf_get(index, "id"), MF_I64, &c->id, 1);
    if (head[0] != VERSION || head[1] < 0 || head[1] > 1 || head[2] < 0 || head[2] >= INT64_MAX / 16)
        return mf_make_error(MF_ERROR_IO, "%s: checkpoint: expected version %d, a slot of 0 or 1 and shards, the file has %lld, %lld, %lld",
                             path, VERSION, (long long)head[0], (long long)head[1], (long long)head[2]);
    if (c->leaf_count && !head[2])
        return mf_make_error(MF_ERROR_IO, "%s: rows are asked for, and the checkpoint has none", path);
    c->slot = head[1];
    c->shards = head[2];
    mf_value *likes = calloc((size_t)c->leaf_count + 1, sizeof *likes);
    for (int l = 0; likes && l < c->leaf_count; l++)
        likes[l] = mf_struct(MF_SHAPE(c->shards + 1), MF_I64);
    bool partial = c->partial || !c->leaf_count;
    index = likes ? mf_load_tree(path, mf_set(like, with_leaves(c, likes), "rows"), .partial = partial) : out_of_memory(c);
    free(likes);
    return mf_is_error(index) ? index : mf_get(index, "rows");
}

static mf_value load(mf_checkpoint *c, mf_value index, mf_value whole)
{
    char path[PATH];
    mf_value made = { 0 };
    wanted *w = calloc((size_t)c->leaf_count + 1, sizeof *w);
    if (!w)
        return out_of_memory(c);
    for (int l = 0; l < c->leaf_count && !made.handle; l++)
        if ((w[l].begins = read_bounds(c, index, l, &made)))
            made = find_wanted(c, l, &w[l]);
    mf_value rows = made.handle ? made : c->leaf_count ? load_rows(c, w) : c->rows;
    for (int l = 0; l < c->leaf_count; l++)
        free((void *)(uintptr_t)w[l].begins);
    free(w);
    if (mf_is_error(rows))
        return rows;
    if (path_of_whole(c, path))
        return c->error;
    whole = mf_len(mf_tree_leaves(whole)) ? load_part(c, path, "whole", whole) : whole;
    return mf_is_error(whole) ? whole : mf_tuple(whole, rows);
}

mf_value mf_load_checkpoint_opt(const char *folder, mf_value whole, mf_value rows, const mf_load_checkpoint_options *o)
{
    MF_LAYER;
    MF_SCOPE;
    mf_checkpoint c;
    (void)begin(&c, folder, rows);
    if (c.rank < 0)
        return mf_escape(c.error);
    c.partial = o && o->partial;
    mf_value made = mf_is_error(rows) ? rows : mf_is_error(whole) ? whole : load_index(&c);
    mf_status status = exchange_reports(&c, mf_is_error(made) ? mf_block_until_ready(made) : MF_OK, "read the index");
    for (int p = 0; p < c.processes && !status; p++)
        if (c.reports[(size_t)p * (size_t)(ROWS + c.leaf_count) + ID] != c.id)
            status = mf_checkpoint_fail(
                &c, MF_ERROR_PEER,
                mf_make_error(MF_ERROR_PEER, "%s: process %d reads another checkpoint there: it is being saved", folder, p));
    if (!status) {
        made = load(&c, made, whole);
        status = mf_checkpoint_agree(&c, mf_is_error(made) ? mf_block_until_ready(made) : MF_OK, "read its part");
    }
    free(c.reports);
    return mf_escape(mf_is_error(made) || !status ? made : c.error);
}
