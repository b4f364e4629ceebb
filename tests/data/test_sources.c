/* Sources: arrays, mapped .npy files, image folders (tests/oracle/images.py), text, custom ones; CSV; and prefetching. */
#include "check.h"
#include "folder.h"
#include "warnings.h"

#include <manyfold.h>
#include <stdatomic.h>
#include <sys/stat.h>
#include <unistd.h>

static void quiet(mf_status status, const char *message, void *context) { (void)status, (void)message, (void)context; }

/* The first batch that a loader of the source returns. */
static mf_value first_batch(mf_loader *l)
{
    mf_value batch = mf_none();
    CHECK(mf_loader_next(l, &batch));
    return batch;
}

#define REFUSED(source, said)                                             \
    do {                                                                  \
        mf_loader *l_ = mf_loader_open_source((source), .batch_size = 1); \
        CHECK_CONTAINS(mf_error(first_batch(l_)), (said));                \
        CHECK_EQ_INT(mf_loader_batches(l_), 0);                           \
        mf_loader_close(l_);                                              \
    } while (0)

/* ------------------------------------------------------------------ .npy */

TEST(mapped_arrays_give_what_arrays_in_memory_give)
{
    MF_SCOPE;
    folder f;
    char x[128], y[128];
    REQUIRE(folder_make(&f));
    snprintf(x, sizeof x, "%s", folder_path(&f, "x.npy"));
    snprintf(y, sizeof y, "%s", folder_path(&f, "y.npy"));
    mf_value data = mf_dict("x", mf_reshape(mf_arange(60, MF_F32), MF_SHAPE(10, 2, 3)), "y", mf_arange(10, MF_I64));
    CHECK_EQ_INT(mf_save_npy(x, mf_get(data, "x")), MF_OK);
    CHECK_EQ_INT(mf_save_npy(y, mf_get(data, "y")), MF_OK);
    mf_loader_options o = { .batch_size = 4, .shuffle = true, .shuffle_seed = 9, .pad_last = true };
    mf_source *source = mf_source_npy(mf_dict("x", x, "y", y));
    CHECK_EQ_INT(mf_source_rows(source), 10);
    mf_loader *mapped = mf_loader_open_source_opt(source, &o), *memory = mf_loader_open_opt(data, &o);
    for (int i = 0; i < 8; i++) {
        mf_value a, b;
        bool more = mf_loader_next(memory, &b);
        CHECK_EQ_INT(mf_loader_next(mapped, &a), more);
        if (more)
            CHECK_STR(mf_str(a), mf_str(b));
    }
    mf_loader_close(mapped);
    mf_loader_close(memory);
    CHECK_EQ_INT(mf_save_npy(y, mf_arange(9, MF_I64)), MF_OK);
    REFUSED(mf_source_npy(mf_dict("x", x, "y", y)), "y.npy: expected 10 rows, as the first file has, found 9");
    REFUSED(mf_source_npy(mf_dict("x", "/nowhere/x.npy")), "/nowhere/x.npy: cannot be read: No such file");
    REFUSED(mf_source_npy(mf_dict("x", 3)), "the leaves are paths");
    CHECK_EQ_INT(truncate(x, 200), 0);
    REFUSED(mf_source_npy(mf_string(x)), "x.npy: at byte 200: expected 240 bytes of data from byte 128 on, the file ends here");
    CHECK_EQ_INT(truncate(x, 0), 0);
    REFUSED(mf_source_npy(mf_string(x)), "x.npy: at byte 0: expected the magic bytes");
    CHECK_EQ_INT(mf_save_npy(x, mf_f(1)), MF_OK);
    REFUSED(mf_source_npy(mf_string(x)), "expected an array with rows");
    folder_remove(&f);
}

/* ------------------------------------------------------------------ pictures */

static void check_pixels(mf_value image, const char *numbers, int tolerance, const char *name)
{
    unsigned char ours[6 * 8 * 3];
    CHECK_EQ_INT(mf_to_host(image, MF_U8, ours, sizeof ours), MF_OK);
    char *at = (char *)(uintptr_t)numbers;
    for (size_t i = 0; i < sizeof ours; i++)
        if (!CHECK(labs(strtol(at, &at, 10) - ours[i]) <= tolerance)) {
            CHECK_NOTE("%s: byte %zu is %d", name, i, ours[i]);
            return;
        }
}

