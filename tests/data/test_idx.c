/* Data files: complete files are read; all others are refused with an error that names the file, the offset and what was expected there. */
#include <manyfold.h>

#include "check.h"
#include "folder.h"

#include <unistd.h>

/* Checks that v is an MF_ERROR_IO whose message names the file and contains `part`. */
static void check_refused(mf_value v, const char *path, const char *part)
{
    CHECK_EQ_INT(mf_error_status(v), MF_ERROR_IO);
    CHECK_CONTAINS(mf_error(v), path);
    CHECK_CONTAINS(mf_error(v), part);
}

/* ---- one IDX file */

static const unsigned char header_2x3[] = { 0, 0, 8, 2, 0, 0, 0, 2, 0, 0, 0, 3 };

TEST(reads_plain_and_zipped)
{
    MF_SCOPE;
    folder f;
    REQUIRE(folder_make(&f));
    unsigned char bytes[18], out[6];
    memcpy(bytes, header_2x3, 12);
    memcpy(bytes + 12, "\1\2\3\4\5\377", 6);
    for (int gzip = 0; gzip < 2; gzip++) {
        folder_write(&f, "good", bytes, sizeof bytes, gzip);
        mf_value v = mf_load_idx(folder_path(&f, "good"));
        CHECK_STR(mf_error(v), NULL);
        CHECK_EQ_INT(mf_dtype_of(v), MF_U8);
        CHECK_STR(mf_str(mf_shape_of(v)), "(2, 3)");
        CHECK_EQ_INT(mf_to_host(v, MF_U8, out, 6), MF_OK);
        CHECK_BYTES(out, "\1\2\3\4\5\377", 6);
    }
    folder_remove(&f);
}

TEST(reads_every_type)
{
    static const struct {
        int type;
        mf_dtype dtype;
        size_t bytes;
        unsigned char minus_two[8]; /* big-endian */
    } types[] = {
        { 0x09, MF_I8, 1, { 0xfe } },  { 0x0B, MF_I16, 2, { 0xff, 0xfe } }, { 0x0C, MF_I32, 4, { 0xff, 0xff, 0xff, 0xfe } },
        { 0x0D, MF_F32, 4, { 0xc0 } }, { 0x0E, MF_F64, 8, { 0xc0 } },
    };
    MF_SCOPE;
    folder f;
    REQUIRE(folder_make(&f));
    for (size_t i = 0; i < sizeof types / sizeof *types; i++) {
        unsigned one = 1;
        folder_write_idx(&f, "typed", types[i].type, 1, &one, types[i].minus_two, types[i].bytes);
        mf_value v = mf_load_idx(folder_path(&f, "typed"));
        CHECK_STR(mf_error(v), NULL);
        CHECK_EQ_INT(mf_dtype_of(v), types[i].dtype);
        CHECK_NEAR(mf_item_f64(v), -2, 0);
    }
    folder_remove(&f);
}

TEST(reads_scalars_and_empty_arrays)
{
    MF_SCOPE;
    folder f;
    REQUIRE(folder_make(&f));
    folder_write_idx(&f, "scalar", 8, 0, NULL, "\7", 1);
    CHECK_EQ_INT(mf_item_i64(mf_load_idx(folder_path(&f, "scalar"))), 7);
    folder_write_idx(&f, "empty", 8, 2, (const unsigned[]){ 0, 28 }, NULL, 0);
    CHECK_STR(mf_str(mf_shape_of(mf_load_idx(folder_path(&f, "empty")))), "(0, 28)");
    folder_remove(&f);
}

/* Checks that a file with these bytes is refused with `part`. */
static void check_bytes_refused(folder *f, const void *bytes, size_t size, const char *part)
{
    folder_write(f, "bad", bytes, size, false);
    check_refused(mf_load_idx(folder_path(f, "bad")), "/bad: ", part);
}

