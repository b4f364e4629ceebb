/* safetensors for the other files of this folder. Uses the public API only. */
#ifndef MF_IO_SAFETENSORS_H
#define MF_IO_SAFETENSORS_H

#include <manyfold.h>

/* Whether a file looks like safetensors by its first bytes: an 8-byte header length below 2^32, then a brace. False if it cannot be
 * read. */
bool mf_is_safetensors(const char *path);
/* A dict of the arrays whose names are leaves of `like`. If the file has others, the first of them is in the dict too, with the value 0, so
 * that mf_leaves_fit finds it. */
mf_value mf_safetensors_load(const char *path, mf_value like);
/* The dict of all arrays in a file's bytes; `path` is for error messages. */
mf_value mf_safetensors_parse(const char *path, const unsigned char *bytes, size_t size);

#endif