/* A JPEG decoder may round a pixel in either direction; for PNG every bit must agree. */
TEST(pictures_as_pillow_reads_them)
{
    MF_SCOPE;
    static char line[1 << 14];
    char path[512], name[64];
    snprintf(path, sizeof path, "%s/oracle/images/images.txt", MF_TESTS_DIR);
    FILE *f = fopen(path, "r");
    REQUIRE(f && fgets(line, sizeof line, f));
    snprintf(path, sizeof path, "%s/oracle/images", MF_TESTS_DIR);
    mf_source *source = mf_source_images(path);
    CHECK_EQ_INT(mf_source_rows(source), 6);
    CHECK_STR(mf_source_class(source, 0), "ant");
    CHECK_STR(mf_source_class(source, 1), "bee");
    CHECK_STR(mf_source_class(source, 2), NULL);
    mf_loader *l = mf_loader_open_source(source, .batch_size = 1, .prefetch = 4, .workers = 3);
    mf_value batch;
    int count = 0, label, read;
    while (mf_loader_next(l, &batch)) {
        MF_SCOPE;
        REQUIRE(CHECK(fgets(line, sizeof line, f) && sscanf(line, "%63s %d%n", name, &label, &read) == 2));
        if (!CHECK(!mf_is_error(batch)))
            CHECK_NOTE("%s", mf_error(batch));
        CHECK_EQ_INT(mf_item_i64(mf_get(batch, "label")), label);
        check_pixels(mf_get(batch, "image", 0), line + read, label ? 2 : 0, name);
        count++;
    }
    CHECK_EQ_INT(count, 6);
    fclose(f);
    mf_loader_close(l);
    l = mf_loader_open_source(mf_source_images(path, .channels = 1), .batch_size = 3);
    CHECK_STR(mf_str(mf_shape_of(mf_get(first_batch(l), "image"))), "(3, 6, 8, 1)");
    mf_loader_close(l);
}

/* A resized image equals mf_image_resize's result, rounded; the filter is f64 here and f32 there. */
TEST(pictures_of_another_size)
{
    MF_SCOPE;
    static const mf_shape sizes[] = { { .rank = 2, .dims = { 4, 5 } }, { .rank = 2, .dims = { 11, 3 } }, { .rank = 2, .dims = { 6, 8 } } };
    char path[512];
    snprintf(path, sizeof path, "%s/oracle/images", MF_TESTS_DIR);
    mf_loader *l = mf_loader_open_source(mf_source_images(path), .batch_size = 6);
    mf_value batch = mf_copy(mf_get(first_batch(l), "image"));
    mf_loader_close(l);
    for (int i = 0; i < 3; i++) {
        int64_t height = sizes[i].dims[0], width = sizes[i].dims[1];
        l = mf_loader_open_source(mf_source_images(path, .height = height, .width = width, .resize = true), .batch_size = 6);
        mf_value got = mf_get(first_batch(l), "image"), expected = mf_image_resize(batch, MF_SHAPE(6, height, width, 3), MF_RESIZE_LINEAR);
        CHECK_EQ_INT(mf_dtype_of(got), MF_U8);
        CHECK_EQ_INT(mf_dim(got, 1), height);
        mf_value apart = mf_max(mf_abs(mf_sub(mf_astype(got, MF_F32), expected)));
        if (!CHECK(mf_item_f64(apart) <= 0.5 + 1e-3))
            CHECK_NOTE("%d by %d: %s", (int)height, (int)width, mf_str(apart));
        mf_loader_close(l);
    }
}

static size_t read_bytes(const char *name, unsigned char *out, size_t room)
{
    char path[512];
    snprintf(path, sizeof path, "%s/oracle/images/%s", MF_TESTS_DIR, name);
    FILE *f = fopen(path, "rb");
    size_t n = f ? fread(out, 1, room, f) : 0;
    if (f)
        fclose(f);
    CHECK(n > 0);
    return n;
}