TEST(refuses_broken_files)
{
    MF_SCOPE;
    folder f;
    REQUIRE(folder_make(&f));
    unsigned char bytes[20] = { 0 };
    memcpy(bytes, header_2x3, 12);
    check_bytes_refused(&f, bytes, 0, "at offset 0: expected the magic number (4 bytes), found 0 bytes");
    check_bytes_refused(&f, bytes, 2, "at offset 0: expected the magic number (4 bytes), found 2 bytes: the file is truncated");
    check_bytes_refused(&f, bytes, 3, "at offset 0: expected the magic number (4 bytes), found 3 bytes: the file is truncated");
    check_bytes_refused(&f, bytes, 6, "at offset 4: expected the size of dimension 0 of 2 (4 bytes), found 2 bytes: the file is truncated");
    check_bytes_refused(&f, bytes, 12, "at offset 12: expected 6 bytes of data from offset 12 on, found 0: the file is truncated");
    check_bytes_refused(&f, bytes, 17, "at offset 17: expected 6 bytes of data from offset 12 on, found 5: the file is truncated");
    check_bytes_refused(&f, bytes, 19, "at offset 18: expected the end of the file, found more bytes");
    check_bytes_refused(&f, "not a data set", 14, "found 6e 6f 74 20");
    check_bytes_refused(&f, "\0\0\12\1\0\0\0\0", 8, "expected the magic number of an IDX file");
    check_bytes_refused(&f, "\0\0\10\11", 4, "at offset 3: expected a rank of at most 8, found 9");
    check_bytes_refused(&f, "\0\0\10\3\377\377\377\377\377\377\377\377\0\0\0\1", 16,
                        "at offset 8: expected the size of dimension 1 of 3, found 4294967295");
    check_bytes_refused(&f, "\0\0\10\2\0\377\377\377\0\0\377\377", 12, "found 0: the file is truncated"); /* claims 1 TiB of data */
    folder_remove(&f);
}

TEST(refuses_missing_files)
{
    MF_SCOPE;
    folder f;
    REQUIRE(folder_make(&f));
    check_refused(mf_load_idx("/nowhere/at-all.gz"), "/nowhere/at-all.gz", "at offset 0: expected an IDX file: No such file or directory");
    check_refused(mf_load_idx(f.path), f.path, "at offset 0");
    CHECK_EQ_INT(mf_error_status(mf_load_idx(NULL)), MF_ERROR_IO);
    folder_remove(&f);
}

/* Cuts a file to `size` bytes from the start, or flips the byte `flip` from the end. */
static void damage(const char *path, long cut, long flip)
{
    FILE *file = fopen(path, "r+b");
    if (!file)
        return;
    fseek(file, -flip, SEEK_END);
    int byte = fgetc(file);
    fseek(file, -flip, SEEK_END);
    if (flip)
        fputc(byte ^ 0x55, file);
    fflush(file);
    fseek(file, 0, SEEK_END);
    if (cut && ftruncate(fileno(file), ftell(file) - cut) != 0)
        perror(path);
    fclose(file);
}

TEST(refuses_damaged_gzip)
{
    MF_SCOPE;
    folder f;
    REQUIRE(folder_make(&f));
    unsigned char noise[5000];
    unsigned state = 1, size = sizeof noise;
    for (size_t i = 0; i < sizeof noise; i++)
        noise[i] = (unsigned char)((state = state * 1664525 + 1013904223) >> 24);
    folder_write_idx(&f, "cut.gz", 8, 1, &size, noise, sizeof noise);
    damage(folder_path(&f, "cut.gz"), 1000, 0);
    check_refused(mf_load_idx(folder_path(&f, "cut.gz")), "/cut.gz", "expected 5000 bytes of data from offset 8 on");
    folder_write_idx(&f, "end.gz", 8, 1, &size, noise, sizeof noise);
    damage(folder_path(&f, "end.gz"), 5, 0); /* the data is complete, the checksum is not */
    check_refused(mf_load_idx(folder_path(&f, "end.gz")), "/end.gz", "at offset 5008: expected the end of the file");
    folder_write_idx(&f, "sum.gz", 8, 1, &size, noise, sizeof noise);
    damage(folder_path(&f, "sum.gz"), 0, 6);
    check_refused(mf_load_idx(folder_path(&f, "sum.gz")), "/sum.gz", "incorrect data check");
    folder_remove(&f);
}

