/* PNG, decoded with libpng's simplified API, which returns errors instead of using longjmp. Invariant: the library is loaded when the first
 * image is read, and has the ABI of the header that this file was compiled with. */
#include "data/images/image_files.h"

#if __has_include(<png.h>)
#include <png.h>

#include <string.h>

#define LIBRARY "libpng16.so.16"

typedef struct png_functions {
    __typeof__(&png_image_begin_read_from_stdio) begin;
    __typeof__(&png_image_finish_read) finish;
    __typeof__(&png_image_free) free;
} png_functions;

static mf_value load(const char *path, png_functions *f)
{
    mf_value error = { 0 };
    void *begin = mf_image_symbol(path, LIBRARY, "png_image_begin_read_from_stdio", &error);
    void *finish = begin ? mf_image_symbol(path, LIBRARY, "png_image_finish_read", &error) : NULL;
    void *end = finish ? mf_image_symbol(path, LIBRARY, "png_image_free", &error) : NULL;
    memcpy(&f->begin, &begin, sizeof begin); /* ISO C has no cast from void * to a function pointer */
    memcpy(&f->finish, &finish, sizeof finish);
    memcpy(&f->free, &end, sizeof end);
    return error;
}

static mf_value broken(const char *path, FILE *file, const png_image *image)
{
    return mf_make_error(MF_ERROR_IO, "%s: at offset %ld: expected more of a PNG: %s", path, ftell(file), image->message);
}

mf_value mf_png_read(const char *path, FILE *file, mf_image_size *size, unsigned char *out)
{
    png_functions f;
    png_image image = { .version = PNG_IMAGE_VERSION };
    mf_value error = load(path, &f);
    if (error.handle)
        return error;
    if (!f.begin(&image, file) || PNG_IMAGE_FAILED(image))
        return broken(path, file, &image);
    error = mf_image_agree(path, size, image.height, image.width, out != NULL);
    image.format = size->channels == 1 ? PNG_FORMAT_GRAY : PNG_FORMAT_RGB;
    const png_color black = { 0, 0, 0 }; /* the background of transparent pixels */
    if (!error.handle && out && (!f.finish(&image, &black, out, 0, NULL) || PNG_IMAGE_FAILED(image)))
        error = broken(path, file, &image);
    f.free(&image);
    return error;
}

#else

mf_value mf_png_read(const char *path, FILE *file, mf_image_size *size, unsigned char *out)
{
    (void)file, (void)size, (void)out;
    return mf_make_error(MF_ERROR_IO, "%s: this library was built without libpng's header, and reads no PNG", path);
}

#endif
