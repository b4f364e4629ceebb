/* NumPy's files: round trips, other layouts, and damaged files. */
#include "check.h"

#include <manyfold.h>
#include <sys/stat.h>
#include <unistd.h>

static char folder[64];

__attribute__((destructor)) static void remove_folder(void)
{
    static const char *const names[] = { "a.npy", "s.npy", "made.npy", "x.npy", "t.npz", "d.npz", "e.npz" };
    char path[160];
    for (size_t i = 0; folder[0] && i < sizeof names / sizeof *names; i++) {
        snprintf(path, sizeof path, "%s/%s", folder, names[i]);
        (void)unlink(path);
    }
    if (folder[0])
        (void)rmdir(folder);
}

static const char *in_folder(const char *name)
{
    static char path[4][160];
    static int next;
    if (!folder[0]) {
        snprintf(folder, sizeof folder, "/tmp/mf_npy_XXXXXX");
        if (!mkdtemp(folder))
            abort();
    }
    char *at = path[next++ % 4];
    snprintf(at, sizeof path[0], "%s/%s", folder, name);
    return at;
}

static const char *written(const char *name, const void *bytes, size_t size)
{
    const char *path = in_folder(name);
    FILE *f = fopen(path, "wb");
    if (f) {
        fwrite(bytes, 1, size, f);
        fclose(f);
    }
    return path;
}

static size_t file_size(const char *path)
{
    struct stat s;
    return stat(path, &s) ? 0 : (size_t)s.st_size;
}

TEST(every_dtype_comes_back)
{
    static const mf_dtype dtypes[] = { MF_BOOL, MF_I8,  MF_I16,  MF_I32, MF_I64, MF_U8,  MF_U16, MF_U32,
                                       MF_U64,  MF_F16, MF_BF16, MF_F32, MF_F64, MF_C64, MF_C128 };
    for (int i = 0; i < 15; i++) {
        MF_SCOPE;
        mf_value a = mf_array(dtypes[i], MF_SHAPE(2, 3), 0, 1, 2, 3, 100, 5);
        const char *path = in_folder("a.npy");
        CHECK_EQ_INT(mf_save_npy(path, a), MF_OK);
        mf_value b = mf_load_npy(path);
        CHECK_EQ_INT(mf_dtype_of(b), dtypes[i]);
        CHECK_STR(mf_str(b), mf_str(a));
        CHECK_EQ_UINT(file_size(path) % 64, (file_size(path) - 128) % 64);
    }
}

TEST(odd_shapes_come_back)
{
    MF_SCOPE;
    mf_value shapes[] = { mf_scalar(7, MF_F32), mf_zeros(MF_SHAPE(0, 3), MF_F32), mf_arange(1, MF_I64),
                          mf_zeros(MF_SHAPE(1, 1, 1, 1, 1, 1, 1, 2), MF_I8) };
    for (int i = 0; i < 4; i++) {
        CHECK_EQ_INT(mf_save_npy(in_folder("s.npy"), shapes[i]), MF_OK);
        mf_value b = mf_load_npy(in_folder("s.npy"));
        CHECK_STR(mf_str(mf_shape_of(b)), mf_str(mf_shape_of(shapes[i])));
        CHECK_STR(mf_str(b), mf_str(shapes[i]));
    }
}

/* Writes a header as NumPy does, of version 1 to 3, then the data. */
static size_t make_npy(unsigned char *out, int version, const char *header, const void *data, size_t size)
{
    size_t n = strlen(header), begin = version == 1 ? 10 : 12;
    memcpy(out, "\x93NUMPY", 6);
    out[6] = (unsigned char)version;
    out[7] = 0;
    memset(out + 8, 0, 4);
    out[8] = (unsigned char)(n & 255);
    out[9] = (unsigned char)(n >> 8);
    memcpy(out + begin, header, n);
    memcpy(out + begin + n, data, size);
    return begin + n + size;
}

static mf_value load(int version, const char *header, const void *data, size_t size)
{
    unsigned char file[1024];
    return mf_load_npy(written("made.npy", file, make_npy(file, version, header, data, size)));
}

TEST(foreign_layouts)
{
    MF_SCOPE;
    const int16_t columns[] = { 1, 4, 2, 5, 3, 6 };
    const unsigned char big[] = { 0x3f, 0x80, 0, 0, 0x40, 0x49, 0x0f, 0xdb };
    CHECK_STR(mf_str(load(1, "{'descr': '<i2', 'fortran_order': True, 'shape': (2, 3), }\n", columns, 12)), "[[1 2 3]\n [4 5 6]]");
    CHECK_STR(mf_str(load(2, "{'descr': '>f4', 'fortran_order': False, 'shape': (2,), }\n", big, 8)), "[1.        3.1415927]");
    CHECK_STR(mf_str(load(3, "{'shape': (), 'fortran_order': True, 'descr': '>i4'}", big, 4)), "1065353216");
    CHECK_STR(mf_str(load(1, "{'descr': '|u1', 'fortran_order': False, 'shape': (3L,), }", "\1\2\3", 3)), "[1 2 3]");
    CHECK_STR(mf_str(load(1, "{'descr': '>c8', 'fortran_order': False, 'shape': (1,), }", big, 8)), "[1.+3.1415927j]");
}

