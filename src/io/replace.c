/* Atomic replacement of a file: write a temporary file, fsync it, rename it, fsync the folder.
 * Invariant: whoever opens the path, at any time, also after a crash at any point, finds the complete old file or the complete new one.
 * Concurrent writers of one path do not interfere: each writes its own temporary file, and the last rename wins. */
#include "io/replace.h"

#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static mf_status failed(const char *path, const char *why) { return mf_io_fail(MF_ERROR_IO, "%s: cannot be written: %s", path, why); }

mf_status mf_unwritable(const char *path) { return failed(path, strerror(errno)); }

/* The permissions that open() would give a new file. umask() can read the mask only by changing it, which would affect other threads, so it
 * is read from /proc. */
static mode_t mode_of_new_files(void)
{
    char line[128];
    unsigned mask = 022;
    FILE *f = fopen("/proc/self/status", "r");
    while (f && fgets(line, sizeof line, f) && sscanf(line, "Umask: %o", &mask) != 1) {
    }
    if (f)
        fclose(f);
    return 0666 & ~(mode_t)mask;
}

static void forget(mf_replacement *r)
{
    if (r->fd >= 0)
        (void)close(r->fd);
    free(r->target);
    free(r->beside);
    *r = (mf_replacement){ .fd = -1 };
}

mf_status mf_replace_begin(mf_replacement *r, const char *path)
{
    struct stat there;
    *r = (mf_replacement){ .path = path, .fd = -1 };
    bool exists = stat(path, &there) == 0;
    if (exists && !S_ISREG(there.st_mode))
        return failed(path, "it is no regular file");
    r->target = exists ? realpath(path, NULL) : strdup(path);
    size_t size = (r->target ? strlen(r->target) : 0) + sizeof ".XXXXXX.tmp";
    r->beside = r->target ? malloc(size) : NULL;
    if (r->beside) {
        snprintf(r->beside, size, "%s.XXXXXX.tmp", r->target);
        r->fd = mkostemps(r->beside, 4, O_CLOEXEC);
    }
    if (r->fd >= 0 && fchmod(r->fd, exists ? there.st_mode & 07777 : mode_of_new_files()) == 0)
        return MF_OK;
    mf_status status = mf_unwritable(path);
    if (r->fd >= 0)
        (void)unlink(r->beside);
    forget(r);
    return status;
}

/* Flushes the folder of path, which it modifies. EINVAL: the file system does not support fsync of folders, which is no failure. */
static bool flush_folder_of(char *path)
{
    char *slash = strrchr(path, '/');
    if (slash)
        slash[slash == path] = 0;
    int fd = open(slash ? path : ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    bool done = fd >= 0 && (fsync(fd) == 0 || errno == EINVAL);
    if (fd >= 0)
        (void)close(fd);
    return done;
}

/* Opens the file by name, because the writer may have replaced the file that a descriptor refers to. */
static bool flush_file(const char *path)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    bool done = fd >= 0 && fsync(fd) == 0;
    int error = errno;
    if (fd >= 0)
        (void)close(fd);
    errno = error;
    return done;
}

mf_status mf_replace_end(mf_replacement *r, mf_status status)
{
    bool placed = !status && flush_file(r->beside) && rename(r->beside, r->target) == 0;
    if (!placed) {
        status = status ? status : mf_unwritable(r->path);
        (void)unlink(r->beside);
    } else if (!flush_folder_of(r->target)) {
        status = failed(r->path, "its folder could not be flushed to the disk");
    }
    forget(r);
    return status;
}

mf_status mf_replace_file(const char *path, mf_writer write, const void *context)
{
    mf_replacement r;
    mf_status status = mf_replace_begin(&r, path);
    if (status)
        return status;
    FILE *f = fdopen(dup(r.fd), "wb");
    if (f)
        status = write(f, path, context);
    bool whole = f && fclose(f) == 0;
    return mf_replace_end(&r, status || whole ? status : mf_unwritable(path));
}

mf_status mf_io_fail(mf_status status, const char *format, ...)
{
    char message[1024];
    va_list list;
    va_start(list, format);
    vsnprintf(message, sizeof message, format, list);
    va_end(list);
    (void)mf_make_error(status, "%s", message);
    return status;
}