/* A file truncated anywhere gives an error that names it, or still the image; nothing else. */
static void cut(const char *name, const char *as)
{
    static unsigned char bytes[1 << 14];
    folder f;
    size_t n = read_bytes(name, bytes, sizeof bytes);
    REQUIRE(folder_make(&f));
    for (size_t size = 0; size < n; size += size < 64 ? 1 : 7) {
        MF_SCOPE;
        folder_write(&f, as, bytes, size, false);
        mf_loader *l = mf_loader_open_source(mf_source_images(f.path, .height = 6, .width = 8), .batch_size = 1);
        mf_value batch = first_batch(l);
        bool whole = !mf_is_error(batch);
        if (!CHECK(!whole || size + 16 > n))
            CHECK_NOTE("%s with %zu of %zu bytes", name, size, n);
        if (!whole) {
            CHECK_CONTAINS(mf_error(batch), as);
            CHECK_CONTAINS(mf_error(batch), "at offset ");
            CHECK_EQ_INT(mf_error_status(batch), MF_ERROR_IO);
        }
        mf_loader_close(l);
    }
    folder_remove(&f);
}

TEST(truncated_pictures_are_named)
{
    cut("ant/1.png", "cut.png");
    cut("bee/1.jpg", "cut.jpg");
    cut("bee/2.jpeg", "cut.jpg");
}

TEST(folders_that_are_none)
{
    MF_SCOPE;
    static unsigned char bytes[1 << 14];
    folder f;
    REQUIRE(folder_make(&f));
    REFUSED(mf_source_images("/nowhere"), "/nowhere: cannot be read: No such file");
    REFUSED(mf_source_images(f.path), "expected files .png, .jpg or .jpeg");
    folder_write(&f, "a.png", bytes, read_bytes("ant/1.png", bytes, sizeof bytes), false);
    folder_write(&f, "b.png", "no picture at all", 17, false);
    REFUSED(mf_source_images(f.path, .channels = 2), "channels is 2");
    mf_loader *l = mf_loader_open_source(mf_source_images(f.path), .batch_size = 1);
    CHECK_STR(mf_str(mf_shape_of(mf_get(first_batch(l), "image"))), "(1, 6, 8, 3)");
    CHECK_CONTAINS(mf_error(first_batch(l)), "b.png: at offset 0: expected the first bytes of a PNG or a JPEG");
    mf_loader_close(l);
    l = mf_loader_open_source(mf_source_images(f.path, .height = 7, .width = 8), .batch_size = 1);
    CHECK_CONTAINS(mf_error(first_batch(l)), "a.png: expected a picture of 7 by 8 pixels (height by width), as all have, found 6 by 8");
    mf_loader_close(l);
    folder_remove(&f);
}

/* ------------------------------------------------------------------ text */

TEST(text_comes_in_windows)
{
    MF_SCOPE;
    folder f;
    REQUIRE(folder_make(&f));
    folder_write(&f, "t.txt", "abcdefgh\xff", 9, false);
    mf_loader *l = mf_loader_open_source(mf_source_text(folder_path(&f, "t.txt"), 3), .batch_size = 2);
    CHECK_EQ_INT(mf_loader_batches(l), 1);
    CHECK_STR(mf_str(mf_get(first_batch(l), "tokens")), "[[ 97  98  99 100]\n [100 101 102 103]]");
    mf_loader_close(l);
    l = mf_loader_open_source(mf_source_text(folder_path(&f, "t.txt"), 4, .stride = 1), .batch_size = 5);
    CHECK_STR(mf_str(mf_get(first_batch(l), "tokens", 4)), "[101 102 103 104 255]");
    mf_loader_close(l);
    l = mf_loader_open_source(mf_source_text(folder_path(&f, "t.txt"), 8), .batch_size = 1);
    CHECK_EQ_INT(mf_loader_batches(l), 1);
    mf_loader_close(l);
    REFUSED(mf_source_text(folder_path(&f, "t.txt"), 9), "t.txt: at offset 9: expected a window of 9 bytes");
    REFUSED(mf_source_text(folder_path(&f, "t.txt"), 0), "expected at least 1");
    REFUSED(mf_source_text("/nowhere.txt", 3), "/nowhere.txt: cannot be read");
    folder_write(&f, "e.txt", "", 0, false);
    REFUSED(mf_source_text(folder_path(&f, "e.txt"), 3), "e.txt: cannot be read: it is empty");
    REFUSED(mf_source_text("/dev/zero", 3), "it is no regular file");
    folder_remove(&f);
}

/* ------------------------------------------------------------------ CSV */

static mf_value csv(folder *f, const char *text)
{
    folder_write(f, "t.csv", text, strlen(text), false);
    return mf_load_csv(folder_path(f, "t.csv"));
}

