/* JPEG, decoded with libjpeg-turbo. Invariants: the library reports errors by longjmp to `guarded`, so the functions in between own nothing
 * but the library's objects; what the library only warns of, such as a truncated file, is an error here. */
#include "data/images/image_files.h"

#if __has_include(<jpeglib.h>)
#include <jpeglib.h>

#include <setjmp.h>
#include <string.h>

#if JPEG_LIB_VERSION >= 80
#define LIBRARY "libjpeg.so.8"
#else
#define LIBRARY "libjpeg.so.62"
#endif

typedef struct jpeg_functions {
    __typeof__(&jpeg_std_error) std_error;
    __typeof__(&jpeg_CreateDecompress) create;
    __typeof__(&jpeg_stdio_src) source;
    __typeof__(&jpeg_read_header) header;
    __typeof__(&jpeg_start_decompress) start;
    __typeof__(&jpeg_read_scanlines) lines;
    __typeof__(&jpeg_destroy_decompress) destroy;
} jpeg_functions;

typedef struct reading {
    struct jpeg_error_mgr errors; /* must be first: the library passes back a pointer to it */
    struct jpeg_decompress_struct jpeg;
    jmp_buf failed;
    bool warned;
    mf_value error;
    char words[JMSG_LENGTH_MAX];
} reading;

static mf_value load(const char *path, jpeg_functions *f)
{
    static const char *const names[] = { "jpeg_std_error",        "jpeg_CreateDecompress", "jpeg_stdio_src",         "jpeg_read_header",
                                         "jpeg_start_decompress", "jpeg_read_scanlines",   "jpeg_destroy_decompress" };
    void *found[7] = { NULL };
    mf_value error = { 0 };
    for (int i = 0; i < 7 && !error.handle; i++)
        found[i] = mf_image_symbol(path, LIBRARY, names[i], &error);
    _Static_assert(sizeof found == sizeof *f, "a symbol for each function");
    memcpy(f, found, sizeof found); /* ISO C has no cast from void * to a function pointer */
    return error;
}

static void note(j_common_ptr jpeg)
{
    reading *r = (reading *)jpeg->err;
    if (!r->warned)
        r->errors.format_message(jpeg, r->words);
    r->warned = true;
}

static void fail(j_common_ptr jpeg)
{
    reading *r = (reading *)jpeg->err;
    note(jpeg);
    longjmp(r->failed, 1);
}

static void warn(j_common_ptr jpeg, int level)
{
    if (level < 0)
        note(jpeg);
}

/* The library's offset in the file, which it reads through a buffer. */
static long offset_of(const reading *r, FILE *file) { return ftell(file) - (r->jpeg.src ? (long)r->jpeg.src->bytes_in_buffer : 0); }

/* Returns unset, or an error about the size; errors of the library leave it by longjmp. */
static mf_value decode(const jpeg_functions *f, reading *r, const char *path, FILE *file, mf_image_size *size, unsigned char *out)
{
    f->create(&r->jpeg, JPEG_LIB_VERSION, sizeof r->jpeg);
    f->source(&r->jpeg, file);
    (void)f->header(&r->jpeg, TRUE);
    mf_value error = mf_image_agree(path, size, r->jpeg.image_height, r->jpeg.image_width, out != NULL);
    if (error.handle || !out)
        return error;
    r->jpeg.out_color_space = size->channels == 1 ? JCS_GRAYSCALE : JCS_RGB;
    (void)f->start(&r->jpeg);
    size_t line = (size_t)size->width * (size_t)size->channels;
    while (r->jpeg.output_scanline < r->jpeg.output_height && !r->warned) {
        JSAMPROW row = out + (size_t)r->jpeg.output_scanline * line;
        (void)f->lines(&r->jpeg, &row, 1);
    }
    return error;
}

/* Between setjmp and longjmp no local variable changes, only *r, so none needs to be volatile. */
static void guarded(const jpeg_functions *f, reading *r, const char *path, FILE *file, mf_image_size *size, unsigned char *out)
{
    if (setjmp(r->failed) == 0)
        r->error = decode(f, r, path, file, size, out);
}

mf_value mf_jpeg_read(const char *path, FILE *file, mf_image_size *size, unsigned char *out)
{
    jpeg_functions f;
    reading r;
    mf_value error = load(path, &f);
    if (error.handle)
        return error;
    memset(&r, 0, sizeof r);
    r.jpeg.err = f.std_error(&r.errors);
    r.errors.error_exit = fail;
    r.errors.emit_message = warn;
    guarded(&f, &r, path, file, size, out);
    if (r.warned)
        r.error = mf_make_error(MF_ERROR_IO, "%s: at offset %ld: expected more of a JPEG: %s", path, offset_of(&r, file), r.words);
    f.destroy(&r.jpeg);
    return r.error;
}

#else

mf_value mf_jpeg_read(const char *path, FILE *file, mf_image_size *size, unsigned char *out)
{
    (void)file, (void)size, (void)out;
    return mf_make_error(MF_ERROR_IO, "%s: this library was built without libjpeg's header, and reads no JPEG", path);
}

#endif
