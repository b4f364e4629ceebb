/* Checkpoints of jobs whose processes are threads: written by some, read by others, and the errors of damaged files. */
#include "check.h"
#include "runtime/comm.h"
#include "threads_comm.h"
#include "warnings.h"

#include <manyfold.h>
#include <sys/stat.h>
#include <unistd.h>

__attribute__((constructor)) static void devices(void) { setenv("MF_NUM_CPU_DEVICES", "8", 1); }

static char folder[64];

static const char *path_of(const char *name)
{
    static _Thread_local char path[192];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    return path;
}

static bool is_there(const char *name) { return access(path_of(name), F_OK) == 0; }

static void remove_files(void)
{
    static const char *const names[] = { "index.npz", "a-whole.npz", "b-whole.npz" };
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        (void)unlink(path_of(names[i]));
    char name[16];
    for (int i = 0; i < 2 * JOB_MOST; i++) {
        snprintf(name, sizeof name, "%c-%d.npz", "ab"[i & 1], i / 2);
        (void)unlink(path_of(name));
    }
    (void)rmdir(folder);
}

/* Chooses a folder that does not exist yet. */
static void new_folder(void)
{
    if (!folder[0]) {
        snprintf(folder, sizeof folder, "/tmp/mf_checkpoint_XXXXXX");
        if (!mkdtemp(folder))
            abort();
        atexit(remove_files);
    }
    remove_files();
}

/* ------------------------------------------------------------------ what is saved */

static mf_value numbers(mf_shape shape, mf_dtype dtype)
{
    int64_t count = 1;
    for (int i = 0; i < shape.rank; i++)
        count *= shape.dims[i];
    return mf_astype(mf_reshape(mf_mul(mf_arange(count, MF_F32), 0.37f), shape), dtype);
}

static mf_value all_rows(void)
{
    return mf_dict("m", mf_list(numbers(MF_SHAPE(8, 3), MF_F32), numbers(MF_SHAPE(8), MF_BF16)), "v", numbers(MF_SHAPE(8, 2, 5), MF_F64),
                   "key", numbers(MF_SHAPE(8, 2), MF_U32));
}

static mf_value whole(int step) { return mf_dict("step", mf_i(step), "w", numbers(MF_SHAPE(4, 3), MF_F32)); }

typedef struct part {
    int64_t first, end;
} part;

static mf_value cut(void *context, mf_value leaf)
{
    part p = **(part **)context;
    return mf_get(leaf, mf_range(p.first, p.end));
}

static mf_value rows_of(mf_value all, part p)
{
    part *at = &p;
    return mf_tree_map(mf_closure(cut, &at), all);
}

static mf_value as_struct(mf_value leaf) { return mf_struct(mf_shape_of(leaf), mf_dtype_of(leaf)); }

static mf_value differs(mf_value a, mf_value b) { return mf_any(mf_not_equal(a, b)); }

static void check_same(mf_value a, mf_value b)
{
    mf_value leaves = mf_tree_leaves(mf_tree_map(differs, a, b));
    if (!CHECK(!mf_is_error(leaves)))
        CHECK_NOTE("%s", mf_error(leaves));
    for (int i = 0; i < mf_len(leaves); i++)
        CHECK(!mf_item_bool(mf_get(leaves, i)));
}

/* A job in which process p has shares[p] rows. */
typedef struct trial {
    int shares[JOB_MOST], size;
    int step;           /* the step that is saved */
    const char *broken; /* the file that process 1 fails to save; NULL: none */
    mf_status status[JOB_MOST];
    char words[JOB_MOST][512];
} trial;

static part own_part(const trial *t, int rank)
{
    part p = { 0, 0 };
    for (int i = 0; i <= rank; i++) {
        p.first = p.end;
        p.end += t->shares[i];
    }
    return p;
}

static void save_rank(void *context, int rank)
{
    trial *t = context;
    MF_SCOPE;
    mf_value rows = rows_of(all_rows(), own_part(t, rank));
    if (t->broken && rank == 1)
        rows = mf_set(rows, mf_f(1), "v");
    t->status[rank] = mf_save_checkpoint(folder, whole(t->step), rows);
}

static void load_rank(void *context, int rank)
{
    trial *t = context;
    MF_SCOPE;
    mf_value rows = rows_of(all_rows(), own_part(t, rank));
    mf_value made = mf_load_checkpoint(folder, mf_tree_map(as_struct, whole(0)), mf_tree_map(as_struct, rows));
    t->status[rank] = mf_error_status(made);
    snprintf(t->words[rank], sizeof t->words[rank], "%s", mf_is_error(made) ? mf_error(made) : "");
    if (!mf_is_error(made))
        check_same(made, mf_tuple(whole(t->step), rows));
}

static trial job_of(const char *shares)
{
    trial t = { 0 };
    for (; shares[t.size]; t.size++)
        t.shares[t.size] = shares[t.size] - '0';
    return t;
}