TEST(damage_is_named)
{
    MF_SCOPE;
    const float data[4] = { 1, 2, 3, 4 };
    CHECK_CONTAINS(mf_error(mf_load_npy(in_folder("absent.npy"))), "absent.npy: cannot be read: No such file");
    CHECK_CONTAINS(mf_error(mf_load_npy(written("x.npy", "hello world, this", 17))), "at byte 0: expected the magic bytes");
    CHECK_CONTAINS(mf_error(mf_load_npy(written("x.npy", "\x93NUMPY\x09\0\0\0aa", 12))), "at byte 6: expected format version");
    CHECK_CONTAINS(mf_error(mf_load_npy(written("x.npy", "\x93NUMPY\x01\0\xff\xff{'", 12))), "at byte 12: expected the whole header");
    CHECK_CONTAINS(mf_error(mf_load_npy(written("x.npy", "", 0))), "at byte 0");
    CHECK_CONTAINS(mf_error(load(1, "{'descr': '<f4', 'fortran_order': False, 'shape': (5,), }", data, 16)),
                   "expected 20 bytes of data from byte 67 on, the file ends here");
    CHECK_CONTAINS(mf_error(load(1, "{'descr': '|O', 'fortran_order': False, 'shape': (2,), }", data, 16)), "a dtype of bool");
    CHECK_CONTAINS(mf_error(load(1, "{'descr': [('a', '<f4')], 'fortran_order': False, 'shape': (2,), }", data, 16)), "a plain dtype");
    CHECK_CONTAINS(mf_error(load(1, "{'descr': '<f4', 'fortran_order': Maybe, 'shape': (2,), }", data, 16)), "True or False");
    CHECK_CONTAINS(mf_error(load(1, "{'descr': '<f4', 'fortran_order': False, 'shape': (2, -1), }", data, 16)), "'shape'");
    CHECK_CONTAINS(mf_error(load(1, "{'descr': '<f4', 'fortran_order': False, 'shape': (99999999999, 99999999999), }", data, 16)),
                   "'shape'");
    CHECK_CONTAINS(mf_error(load(1, "{'descr': '<f4', 'fortran_order': False, 'shape': (1,1,1,1,1,1,1,1,1), }", data, 16)), "'shape'");
    CHECK_EQ_INT(mf_error_status(load(1, "{}", data, 16)), MF_ERROR_IO);
}

static void ignore(mf_status status, const char *message, void *context)
{
    (void)status;
    snprintf(context, 256, "%s", message);
}

TEST(writing_where_nothing_can_be)
{
    char said[256] = "";
    mf_set_error_hook(ignore, said);
    CHECK_EQ_INT(mf_save_npy("/nonexistent/folder/a.npy", mf_f(1)), MF_ERROR_IO);
    CHECK_CONTAINS(said, "/nonexistent/folder/a.npy: cannot be written: No such file");
    CHECK_EQ_INT(mf_save_npz("/nonexistent/folder/a.npz", mf_tuple(1)), MF_ERROR_IO);
    CHECK_CONTAINS(said, "/nonexistent/folder/a.npz: cannot be written");
    CHECK_EQ_INT(mf_save_npy(in_folder("t.npy"), mf_tuple(1)), MF_ERROR_ARGUMENT);
    CHECK_EQ_INT(file_size(in_folder("t.npy")), 0);
    mf_set_error_hook(NULL, NULL);
}

TEST(trees_in_npz)
{
    MF_SCOPE;
    mf_value t = mf_dict("conv1", mf_dict("kernel", mf_arange(6, MF_F32), "bias", mf_zeros(MF_SHAPE(2), MF_BF16)), "steps",
                         mf_list(mf_scalar(3, MF_I32), mf_none()));
    const char *path = in_folder("t.npz");
    CHECK_EQ_INT(mf_save_npz(path, t), MF_OK);
    mf_value flat = mf_load_npz(path);
    CHECK_EQ_INT(mf_len(flat), 3);
    CHECK_STR(mf_key(flat, 0), "conv1/bias");
    CHECK_STR(mf_key(flat, 2), "steps/0");
    CHECK_STR(mf_str(mf_load_tree(path, t)), mf_str(t));
    mf_value other = mf_set(t, mf_zeros(MF_SHAPE(3), MF_BF16), "conv1", "bias");
    CHECK_CONTAINS(mf_error(mf_load_tree(path, other)), "conv1/bias: expected bfloat16(3,), the file has bfloat16(2,)");
    CHECK_CONTAINS(mf_error(mf_load_tree(path, mf_dict("x", 1))), "expected an array named x");
    CHECK_CONTAINS(mf_error(mf_load_tree(path, mf_dict())), ".npz: the file has ");
    CHECK_STR(mf_str(mf_load_tree(path, mf_dict(), .partial = true)), "{}");
    CHECK_EQ_INT(mf_save_npz(path, mf_arange(3, MF_I8)), MF_OK);
    CHECK_STR(mf_str(mf_load_npz(path)), "{'arr_0': [0 1 2]}");
    CHECK_STR(mf_str(mf_load_tree(path, mf_arange(3, MF_I8))), "[0 1 2]");
}

TEST(a_damaged_npz_is_named)
{
    MF_SCOPE;
    const char *path = in_folder("d.npz");
    CHECK_EQ_INT(mf_save_npz(path, mf_dict("a", mf_arange(1000, MF_F32))), MF_OK);
    static unsigned char bytes[1 << 14];
    FILE *f = fopen(path, "rb");
    REQUIRE(f);
    size_t n = fread(bytes, 1, sizeof bytes, f);
    fclose(f);
    bytes[2000] ^= 0x10;
    CHECK_CONTAINS(mf_error(mf_load_npz(written("e.npz", bytes, n))), "e.npz: a.npy: ");
    CHECK_CONTAINS(mf_error(mf_load_npz(written("e.npz", bytes, n / 2))), "e.npz: cannot be read as a zip archive");
    CHECK_CONTAINS(mf_error(mf_load_npz(in_folder("none.npz"))), "none.npz: cannot be read");
}
