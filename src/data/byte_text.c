/* A text as a source of bytes: windows of length + 1 tokens, so that each of the first `length` tokens has its successor. The file is
 * mapped: it must not change while the source is open. */
#include "data/source.h"

#include <manyfold/data.h>

#include <stdlib.h>

typedef struct text_file {
    mf_mapping file;
    int64_t length, stride;
} text_file;

static mf_value read_window(void *context, int64_t row, void *const *places)
{
    const text_file *t = context;
    const unsigned char *from = t->file.bytes + (size_t)row * (size_t)t->stride;
    int32_t *out = places[0];
    for (int64_t i = 0; i <= t->length; i++)
        out[i] = from[i];
    return (mf_value){ 0 };
}

static void end(void *context)
{
    text_file *t = context;
    mf_unmap(&t->file);
    free(t);
}

mf_source *mf_source_text_opt(const char *path, int64_t length, const mf_source_text_options *o)
{
    MF_LAYER;
    MF_SCOPE;
    int64_t stride = o && o->stride ? o->stride : length;
    if (length < 1 || length > INT32_MAX || stride < 1)
        return mf_source_failed(mf_make_error(MF_ERROR_ARGUMENT,
                                              "%s: windows of %lld tokens, %lld from one to the next: expected at least 1", path,
                                              (long long)length, (long long)stride));
    text_file t = { .length = length, .stride = stride };
    mf_value error = mf_data_map(path, &t.file);
    if (error.handle)
        return mf_source_failed(error);
    text_file *kept = malloc(sizeof *kept);
    if (!kept || t.file.size <= (size_t)length) {
        size_t size = t.file.size;
        mf_unmap(&t.file);
        free(kept);
        return mf_source_failed(kept ? mf_make_error(MF_ERROR_IO,
                                                     "%s: at offset %zu: expected a window of %lld bytes and the one behind it, "
                                                     "found the end of the file",
                                                     path, size, (long long)length)
                                     : mf_make_error(MF_ERROR_MEMORY, "%s: out of memory", path));
    }
    *kept = t;
    int64_t rows = ((int64_t)t.file.size - 1 - length) / stride + 1;
    return mf_source_new(mf_dict("tokens", mf_struct(MF_SHAPE(length + 1), MF_I32)), rows, read_window, kept, end);
}
