/* Code addresses as text. Invariant: nothing here runs before the text is wanted; a missing addr2line is no error. */
#include "base/text/location.h"

#include "base/memory/alloc.h"
#include "base/thread/cancel.h"
#include "base/memory/intern.h"
#include "base/text/string.h"

#include <dlfcn.h>
#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <link.h>
#include <pthread.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

extern char **environ;

static const char *base_name(const char *path)
{
    const char *slash = strrchr(path, '/');
    return slash ? slash + 1 : path;
}

/* Runs addr2line with its output in a pipe; -1 when it cannot be started. */
static pid_t start_tool(char *const *arguments, int *out)
{
    int ends[2];
    if (pipe2(ends, O_CLOEXEC))
        return -1;
    posix_spawn_file_actions_t actions;
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_adddup2(&actions, ends[1], STDOUT_FILENO);
    posix_spawn_file_actions_addopen(&actions, STDERR_FILENO, "/dev/null", O_WRONLY, 0);
    pid_t child = -1;
    if (posix_spawnp(&child, arguments[0], &actions, NULL, arguments, environ))
        child = -1;
    posix_spawn_file_actions_destroy(&actions);
    close(ends[1]);
    if (child < 0)
        close(ends[0]);
    else
        *out = ends[0];
    return child;
}

static bool ask_tool(const char *object, uintptr_t offset, char *answer, size_t size)
{
    char address[32], name[] = "addr2line", flag[] = "-e", file[4096];
    snprintf(address, sizeof address, "0x%llx", (unsigned long long)offset);
    snprintf(file, sizeof file, "%s", access(object, R_OK) ? "/proc/self/exe" : object);
    char *const arguments[] = { name, flag, file, address, NULL };
    int out = -1;
    pid_t child = start_tool(arguments, &out);
    if (child < 0)
        return false;
    size_t n = 0;
    for (ssize_t got; n + 1 < size; n += got > 0 ? (size_t)got : 0) {
        got = read(out, answer + n, size - 1 - n);
        if (got == 0 || (got < 0 && errno != EINTR))
            break;
    }
    answer[n] = 0;
    close(out);
    while (waitpid(child, NULL, 0) < 0 && errno == EINTR) {
    }
    answer[strcspn(answer, "\n")] = 0;
    char *end = strstr(answer, " (discriminator");
    if (end)
        *end = 0;
    size_t length = strlen(answer);
    return length > 2 && answer[0] != '?' && answer[length - 1] != '?' && strcmp(answer + length - 2, ":0") != 0;
}

static const char *from_here(const char *path)
{
    char here[4096];
    if (!getcwd(here, sizeof here - 1))
        return path;
    size_t n = strlen(here);
    return !strncmp(path, here, n) && path[n] == '/' ? path + n + 1 : path;
}

static const char *look_up(const void *return_address)
{
    uintptr_t target = (uintptr_t)return_address - 1; /* inside the call, not after it */
    Dl_info info;
    if (!dladdr((const void *)target, &info) || !info.dli_fname) /* NOLINT(performance-no-int-to-ptr) */
        return NULL;
    const ElfW(Ehdr) *header = info.dli_fbase;
    uintptr_t offset = header->e_type == ET_DYN ? target - (uintptr_t)info.dli_fbase : target;
    char line[4096];
    if (ask_tool(info.dli_fname, offset, line, sizeof line))
        return mf_intern(from_here(line));
    if (info.dli_sname)
        snprintf(line, sizeof line, "%s+0x%" PRIxPTR, info.dli_sname, target + 1 - (uintptr_t)info.dli_saddr);
    else
        snprintf(line, sizeof line, "%s+0x%" PRIxPTR, base_name(info.dli_fname), offset + 1);
    return mf_intern(line);
}

typedef struct known {
    struct known *next;
    const void *address;
    const char *text;
} known;
static known *all_known;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

const char *mf_location_of(const void *return_address)
{
    MF_UNCANCELLED;
    pthread_mutex_lock(&lock);
    const known *k = all_known;
    while (k && k->address != return_address)
        k = k->next;
    const char *text = k ? k->text : look_up(return_address);
    known *fresh = k ? NULL : mf_alloc(sizeof *fresh);
    if (fresh) {
        *fresh = (known){ all_known, return_address, text };
        all_known = fresh;
    }
    pthread_mutex_unlock(&lock);
    return text;
}

/* ---- locations for another process */

#define MARK '\1' /* encloses an encoded location: build, offset, name */

typedef struct module { /* the loaded object that contains an address or has a given build id */
    uintptr_t wanted, base;
    uint64_t build; /* 0: it has no build id */
    const char *path;
} module;

