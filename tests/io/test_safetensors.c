/* safetensors: the files of the reference library (tests/oracle/safetensors_files.py), files written here, and invalid headers. */
#include "check.h"

#include <manyfold.h>
#include <unistd.h>

static char folder[64];

static void remove_folder(void)
{
    static const char *const names[] = { "a", "b", "x", "t.npz" };
    char path[160];
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        snprintf(path, sizeof path, "%s/%s", folder, names[i]);
        (void)unlink(path);
    }
    (void)rmdir(folder);
}

static const char *in_folder(const char *name)
{
    static char path[4][160];
    static int next;
    if (!folder[0]) {
        snprintf(folder, sizeof folder, "/tmp/mf_safetensors_XXXXXX");
        if (!mkdtemp(folder))
            abort();
        atexit(remove_folder);
    }
    char *at = path[next++ % 4];
    snprintf(at, sizeof path[0], "%s/%s", folder, name);
    return at;
}

static const char *oracle(const char *name)
{
    static char path[512];
    snprintf(path, sizeof path, "%s/oracle/safetensors/%s.safetensors", MF_TESTS_DIR, name);
    return path;
}

static size_t read_file(const char *path, char *out, size_t room)
{
    FILE *f = fopen(path, "rb");
    size_t n = f ? fread(out, 1, room, f) : 0;
    if (f)
        fclose(f);
    return n;
}

/* Checks that a file written here equals the reference library's byte for byte. */
static void check_file(const char *path, const char *name)
{
    static char ours[1 << 16], theirs[1 << 16];
    size_t n = read_file(path, ours, sizeof ours), m = read_file(oracle(name), theirs, sizeof theirs);
    CHECK(m > 0);
    CHECK_EQ_UINT(n, m);
    CHECK_BYTES(ours, theirs, n < m ? n : m);
}

static const struct {
    const char *name;
    mf_dtype dtype;
} every[] = {
    { "bool", MF_BOOL },   { "uint8", MF_U8 },  { "int8", MF_I8 },    { "int16", MF_I16 },     { "uint16", MF_U16 },
    { "float16", MF_F16 }, { "int32", MF_I32 }, { "uint32", MF_U32 }, { "float32", MF_F32 },   { "complex64", MF_C64 },
    { "float64", MF_F64 }, { "int64", MF_I64 }, { "uint64", MF_U64 }, { "bfloat16", MF_BF16 },
};
enum { EVERY = sizeof every / sizeof *every };

static mf_value every_dtype(void)
{
    mf_value pairs[2 * EVERY];
    for (int i = 0; i < EVERY; i++) {
        pairs[2 * i] = mf_string(every[i].name);
        pairs[2 * i + 1] = mf_array(every[i].dtype, MF_SHAPE(2, 3), 0, 1, 2, 3, 100, 5);
    }
    return mf_dict("every", mf_dict_n(pairs, 2 * EVERY));
}

TEST(every_dtype_as_the_library_writes_it)
{
    MF_SCOPE;
    mf_value tree = every_dtype(), theirs = mf_load_safetensors(oracle("every"));
    CHECK_EQ_INT(mf_len(theirs), EVERY);
    for (int i = 0; i < EVERY; i++) {
        char name[32];
        snprintf(name, sizeof name, "every/%s", every[i].name);
        mf_value a = mf_get(theirs, name), b = mf_get(tree, "every", every[i].name);
        CHECK_EQ_INT(mf_dtype_of(a), every[i].dtype);
        CHECK_STR(mf_str(a), mf_str(b));
    }
    CHECK_EQ_INT(mf_save_safetensors(in_folder("a"), tree), MF_OK);
    check_file(in_folder("a"), "every");
    CHECK_STR(mf_str(mf_load_tree(in_folder("a"), tree)), mf_str(tree));
}

TEST(names_shapes_and_metadata)
{
    MF_SCOPE;
    static const char odd[] = "quote\"back\\slash\n\u00e9\U0001f600\x01";
    mf_value theirs = mf_load_safetensors(oracle("names")), said = mf_load_safetensors_metadata(oracle("names"));
    CHECK_STR(mf_str(mf_get(theirs, "model.layers.0.weight")), "[[[ 0.5]\n  [-2. ]]]");
    CHECK_STR(mf_str(mf_get(theirs, odd)), "7");
    CHECK_STR(mf_str(mf_shape_of(mf_get(theirs, "empty"))), "(0, 3)");
    CHECK_STR(mf_static_data(mf_get(said, "format"), &(size_t){ 0 }), "pt");
    CHECK_EQ_INT(mf_save_safetensors(in_folder("b"), theirs, .metadata = said), MF_OK);
    check_file(in_folder("b"), "names");
    mf_value some = mf_load_safetensors(oracle("names"), .prefix = "model.layers.");
    CHECK_EQ_INT(mf_len(some), 1);
    CHECK_EQ_INT(mf_len(mf_load_safetensors_metadata(oracle("every"))), 0);
}

