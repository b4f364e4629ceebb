/* The fuzz targets: everything that parses input or accepts messages. A target takes any bytes; what it parses must survive a round trip,
 * else it traps; it leaves nothing behind. fuzz_<target>.c passes it to libFuzzer (make fuzz); test_corpora.c replays the corpora without
 * libFuzzer. To add a target: <target>.c here, fuzz_<target>.c, a line in test_corpora.c, and its first inputs in make_corpora.py. */
#ifndef MF_TESTS_FUZZ_TARGETS_H
#define MF_TESTS_FUZZ_TARGETS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

void fuzz_program(const uint8_t *data, size_t size);     /* texts of programs */
void fuzz_plan(const uint8_t *data, size_t size);        /* texts of plans */
void fuzz_npy(const uint8_t *data, size_t size);         /* NumPy's arrays */
void fuzz_npz(const uint8_t *data, size_t size);         /* zip archives of them */
void fuzz_safetensors(const uint8_t *data, size_t size); /* headers and tensors */
void fuzz_idx(const uint8_t *data, size_t size);         /* IDX files, gzip'd or plain */
void fuzz_cifar(const uint8_t *data, size_t size);       /* a file of CIFAR-10 */
void fuzz_subscripts(const uint8_t *data, size_t size);  /* einsum's subscripts, a convolution's dimension numbers */
void fuzz_messages(const uint8_t *data, size_t size);    /* messages between processes */
void fuzz_watch(const uint8_t *data, size_t size);       /* the connections that report deaths */
void fuzz_settings(const uint8_t *data, size_t size);    /* environment variables */

static inline void fuzz_must(bool good)
{
    if (!good)
        __builtin_trap();
}

/* A file without a name that contains the bytes; its path is valid while it is open, "" if the system has no room for it. */
typedef struct fuzz_file {
    int descriptor;
    char path[40];
} fuzz_file;
fuzz_file fuzz_file_open(const uint8_t *data, size_t size);
void fuzz_file_close(fuzz_file *f);

#endif
