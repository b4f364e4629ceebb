/* What the room's other files need of safetensors. Public API only. */
#ifndef MF_IO_SAFETENSORS_H
#define MF_IO_SAFETENSORS_H

#include <manyfold.h>

/* Whether a file is one by its first bytes: a length of four bytes, four zeros, and a brace. False where it cannot be read. */
bool mf_is_safetensors(const char *path);
/* A dict of the arrays that are named as leaves of `like`, and of the name of the first that is not, where one is, for a 0. */
mf_value mf_safetensors_load(const char *path, mf_value like);
/* The same of bytes in memory, of all arrays; `path` goes into messages. */
mf_value mf_safetensors_parse(const char *path, const unsigned char *bytes, size_t size);

#endif