TEST(trees_come_back)
{
    MF_SCOPE;
    mf_value tree = mf_dict("conv", mf_dict("kernel", mf_reshape(mf_arange(6, MF_F32), MF_SHAPE(3, 2))), "list",
                            mf_tuple(mf_scalar(2, MF_BF16), mf_transpose(mf_reshape(mf_arange(6, MF_I64), MF_SHAPE(2, 3)), MF_INTS0)));
    CHECK_EQ_INT(mf_save_safetensors(in_folder("a"), tree), MF_OK);
    CHECK_STR(mf_str(mf_load_tree(in_folder("a"), tree)), mf_str(tree));
    CHECK_STR(mf_str(mf_get(mf_load_safetensors(in_folder("a")), "list/1")), "[[0 3]\n [1 4]\n [2 5]]");
    CHECK_EQ_INT(mf_save_npz(in_folder("t.npz"), tree), MF_OK);
    CHECK_STR(mf_str(mf_load_tree(in_folder("t.npz"), tree)), mf_str(tree));
    mf_value other = mf_dict("conv", mf_dict("kernel", mf_zeros(MF_SHAPE(2, 3), MF_F32)));
    CHECK_CONTAINS(mf_error(mf_load_tree(in_folder("a"), other)), "a: conv/kernel: expected float32(2, 3), the file has float32(3, 2)");
    CHECK_CONTAINS(mf_error(mf_load_tree(in_folder("a"), mf_dict("w", mf_f(1)))), "a: expected an array named w");
    CHECK_CONTAINS(mf_error(mf_load_tree(in_folder("a"), mf_dict())), "a: the file has ");
    CHECK_STR(mf_str(mf_load_tree(in_folder("a"), mf_dict(), .partial = true)), "{}");
    CHECK_EQ_INT(mf_save_safetensors(in_folder("a"), mf_dict_n(NULL, 0)), MF_OK);
    CHECK_EQ_INT(mf_len(mf_load_safetensors(in_folder("a"))), 0);
}

static mf_value load(const char *header, size_t data)
{
    char bytes[4096] = { 0 };
    uint64_t n = strlen(header);
    memcpy(bytes, &n, 8);
    memcpy(bytes + 8, header, n);
    FILE *f = fopen(in_folder("x"), "wb");
    fwrite(bytes, 1, 8 + n + data, f);
    fclose(f);
    return mf_load_safetensors(in_folder("x"));
}

#define A "\"a\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0,4]}"

/* The reference library refuses these, too, except repeated names and keys, which the format's specification forbids. */
TEST(hostile_headers_are_refused)
{
    static const struct {
        const char *header;
        size_t data;
        const char *expected;
    } cases[] = {
        { "", 0, "at byte 8: expected the header's opening brace" },
        { "[]", 0, "at byte 8: expected the header's opening brace" },
        { "{", 0, "at byte 9: expected" },
        { "{} x", 0, "at byte 11: expected nothing but blanks" },
        { "{" A ",}", 4, "expected a string" },
        { "{" A ",\"b\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0,4]}}", 4,
          "expected a tensor at offset 4, where the one before it ends; b is at 0: they overlap" },
        { "{" A ",\"b\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[8,12]}}", 12, "b is at 8: a hole" },
        { "{\"b\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[4,8]}}", 8, "at byte 9: expected a tensor at offset 0" },
        { "{" A "," A "}", 4, "expected each name once" },
        { "{" A "}", 5, "expected the end of the file, where the last tensor ends" },
        { "{" A "}", 3, "begin, and end, before the end of the file (tensor a)" },
        { "{\"a\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[0,4]}}", 4, "as many bytes as its dtype and shape make (tensor a)" },
        { "{\"a\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[4,0]}}", 4, "begin, and end," },
        { "{\"a\":{\"dtype\":\"F32\",\"shape\":[4611686018427387904,4],\"data_offsets\":[0,0]}}", 0, "as many bytes as" },
        { "{\"a\":{\"dtype\":\"F32\",\"shape\":[0,4611686018427387904,8],\"data_offsets\":[0,0]}}", 0, "as many bytes as" },
        { "{\"a\":{\"dtype\":\"F32\",\"shape\":[18446744073709551616],\"data_offsets\":[0,0]}}", 0,
          "at byte 37: expected a whole number from 0 to 2^64-1 (tensor a)" },
        { "{\"a\":{\"dtype\":\"F32\",\"shape\":[1.0],\"data_offsets\":[0,4]}}", 4, "a whole number" },
        { "{\"a\":{\"dtype\":\"F32\",\"shape\":[-1],\"data_offsets\":[0,4]}}", 4, "a whole number" },
        { "{\"a\":{\"dtype\":\"F32\",\"shape\":[1,1,1,1,1,1,1,1,1],\"data_offsets\":[0,4]}}", 4, "at most 8 sizes" },
        { "{\"a\":{\"dtype\":\"F8_E4M3\",\"shape\":[4],\"data_offsets\":[0,4]}}", 4, "at byte 22: expected a dtype of" },
        { "{\"a\":{\"dtype\":\"F32\",\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0,4]}}", 4,
          "each of dtype, shape and data_offsets once" },
        { "{\"a\":{\"dtype\":\"F32\",\"shape\":[1]}}", 4, "dtype, shape and data_offsets before the end" },
        { "{\"a\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0,4],\"x\":{}}", 4, "a comma or the end of an object" },
        { "{\"a\\u0000b\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0,4]}}", 4, "a name without zeros" },
        { "{\"a\\ud800\":{}}", 0, "a character of a string" },
        { "{\"a\xff\":{}}", 0, "a character of a string" },
        { "{\"a\":1}", 0, "an object that tells of a tensor" },
        { "{\"__metadata__\":{\"a\":1}}", 0, "at byte 29: expected a string" },
        { "{\"__metadata__\":{\"a\":\"1\",\"a\":\"2\"}}", 0, "each key of __metadata__ once" },
        { "{\"__metadata__\":{},\"__metadata__\":{}}", 0, "__metadata__ once" },
        { "{\"a", 0, "the end of a string" },
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        MF_SCOPE;
        mf_value v = load(cases[i].header, cases[i].data);
        if (!CHECK(mf_is_error(v)))
            CHECK_NOTE("%s", cases[i].header);
        CHECK_CONTAINS(mf_error(v), cases[i].expected);
        CHECK_CONTAINS(mf_error(v), "/x: at byte ");
        CHECK_EQ_INT(mf_error_status(v), MF_ERROR_IO);
    }
    CHECK_STR(mf_str(mf_get(load("  {" A "}  ", 4), "a")), "[0.]");
}