static void run(trial *t, void (*each)(void *context, int rank))
{
    static uint64_t seed;
    mf_clear_caches();
    if (t->size == 1)
        each(t, 0);
    else
        job_run(t->size, t->shares, ++seed, each, t);
}

static void save(const char *shares, int step)
{
    trial t = job_of(shares);
    t.step = step;
    run(&t, save_rank);
    for (int p = 0; p < t.size; p++)
        CHECK_EQ_INT(t.status[p], MF_OK);
}

static void load(const char *shares, int step)
{
    trial t = job_of(shares);
    t.step = step;
    run(&t, load_rank);
    for (int p = 0; p < t.size; p++)
        if (!CHECK_STR(t.words[p], ""))
            CHECK_NOTE("process %d of %s", p, shares);
}

static const char *const spreads[] = { "8", "44", "2222", "35", "11111111", "1223" };
enum { SPREADS = sizeof spreads / sizeof *spreads };

TEST(any_number_of_processes_reads_what_another_wrote)
{
    new_folder();
    for (int from = 0; from < SPREADS; from++) {
        save(spreads[from], from);
        for (int to = 0; to < SPREADS; to++)
            load(spreads[to], from);
    }
}

TEST(only_the_files_of_the_last_checkpoint_stay)
{
    new_folder();
    save("2222", 1);
    CHECK(is_there("a-whole.npz") && is_there("a-3.npz") && !is_there("b-whole.npz"));
    save("44", 2);
    CHECK(is_there("b-whole.npz") && is_there("b-1.npz") && !is_there("b-2.npz") && !is_there("a-0.npz") && !is_there("a-whole.npz"));
    CHECK_EQ_INT(mf_save_checkpoint(folder, whole(3), mf_none()), MF_OK);
    CHECK(is_there("a-whole.npz") && !is_there("a-0.npz") && !is_there("b-0.npz") && !is_there("b-1.npz"));
    check_same(mf_load_checkpoint(folder, whole(0), mf_none()), mf_tuple(whole(3), mf_none()));
}

/* The next save removes files that a killed process left; other files stay. */
TEST(left_overs_are_removed_and_nothing_else)
{
    static const struct {
        const char *name;
        bool stays;
    } files[] = { { "a-0.npz.k3Xw9Q.tmp", false },
                  { "b-whole.npz.k3Xw9Q.tmp", false },
                  { "index.npz.k3Xw9Q.tmp", false },
                  { "b-1.npz.PuHJdi.tmp.78rgtq", false },
                  { "b-0.npz", false },
                  { "b-17.npz", false },
                  { "a-17.npz", false },
                  { "b-whole.npz", false },
                  { "notes.txt", true },
                  { "a-0.txt", true },
                  { "a-.npz", true },
                  { "a-0x.npz", true },
                  { "c-0.npz", true },
                  { "a-0.npz.bak", true },
                  { "ab", true },
                  { "a-wholesome.npz", true },
                  { "x.npz.k3Xw9Q.tmp", true } };
    new_folder();
    CHECK_EQ_INT(mkdir(folder, 0777), 0);
    for (size_t i = 0; i < sizeof files / sizeof *files; i++)
        fclose(fopen(path_of(files[i].name), "w"));
    save("44", 1);
    for (size_t i = 0; i < sizeof files / sizeof *files; i++) {
        if (!CHECK_EQ_INT(is_there(files[i].name), files[i].stays))
            CHECK_NOTE("%s", files[i].name);
        (void)unlink(path_of(files[i].name));
    }
    load("8", 1);
}

/* The same number of elements in other rows: the rows of eight devices become those of four. */
TEST(rows_are_dealt_out_anew)
{
    new_folder();
    mf_value rows = mf_dict("v", numbers(MF_SHAPE(8, 2, 5), MF_F64));
    CHECK_EQ_INT(mf_save_checkpoint(folder, mf_none(), rows), MF_OK);
    mf_value made = mf_load_checkpoint(folder, mf_none(), mf_dict("v", mf_struct(MF_SHAPE(4, 4, 5), MF_F64)));
    check_same(made, mf_tuple(mf_none(), mf_dict("v", numbers(MF_SHAPE(4, 4, 5), MF_F64))));
    made = mf_load_checkpoint(folder, mf_none(), mf_dict("v", mf_struct(MF_SHAPE(16, 1, 5), MF_F64)));
    check_same(made, mf_tuple(mf_none(), mf_dict("v", numbers(MF_SHAPE(16, 1, 5), MF_F64))));
    made = mf_load_checkpoint(folder, mf_none(), mf_dict("v", mf_struct(MF_SHAPE(3, 5, 5), MF_F64)));
    CHECK_CONTAINS(mf_error(made), "index.npz: rows['v']: expected 3 rows");
}

/* ------------------------------------------------------------------ what goes wrong */

static void check_error(mf_value v, const char *words)
{
    CHECK_EQ_INT(mf_error_status(v), MF_ERROR_IO);
    CHECK_CONTAINS(mf_error(v), words);
}