TEST(csv_files_are_columns)
{
    MF_SCOPE;
    folder f;
    REQUIRE(folder_make(&f));
    mf_value t = csv(&f, "\xef\xbb\xbf"
                         "a, \"b \"\"c\"\"\" ,d\r\n1,2.5,-3e2\r\n\r\n \"4\",,6\n");
    CHECK_CONTAINS(mf_error(t), "(line 4, column 1): expected a number"); /* quotes inside an unquoted field are ordinary characters */
    CHECK_CONTAINS(mf_error(csv(&f, "a,b\n\"1\"2,3\n")), "expected a delimiter or the end of the line");
    t = csv(&f, "\xef\xbb\xbf"
                "a,\"b \"\"c\"\"\",d\r\n1,2.5,-3e2\r\n\r\n\"4\", ,6");
    CHECK_STR(mf_str(mf_get(t, "a")), "[1. 4.]");
    CHECK_STR(mf_str(mf_get(t, "b \"c\"")), "[2.5 nan]");
    CHECK_STR(mf_str(mf_get(t, "d")), "[-300.    6.]");
    folder_write(&f, "t.csv", "1;2\n3;4\n", 8, false);
    t = mf_load_csv(folder_path(&f, "t.csv"), .delimiter = ';', .no_header = true, .dtype = MF_I32);
    CHECK_STR(mf_str(t), "{'0': [1 3], '1': [2 4]}");
    CHECK_EQ_INT(mf_dim(mf_get(csv(&f, "a,b\n"), "a"), 0), 0);
    CHECK_CONTAINS(mf_error(csv(&f, "a,b\n1,2\n3,x\n")), "t.csv: at offset 10 (line 3, column 2): expected a number");
    CHECK_CONTAINS(mf_error(csv(&f, "a,b\n1,2\n3\n")), "at offset 8 (line 3, column 1): expected 2 fields in each line");
    CHECK_CONTAINS(mf_error(csv(&f, "a,b\n1,2,3\n")), "(line 2, column 2): expected 2 fields");
    CHECK_CONTAINS(mf_error(csv(&f, "a,a\n")), "(line 1, column 2): expected a name that no other column has");
    CHECK_CONTAINS(mf_error(csv(&f, "a\n\"1\n")), "at offset 2 (line 3, column 1): expected the end of what is in quotes");
    CHECK_CONTAINS(mf_error(csv(&f, "\n\n")), "expected a line");
    CHECK_CONTAINS(mf_error(mf_load_csv("/nowhere.csv")), "/nowhere.csv: cannot be read");
    folder_remove(&f);
}

static mf_value whole_csv(folder *f, const char *fields, mf_dtype dtype)
{
    char text[128];
    snprintf(text, sizeof text, "a,b\n1,%s\n", fields);
    folder_write(f, "t.csv", text, strlen(text), false);
    return mf_load_csv(folder_path(f, "t.csv"), .dtype = dtype);
}

TEST(csv_files_of_whole_numbers_lose_none)
{
    MF_SCOPE;
    folder f;
    REQUIRE(folder_make(&f));
    CHECK_STR(mf_str(mf_get(whole_csv(&f, "-2147483648\n1,+7\n1,3e2\n1,4.0", MF_I32), "b")),
              "[-2147483648           7         300           4]");
    CHECK_STR(mf_str(mf_get(whole_csv(&f, "9007199254740993\n1,-9223372036854775808", MF_I64), "b")),
              "[    9007199254740993 -9223372036854775808]");
    CHECK_STR(mf_str(mf_get(whole_csv(&f, "18446744073709551615", MF_U64), "b")), "[18446744073709551615]");
    CHECK_STR(mf_str(mf_get(whole_csv(&f, "0", MF_BOOL), "b")), "[False]");
    CHECK_CONTAINS(mf_error(whole_csv(&f, "2.5", MF_I32)),
                   "t.csv: at offset 6 (line 2, column 2): expected a whole number from -2147483648 to 2147483647, found 2.5");
    CHECK_CONTAINS(mf_error(whole_csv(&f, "3000000000", MF_I32)), "(line 2, column 2): expected a whole number from");
    CHECK_CONTAINS(mf_error(whole_csv(&f, "2\n3,", MF_I32)), "(line 3, column 2): expected a whole number from");
    static const struct {
        const char *field;
        mf_dtype dtype;
    } bad[] = { { "-1", MF_U64 },
                { "18446744073709551616", MF_U64 },
                { "9223372036854775808", MF_I64 },
                { "1e300", MF_I64 },
                { "nan", MF_I8 },
                { "128", MF_I8 },
                { "-129", MF_I8 },
                { "256", MF_U8 },
                { "2", MF_BOOL },
                { "x", MF_I16 },
                { "--1", MF_I16 },
                { "-", MF_I16 } };
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        CHECK_CONTAINS(mf_error(whole_csv(&f, bad[i].field, bad[i].dtype)), "(line 2, column 2): expected a whole number from");
    folder_remove(&f);
}