/* A hash of the linker's build id. */
static uint64_t build_of(const struct dl_phdr_info *info)
{
    for (int i = 0; i < info->dlpi_phnum; i++) {
        const ElfW(Phdr) *h = &info->dlpi_phdr[i];
        if (h->p_type != PT_NOTE)
            continue;
        const char *at = (const char *)(info->dlpi_addr + h->p_vaddr), *end = at + h->p_memsz; /* NOLINT(performance-no-int-to-ptr) */
        while ((size_t)(end - at) >= sizeof(ElfW(Nhdr))) {
            ElfW(Nhdr) n;
            memcpy(&n, at, sizeof n);
            const char *name = at + sizeof n, *bytes = name + ((n.n_namesz + 3) & ~3u);
            if (n.n_type == NT_GNU_BUILD_ID && n.n_namesz == 4 && !memcmp(name, "GNU", 4))
                return mf_hash(bytes, n.n_descsz, 1) | 1;
            at = bytes + ((n.n_descsz + 3) & ~3u);
        }
    }
    return 0;
}

static int has_address(struct dl_phdr_info *info, size_t size, void *context)
{
    (void)size;
    module *m = context;
    for (int i = 0; i < info->dlpi_phnum; i++) {
        const ElfW(Phdr) *h = &info->dlpi_phdr[i];
        if (h->p_type != PT_LOAD || m->wanted - info->dlpi_addr - h->p_vaddr >= h->p_memsz)
            continue;
        m->base = info->dlpi_addr;
        m->build = build_of(info);
        m->path = info->dlpi_name && *info->dlpi_name ? info->dlpi_name : program_invocation_name;
        return 1;
    }
    return 0;
}

static int is_of_build(struct dl_phdr_info *info, size_t size, void *context)
{
    (void)size;
    module *m = context;
    m->base = info->dlpi_addr;
    return build_of(info) == m->build;
}

static const char *encode(const void *return_address)
{
    module m = { .wanted = (uintptr_t)return_address };
    char text[160] = "";
    bool known = dl_iterate_phdr(has_address, &m);
    uintptr_t offset = m.wanted - m.base;
    if (known && m.build)
        snprintf(text, sizeof text, "%c%" PRIx64 " %" PRIxPTR " %.64s%c", MARK, m.build, offset, base_name(m.path), MARK);
    else if (known)
        snprintf(text, sizeof text, "%.64s+0x%" PRIxPTR, base_name(m.path), offset);
    return mf_intern(text);
}

/* Cached, because the same few locations are sent again and again. */
void mf_location_encode(mf_text *t, const char *before, const void *return_address, const char *after)
{
    static pthread_mutex_t own = PTHREAD_MUTEX_INITIALIZER; /* not shared with slow look-ups */
    static known *encoded;
    MF_UNCANCELLED;
    pthread_mutex_lock(&own);
    known *k = encoded;
    while (k && k->address != return_address)
        k = k->next;
    const char *text = k ? k->text : encode(return_address);
    if (!k && (k = mf_alloc(sizeof *k))) {
        *k = (known){ encoded, return_address, text };
        encoded = k;
    }
    pthread_mutex_unlock(&own);
    if (!text || !*text)
        return;
    mf_text_put(t, before);
    mf_text_put(t, text);
    mf_text_put(t, after);
}

/* not shared with slow look-ups */
static void decode_one(mf_text *t, const char *text, size_t count)
{
    char copy[128], *at = copy;
    if (count >= sizeof copy)
        return;
    memcpy(copy, text, count);
    copy[count] = 0;
    module m = { .build = strtoull(at, &at, 16) };
    uintptr_t offset = (uintptr_t)strtoull(at, &at, 16);
    if (*at != ' ' || !at[1])
        return;
    bool here = m.build && dl_iterate_phdr(is_of_build, &m);
    const char *location = here ? mf_location_of((const void *)(m.base + offset)) : NULL; /* NOLINT(performance-no-int-to-ptr) */
    if (location)
        mf_text_put(t, location);
    else
        mf_text_add(t, "%s+0x%" PRIxPTR, at + 1, offset);
}

void mf_location_decode(mf_text *t, const char *text, size_t count)
{
    for (const char *end = text + count; text < end;) {
        const char *mark = memchr(text, MARK, (size_t)(end - text));
        mf_text_putn(t, text, (size_t)((mark ? mark : end) - text));
        if (!mark)
            return;
        const char *close = memchr(mark + 1, MARK, (size_t)(end - mark - 1));
        if (!close)
            return;
        decode_one(t, mark + 1, (size_t)(close - mark - 1));
        text = close + 1;
    }
}