TEST(errors_name_file_and_member)
{
    new_folder();
    check_error(mf_load_checkpoint(folder, whole(0), mf_none()), "index.npz: cannot be read");
    save("44", 1);
    mf_value rows = all_rows();
    check_error(mf_load_checkpoint(folder, mf_dict("x", mf_i(0)), rows), "-whole.npz: expected an array named whole/x");
    check_error(mf_load_checkpoint(folder, whole(0), mf_dict("n", mf_get(rows, "v"))), "index.npz: expected an array named rows/n");
    mf_value part = mf_dict("v", mf_get(rows, "v"));
    check_error(mf_load_checkpoint(folder, whole(0), part), "index.npz: the file has rows/");
    check_same(mf_get(mf_load_checkpoint(folder, whole(0), part, .partial = true), 1, "v"), mf_get(rows, "v"));
    check_error(mf_load_checkpoint(folder, whole(0), mf_set(rows, numbers(MF_SHAPE(8, 3, 5), MF_F64), "v")),
                "-0.npz: rows/v: expected float64(4, 3, 5)");
    (void)unlink(path_of("a-1.npz"));
    check_error(mf_load_checkpoint(folder, whole(0), rows), "a-1.npz: cannot be read");
    catch_warnings();
    CHECK_EQ_INT(mf_save_checkpoint("/nowhere/at/all", whole(0), mf_none()), MF_ERROR_IO);
    CHECK_EQ_INT(count_warnings("/nowhere/at/all: cannot be made"), 1);
}

/* A file of another checkpoint in place of this one's. */
TEST(files_of_two_checkpoints_do_not_mix)
{
    new_folder();
    save("44", 1);
    char to[192], other[64];
    snprintf(to, sizeof to, "%s", path_of("a-1.npz"));
    snprintf(other, sizeof other, "/tmp/mf_checkpoint_other_%d", (int)getpid());
    CHECK_EQ_INT(rename(to, other), 0);
    save("44", 2);
    save("44", 3);
    CHECK_EQ_INT(rename(other, to), 0);
    check_error(mf_load_checkpoint(folder, whole(0), all_rows()), "a-1.npz: expected a file of the checkpoint that the index names");
}

TEST(an_index_that_lies_is_an_error)
{
    static const int64_t heads[][3] = { { 2, 0, 2 },       { 1, 2, 2 },         { 1, 0, -1 }, { 1, 0, 0 },
                                        { 1, 0, 1 << 30 }, { 1, 0, INT64_MAX }, { 1, 0, 3 } };
    static const int64_t bounds[][3] = { { 0, 4, 9 }, { 1, 4, 8 }, { 0, 9, 8 }, { 0, -4, 8 }, { 0, 0, INT64_MAX } };
    new_folder();
    mf_value rows = numbers(MF_SHAPE(8, 3), MF_F32), id = mf_from_host(MF_I64, MF_SHAPE(1), &(int64_t){ 5 });
    CHECK_EQ_INT(mf_save_checkpoint(folder, mf_none(), rows), MF_OK);
    for (size_t i = 0; i < sizeof heads / sizeof *heads + sizeof bounds / sizeof *bounds; i++) {
        size_t k = i < sizeof heads / sizeof *heads ? 0 : i - sizeof heads / sizeof *heads;
        const int64_t *head = i < sizeof heads / sizeof *heads ? heads[i] : (const int64_t[]){ 1, 0, 2 };
        mf_value index = mf_dict("checkpoint", mf_from_host(MF_I64, MF_SHAPE(3), head), "id", id, "rows",
                                 mf_from_host(MF_I64, MF_SHAPE(3), bounds[k]));
        CHECK_EQ_INT(mf_save_npz(path_of("index.npz"), index), MF_OK);
        mf_value made = mf_load_checkpoint(folder, mf_none(), rows);
        CHECK_EQ_INT(mf_error_status(made), MF_ERROR_IO);
        CHECK_CONTAINS(mf_error(made), ".npz");
    }
}

TEST(an_error_of_one_is_an_error_of_all)
{
    new_folder();
    save("44", 1);
    trial t = job_of("44");
    t.broken = "v";
    catch_warnings();
    run(&t, save_rank);
    CHECK_EQ_INT(count_warnings("process 1 could not begin to save; it says why"), 1);
    CHECK_EQ_INT(t.status[0], MF_ERROR_PEER);
    CHECK_EQ_INT(t.status[1], MF_ERROR_SHAPE);
    load("35", 1);
    (void)unlink(path_of("a-1.npz"));
    t = job_of("44");
    run(&t, load_rank);
    CHECK_EQ_INT(t.status[0], MF_ERROR_PEER);
    CHECK_CONTAINS(t.words[0], "process 1 could not read its part");
    CHECK_CONTAINS(t.words[1], "a-1.npz: cannot be read");
}