TEST(lengths_are_not_believed)
{
    MF_SCOPE;
    static const uint64_t lengths[] = { 3, 100000001, UINT64_MAX, INT64_MAX };
    for (int i = 0; i < 4; i++) {
        FILE *f = fopen(in_folder("x"), "wb");
        fwrite(&lengths[i], 8, 1, f);
        fwrite("{}", 1, 2, f);
        fclose(f);
        CHECK_CONTAINS(mf_error(mf_load_safetensors(in_folder("x"))), "x: at byte 0: expected the length of the header");
    }
    fclose(fopen(in_folder("x"), "wb"));
    CHECK_CONTAINS(mf_error(mf_load_safetensors(in_folder("x"))), "the file is empty");
    CHECK_CONTAINS(mf_error(mf_load_safetensors(in_folder("absent"))), "absent: cannot be read: No such file");
    CHECK_CONTAINS(mf_error(mf_load_safetensors("/dev/zero")), "/dev/zero: cannot be read: it is no regular file");
}

static void note(mf_status status, const char *message, void *context)
{
    (void)status;
    snprintf(context, 512, "%s", message);
}

TEST(what_cannot_be_written_leaves_the_file)
{
    char said[512] = "";
    MF_SCOPE;
    CHECK_EQ_INT(mf_save_safetensors(in_folder("a"), mf_dict("w", 7)), MF_OK);
    mf_set_error_hook(note, said);
    CHECK_EQ_INT(mf_save_safetensors(in_folder("a"), mf_dict("w", mf_zeros(MF_SHAPE(1), MF_C128))), MF_ERROR_ARGUMENT);
    CHECK_CONTAINS(said, "a: w: only arrays of numbers other than c128");
    CHECK_EQ_INT(mf_save_safetensors(in_folder("a"), mf_dict("__metadata__", 1)), MF_ERROR_ARGUMENT);
    CHECK_CONTAINS(said, "the format has this name for itself");
    CHECK_EQ_INT(mf_save_safetensors(in_folder("a"), mf_dict("a/b", 1, "a", mf_dict("b", 2))), MF_ERROR_ARGUMENT);
    CHECK_CONTAINS(said, "a/b: two leaves have this name");
    CHECK_EQ_INT(mf_save_safetensors(in_folder("a"), mf_dict("\xff", 1)), MF_ERROR_ARGUMENT);
    CHECK_CONTAINS(said, "it is not UTF-8");
    CHECK_EQ_INT(mf_save_safetensors(in_folder("a"), mf_dict("w", 1), .metadata = mf_dict("epoch", 1)), MF_ERROR_ARGUMENT);
    CHECK_CONTAINS(said, "the metadata is a dict of strings");
    CHECK_EQ_INT(mf_save_safetensors("/nonexistent/a", mf_dict("w", 1)), MF_ERROR_IO);
    CHECK_CONTAINS(said, "/nonexistent/a: cannot be written");
    CHECK_EQ_INT(mf_save_safetensors(in_folder("a"), mf_make_error(MF_ERROR_SHAPE, "of before")), MF_ERROR_SHAPE);
    mf_set_error_hook(NULL, NULL);
    CHECK_STR(mf_str(mf_load_safetensors(in_folder("a"))), "{'w': 7}");
    (void)mf_first_error(&(const char *){ NULL });
}