/* ------------------------------------------------------------------ batches made ahead */

typedef struct squares {
    atomic_int reads, ended;
    int slow, bad;
} squares;

static mf_value read_square(void *context, int64_t row, void *const *places)
{
    squares *s = context;
    atomic_fetch_add(&s->reads, 1);
    if (s->slow)
        usleep((useconds_t)s->slow);
    if (s->bad && row == s->bad)
        return mf_make_error(MF_ERROR_IO, "row %d cannot be read", s->bad);
    *(int32_t *)places[0] = (int32_t)row;
    *(int32_t *)places[1] = (int32_t)(row * row);
    return (mf_value){ 0 };
}

static void end_squares(void *context) { atomic_fetch_add(&((squares *)context)->ended, 1); }

static mf_source *source_of(squares *s, int64_t rows)
{
    return mf_source_new(mf_dict("n", mf_struct(MF_SHAPE0, MF_I32), "square", mf_struct(MF_SHAPE0, MF_I32)), rows, read_square, s,
                         end_squares);
}

/* The batches are the same, however many are prefetched by however many threads, and after any seek. */
TEST(what_is_made_ahead_is_the_same)
{
    MF_SCOPE;
    squares s = { 0 };
    int opened = 0;
    for (int prefetch = 1; prefetch < 40; prefetch += 6)
        for (int workers = 1; workers < 5; workers++) {
            mf_loader_options o = {
                .batch_size = 4, .shuffle = true, .shuffle_seed = 5, .keep_last = workers % 2, .pad_last = workers % 2 == 0
            };
            mf_loader *plain = mf_loader_open_source_opt(source_of(&s, 21), &o);
            o.prefetch = prefetch;
            o.workers = workers;
            mf_loader *ahead = mf_loader_open_source_opt(source_of(&s, 21), &o);
            for (int i = 0; i < 30; i++) {
                MF_SCOPE;
                mf_value a, b;
                if (i % 11 == 10) {
                    CHECK_EQ_INT(mf_loader_seek(plain, i * 7 % 50), MF_OK);
                    CHECK_EQ_INT(mf_loader_seek(ahead, i * 7 % 50), MF_OK);
                }
                bool more = mf_loader_next(plain, &a);
                CHECK_EQ_INT(mf_loader_next(ahead, &b), more);
                CHECK_EQ_INT(mf_loader_position(plain), mf_loader_position(ahead));
                if (more)
                    CHECK_STR(mf_str(b), mf_str(a));
            }
            mf_loader_close(plain);
            mf_loader_close(ahead);
            opened += 2;
        }
    CHECK_EQ_INT(s.ended, opened);
}

TEST(an_error_of_a_row_is_its_batchs_alone)
{
    MF_SCOPE;
    squares s = { .bad = 6 };
    mf_loader *l = mf_loader_open_source(source_of(&s, 12), .batch_size = 4, .prefetch = 2);
    CHECK(!mf_is_error(first_batch(l)));
    CHECK_CONTAINS(mf_error(first_batch(l)), "row 6 cannot be read");
    CHECK_STR(mf_str(mf_get(first_batch(l), "square")), "[ 64  81 100 121]");
    mf_loader_close(l);
}

static mf_value read_missing(void *context, int64_t row, void *const *places)
{
    (void)row;
    (void)places;
    return mf_load_npy(context);
}