/* ---- Fashion-MNIST */

static void write_images(folder *f, const char *name, unsigned count, unsigned side)
{
    unsigned char *bytes = malloc((size_t)count * side * side + 1);
    for (size_t i = 0; bytes && i < (size_t)count * side * side; i++)
        bytes[i] = (unsigned char)(i * 7);
    folder_write_idx(f, name, 8, 3, (const unsigned[]){ count, side, side }, bytes, (size_t)count * side * side);
    free(bytes);
}

static void write_labels(folder *f, const char *name, unsigned count, unsigned char first)
{
    unsigned char bytes[16] = { first, 1, 2, 3, 4, 5, 6, 7, 8, 9 };
    folder_write_idx(f, name, 8, 1, &count, bytes, count);
}

TEST(pads_and_scales_images)
{
    MF_SCOPE;
    folder f;
    REQUIRE(folder_make(&f));
    write_images(&f, "t10k-images-idx3-ubyte.gz", 3, 28);
    write_labels(&f, "t10k-labels-idx1-ubyte.gz", 3, 9);
    mf_value v = mf_load_fashion_mnist(f.path, "test");
    REQUIRE(!mf_error(v));
    CHECK_STR(mf_str(mf_get(v, "label")), "[9 1 2]");
    CHECK_EQ_INT(mf_dtype_of(mf_get(v, "label")), MF_I32);
    CHECK_STR(mf_str(mf_shape_of(mf_get(v, "image"))), "(3, 32, 32, 1)");
    float image[3 * 32 * 32];
    CHECK_EQ_INT(mf_to_host(mf_get(v, "image"), MF_F32, image, 3 * 32 * 32), MF_OK);
    for (int n = 0; n < 3; n++)
        for (int row = 0; row < 32; row++)
            for (int column = 0; column < 32; column++) {
                bool inside = row >= 2 && row < 30 && column >= 2 && column < 30;
                unsigned char byte = (unsigned char)(((n * 28 + row - 2) * 28 + column - 2) * 7);
                if (!CHECK(image[(n * 32 + row) * 32 + column] == (inside ? (float)byte / 255.0f : 0.0f)))
                    CHECK_NOTE("image %d, row %d, column %d", n, row, column);
            }
    folder_remove(&f);
}

TEST(refuses_other_data_sets)
{
    MF_SCOPE;
    folder f;
    REQUIRE(folder_make(&f));
    write_images(&f, "train-images-idx3-ubyte.gz", 3, 28);
    check_refused(mf_load_fashion_mnist(f.path, "train"), "train-labels-idx1-ubyte.gz", "No such file");
    write_labels(&f, "train-labels-idx1-ubyte.gz", 4, 0);
    check_refused(mf_load_fashion_mnist(f.path, "train"), "train-labels-idx1-ubyte.gz",
                  "at offset 4: expected 3 labels, one an image, found 4");
    write_labels(&f, "train-labels-idx1-ubyte.gz", 3, 10);
    check_refused(mf_load_fashion_mnist(f.path, "train"), "train-labels-idx1-ubyte.gz", "at offset 8: expected a label below 10, found 10");
    write_images(&f, "train-labels-idx1-ubyte.gz", 3, 28);
    check_refused(mf_load_fashion_mnist(f.path, "train"), "train-labels-idx1-ubyte.gz",
                  "at offset 2: expected bytes in 1 dimension (08 01)");
    write_images(&f, "train-images-idx3-ubyte.gz", 3, 20);
    check_refused(mf_load_fashion_mnist(f.path, "train"), "train-images-idx3-ubyte.gz",
                  "at offset 8: expected images of 28x28, found 20x20");
    CHECK_EQ_INT(mf_error_status(mf_load_fashion_mnist(f.path, "validation")), MF_ERROR_ARGUMENT);
    CHECK_EQ_INT(mf_error_status(mf_load_fashion_mnist(f.path, NULL)), MF_ERROR_ARGUMENT);
    folder_remove(&f);
}

