/* The compilation cache, a folder of executables (MF_COMPILATION_CACHE): one process compiles, the next one loads, if the plugin can
 * serialize and load executables.
 * Invariants: a file's name is the hash of everything the executable depends on: text, options, plugin and machine; it is written under
 * another name and renamed, so it is complete; a file with a wrong size or checksum, or that the plugin rejects, is ignored. */
#include "backend/pjrt/pjrt.h"

#include "base/memory/alloc.h"
#include "base/memory/intern.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { MOST_PATH = 4096 };

typedef struct header {
    char what[16];
    uint64_t key[2], bytes, sum;
} header;
static const char what[16] = "manyfold pjrt 1";

/* ---- the key */

static void join(uint64_t *key, const void *bytes, size_t count)
{
    for (int i = 0; i < 2; i++)
        key[i] = mf_hash(bytes, count, key[i] + count + (uint64_t)i * 0x9E3779B97F4A7C15U);
}

/* The plugin's file with its size and time, so that a replaced plugin has other keys. */
static void join_file(uint64_t *key, const char *path)
{
    struct stat s;
    join(key, path, strlen(path));
    if (stat(path, &s) == 0)
        join(key, (int64_t[]){ s.st_size, s.st_mtim.tv_sec, s.st_mtim.tv_nsec }, 3 * sizeof(int64_t));
}

/* Code for the CPU depends on this CPU's instruction set. */
static void join_processor(uint64_t *key)
{
    char line[8192];
    FILE *f = fopen("/proc/cpuinfo", "re");
    while (f && fgets(line, sizeof line, f))
        if (strncmp(line, "flags", 5) == 0 || strncmp(line, "Features", 8) == 0) {
            join(key, line, strlen(line));
            break;
        }
    if (f)
        (void)fclose(f);
}

static void join_platform(uint64_t *key, const pjrt_client *c)
{
    pjrt_words_of args = { PJRT_HEAD(pjrt_words_of), c->client, NULL, 0 };
    mf_error_object *error = c->api->functions[PJRT_CLIENT_PLATFORM_VERSION] ? pjrt_call(c, PJRT_CLIENT_PLATFORM_VERSION, NULL, &args)
                                                                             : NULL;
    if (!error && args.words_out)
        join(key, args.words_out, args.count_out);
    mf_error_ignore(error);
    join(key, (int[]){ c->api->version.major, c->api->version.minor, c->device_count }, 3 * sizeof(int));
}

/* False: there is no folder, or the plugin cannot serialize or load. */
static bool find_file(const pjrt_client *c, const mf_text *code, const mf_text *options, uint64_t *key, char *path)
{
    const char *folder = getenv("MF_COMPILATION_CACHE");
    bool able = c->api->functions[PJRT_EXECUTABLE_SERIALIZE] && c->api->functions[PJRT_EXECUTABLE_LOAD];
    if (!folder || !*folder || !able)
        return false;
    key[0] = key[1] = 0;
    join_file(key, c->path);
    join_platform(key, c);
    if (c->is_cpu)
        join_processor(key);
    join(key, code->at, code->count);
    join(key, options->at, options->count);
    return snprintf(path, MOST_PATH, "%s/%016" PRIx64 "%016" PRIx64 ".executable", folder, key[0], key[1]) < MOST_PATH;
}

/* ---- files */

static bool read_all(int fd, void *to, size_t count)
{
    for (char *at = to; count;) {
        ssize_t n = read(fd, at, count);
        if (n == 0 || (n < 0 && errno != EINTR))
            return false; /* the file is shorter than it was, or cannot be read */
        at += n > 0 ? n : 0;
        count -= n > 0 ? (size_t)n : 0;
    }
    return true;
}

static bool write_all(int fd, const void *from, size_t count)
{
    for (const char *at = from; count;) {
        ssize_t n = write(fd, at, count);
        if (n < 0 && errno != EINTR)
            return false;
        at += n > 0 ? n : 0;
        count -= n > 0 ? (size_t)n : 0;
    }
    return true;
}

/* The file's payload if it is intact, to be freed with mf_free; else NULL. */
static char *read_file(const char *path, const uint64_t *key, size_t *count)
{
    struct stat s;
    header h;
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    char *bytes = NULL;
    bool good = fd >= 0 && fstat(fd, &s) == 0 && s.st_size >= (off_t)sizeof h && read_all(fd, &h, sizeof h);
    good = good && memcmp(h.what, what, sizeof what) == 0 && memcmp(h.key, key, sizeof h.key) == 0;
    if (good && h.bytes == (uint64_t)s.st_size - sizeof h)
        bytes = mf_alloc((size_t)h.bytes + 1);
    if (bytes && (!read_all(fd, bytes, (size_t)h.bytes) || mf_hash(bytes, (size_t)h.bytes, 0) != h.sum)) {
        mf_free(bytes);
        bytes = NULL;
    }
    if (fd >= 0)
        (void)close(fd);
    *count = bytes ? (size_t)h.bytes : 0;
    return bytes;
}

/* If the file cannot be written, the next process compiles again. */
static void write_file(const char *path, const uint64_t *key, const char *bytes, size_t count)
{
    static _Atomic unsigned next;
    char beside[MOST_PATH + 64];
    header h = { .key = { key[0], key[1] }, .bytes = count, .sum = mf_hash(bytes, count, 0) };
    memcpy(h.what, what, sizeof what);
    (void)mkdir(getenv("MF_COMPILATION_CACHE"), 0777);
    (void)snprintf(beside, sizeof beside, "%s.%ld.%u", path, (long)getpid(), next++);
    int fd = open(beside, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
    if (fd < 0)
        return;
    bool good = write_all(fd, &h, sizeof h) && write_all(fd, bytes, count);
    good = close(fd) == 0 && good;
    if (!good || rename(beside, path) != 0)
        (void)unlink(beside);
}

/* ---- executables */

void *pjrt_cached(const pjrt_client *c, const mf_text *code, const mf_text *options)
{
    char path[MOST_PATH];
    uint64_t key[2];
    size_t count;
    char *bytes = find_file(c, code, options, key, path) ? read_file(path, key, &count) : NULL;
    if (!bytes)
        return NULL;
    pjrt_executable_load args = { .head = PJRT_HEAD(pjrt_executable_load), .client = c->client, .bytes = bytes, .count = count };
    mf_error_object *error = pjrt_call(c, PJRT_EXECUTABLE_LOAD, NULL, &args);
    mf_free(bytes);
    mf_error_ignore(error);
    return error ? NULL : args.loaded_out;
}

void pjrt_cache(const pjrt_client *c, const mf_text *code, const mf_text *options, void *loaded)
{
    char path[MOST_PATH];
    uint64_t key[2];
    pjrt_one_more whole = { PJRT_HEAD(pjrt_one_more), loaded, NULL };
    if (!find_file(c, code, options, key, path))
        return;
    mf_error_object *error = pjrt_call(c, PJRT_LOADED_GET_EXECUTABLE, NULL, &whole);
    pjrt_executable_serialize args = { .head = PJRT_HEAD(pjrt_executable_serialize), .executable = whole.out };
    bool got = !error;
    error = error ? error : pjrt_call(c, PJRT_EXECUTABLE_SERIALIZE, NULL, &args);
    if (!error) {
        write_file(path, key, args.bytes_out, args.count_out);
        if (args.destroy_out)
            args.destroy_out(args.serialized_out);
    }
    mf_error_ignore(error);
    if (got)
        pjrt_destroy(c, PJRT_EXECUTABLE_DESTROY, whole.out);
}