/* An error's place is the caller's, whichever thread made the batch; and errors of unused batches are dropped. */
TEST(an_error_made_ahead_has_the_callers_place)
{
    for (int64_t prefetch = 0; prefetch < 4; prefetch += 3) {
        MF_SCOPE;
        char nowhere[] = "/nowhere/x.npy";
        mf_source *source = mf_source_new(mf_struct(MF_SHAPE(), MF_F32), 8, read_missing, nowhere, NULL);
        catch_warnings();
        mf_loader *l = mf_loader_open_source(source, .batch_size = 2, .prefetch = prefetch);
        mf_value batch = first_batch(l);
        CHECK_CONTAINS(mf_error_place(batch), "test_sources.c");
        CHECK_CONTAINS(mf_error(batch), "/nowhere/x.npy");
        CHECK_EQ_INT(mf_error_status(batch), MF_ERROR_IO);
        usleep(100000);
        mf_loader_close(l);
        CHECK_EQ_INT(count_warnings("nowhere"), 0);
    }
}

TEST(options_that_are_none)
{
    MF_SCOPE;
    squares s = { 0 };
    mf_loader *l = mf_loader_open_source(source_of(&s, 3), .batch_size = 1, .prefetch = -1);
    CHECK_CONTAINS(mf_error(first_batch(l)), "prefetch is -1");
    mf_loader_close(l);
    l = mf_loader_open_source(source_of(&s, -1), .batch_size = 1);
    CHECK_CONTAINS(mf_error(first_batch(l)), "a negative number of rows");
    mf_loader_close(l);
    CHECK_EQ_INT(s.ended, 2);
    mf_source_close(source_of(&s, 3));
    mf_source_close(NULL);
    CHECK_EQ_INT(s.ended, 3);
    l = mf_loader_open_source(NULL, .batch_size = 1);
    CHECK_EQ_INT(mf_error_status(first_batch(l)), MF_ERROR_MEMORY);
    mf_loader_close(l);
    l = mf_loader_open_source(mf_source_new(mf_dict("x", mf_tuple()), 1, read_square, NULL, NULL), .batch_size = 1);
    CHECK_CONTAINS(mf_error(first_batch(l)), "the dataset has no arrays");
    mf_loader_close(l);
}

/* ------------------------------------------------------------------ the trace */

/* The number of slices with this name, and their total time in microseconds. */
static int count_slices(const char *text, const char *name, double *time)
{
    char key[64];
    int count = 0;
    snprintf(key, sizeof key, "\"name\":\"%s\"", name);
    *time = 0;
    for (const char *at = text; (at = strstr(at, key)); at++) {
        const char *duration = strstr(at, "\"dur\":");
        *time += duration ? strtod(duration + 6, NULL) : 0;
        count++;
    }
    return count;
}

/* With steps of 4 ms and batches of 2 ms, prefetched batches are ready when they are requested, and the trace shows it. */
static double waited(int64_t prefetch, int *made)
{
    static char text[1 << 20], path[64];
    squares s = { .slow = 500 };
    mf_set_error_hook(quiet, NULL);
    snprintf(path, sizeof path, "/tmp/mf_prefetch_%d.json", (int)getpid());
    mf_loader *l = mf_loader_open_source(source_of(&s, 400), .batch_size = 4, .prefetch = prefetch);
    (void)first_batch(l);
    CHECK_EQ_INT(mf_profiler_start_trace(path), MF_OK);
    for (int i = 0; i < 20; i++) {
        usleep(4000);
        int64_t began = mf_profiler_begin();
        (void)first_batch(l);
        mf_profiler_end(began, "next batch");
    }
    CHECK_EQ_INT(mf_profiler_stop_trace(), MF_OK);
    mf_loader_close(l);
    mf_set_error_hook(NULL, NULL);
    FILE *f = fopen(path, "r");
    size_t n = f ? fread(text, 1, sizeof text - 1, f) : 0;
    text[n] = 0;
    if (f)
        fclose(f);
    (void)unlink(path);
    double nobody, all;
    *made = count_slices(text, "make a batch", &nobody);
    CHECK_EQ_INT(count_slices(text, "next batch", &all), 20);
    return all;
}

TEST(a_step_does_not_wait_for_a_batch_that_could_have_been_ready)
{
    int made, none;
    double ahead = waited(4, &made), asked = waited(0, &none);
    CHECK(made >= 15);
    CHECK_EQ_INT(none, 0);
    CHECK(asked > 20 * 4 * 500.0); /* each request waits for the four reads of its batch */
    if (!CHECK(ahead < asked / 2))
        CHECK_NOTE("%.0f us of waiting beside %.0f", ahead, asked);
}