TEST(reads_the_real_one)
{
    MF_SCOPE;
    if (access("/usr/share/datasets/fashion-mnist/t10k-images-idx3-ubyte.gz", R_OK) != 0)
        SKIP("dataset-fashion-mnist is not installed");
    mf_value v = mf_load_fashion_mnist(NULL, "test");
    REQUIRE(!mf_error(v));
    CHECK_STR(mf_str(mf_shape_of(mf_get(v, "image"))), "(10000, 32, 32, 1)");
    int32_t labels[10000], each[10] = { 0 };
    CHECK_EQ_INT(mf_to_host(mf_get(v, "label"), MF_I32, labels, 10000), MF_OK);
    for (int i = 0; i < 10000; i++)
        each[labels[i]]++;
    for (int i = 0; i < 10; i++)
        CHECK_EQ_INT(each[i], 1000);
}

/* ---- CIFAR-10 */

enum { RECORD = 3073, RECORDS = 10000 };

/* Records of zeros, except the first: label 6, pixel (0, 1) = (10, 20, 30). The file is sparse. */
static void write_records(const char *path, long bytes, int label)
{
    FILE *file = fopen(path, "wb");
    if (!file)
        return;
    fputc(label, file);
    for (int channel = 0; channel < 3; channel++) {
        fseek(file, 1 + channel * 1024 + 1, SEEK_SET);
        fputc(10 * (channel + 1), file);
    }
    fflush(file);
    if (ftruncate(fileno(file), bytes) != 0)
        perror(path);
    fclose(file);
}

TEST(reads_planes_as_pixels)
{
    MF_SCOPE;
    folder f;
    REQUIRE(folder_make(&f));
    write_records(folder_path(&f, "test_batch.bin"), (long)RECORD * RECORDS, 6);
    mf_value v = mf_load_cifar10(f.path, "test");
    REQUIRE(!mf_error(v));
    CHECK_STR(mf_str(mf_shape_of(mf_get(v, "image"))), "(10000, 32, 32, 3)");
    CHECK_EQ_INT(mf_item_i64(mf_get(v, "label", 0)), 6);
    for (int channel = 0; channel < 3; channel++)
        CHECK(mf_item_f64(mf_get(v, "image", 0, 0, 1, channel)) == (double)((float)(10 * (channel + 1)) / 255.0f));
    CHECK_NEAR(mf_item_f64(mf_sum(mf_get(v, "image", mf_range(0, 2)))), 60 / 255.0, 1e-6);
    folder_remove(&f);
}

TEST(refuses_broken_records)
{
    MF_SCOPE;
    folder f;
    REQUIRE(folder_make(&f));
    check_refused(mf_load_cifar10(f.path, "train"), "data_batch_1.bin", "expected 10000 records of CIFAR-10: No such file or directory");
    write_records(folder_path(&f, "test_batch.bin"), RECORD + 100, 6);
    check_refused(mf_load_cifar10(f.path, "test"), "test_batch.bin",
                  "at offset 3073: expected record 1 of 10000 (3073 bytes), found 100 bytes: the file is truncated");
    write_records(folder_path(&f, "test_batch.bin"), (long)RECORD * RECORDS, 77);
    check_refused(mf_load_cifar10(f.path, "test"), "test_batch.bin", "at offset 0: expected a label below 10, found 77");
    write_records(folder_path(&f, "test_batch.bin"), (long)RECORD * RECORDS + 1, 1);
    check_refused(mf_load_cifar10(f.path, "test"), "test_batch.bin", "at offset 30730000: expected the end of the file");
    CHECK_EQ_INT(mf_error_status(mf_load_cifar10(f.path, "dev")), MF_ERROR_ARGUMENT);
    CHECK_EQ_INT(mf_error_status(mf_load_cifar10(NULL, "test")), MF_ERROR_ARGUMENT);
    folder_remove(&f);
}
