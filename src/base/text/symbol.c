/* Symbols, and the names of C functions. Users' functions are mostly static, so the dynamic symbol table seldom has them; the symbol table
 * in the object file does, unless it was stripped. Invariant: every offset read from the file is checked against the file's size. */
#include "base/text/symbol.h"

#include "base/thread/cancel.h"
#include "base/memory/intern.h"

#include <dlfcn.h>
#include <elf.h>
#include <fcntl.h>
#include <link.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

typedef struct image {
    const char *data;
    size_t size;
} image;

static bool inside(const image *f, size_t offset, size_t size) { return offset <= f->size && size <= f->size - offset; }

/* The function symbol with this value, copied from a symbol table section; NULL when it is not there. */
static const char *find_in(const image *f, const ElfW(Shdr) * table, const ElfW(Shdr) * strings, uintptr_t value)
{
    if (!inside(f, table->sh_offset, table->sh_size) || !inside(f, strings->sh_offset, strings->sh_size))
        return NULL;
    const ElfW(Sym) *symbols = (const void *)(f->data + table->sh_offset);
    for (size_t i = 0; i < table->sh_size / sizeof *symbols; i++) {
        if (symbols[i].st_value != value || (symbols[i].st_info & 0xf) != STT_FUNC || symbols[i].st_name >= strings->sh_size)
            continue;
        const char *name = f->data + strings->sh_offset + symbols[i].st_name;
        return mf_intern_n(name, strnlen(name, strings->sh_size - symbols[i].st_name));
    }
    return NULL;
}

static const char *find_symbol(const image *f, uintptr_t value)
{
    const ElfW(Ehdr) *header = (const void *)f->data;
    if (!inside(f, 0, sizeof *header) || memcmp(f->data, ELFMAG, SELFMAG) != 0 ||
        !inside(f, header->e_shoff, (size_t)header->e_shnum * sizeof(ElfW(Shdr))))
        return NULL;
    const ElfW(Shdr) *sections = (const void *)(f->data + header->e_shoff);
    for (int i = 0; i < header->e_shnum; i++) {
        if (sections[i].sh_type != SHT_SYMTAB || sections[i].sh_link >= header->e_shnum)
            continue;
        const char *name = find_in(f, &sections[i], &sections[sections[i].sh_link], value);
        if (name)
            return name;
    }
    return NULL;
}

static const char *look_in_file(const char *path, uintptr_t value)
{
    int file = open(access(path, R_OK) ? "/proc/self/exe" : path, O_RDONLY | O_CLOEXEC);
    struct stat about;
    if (file < 0)
        return NULL;
    const char *name = NULL;
    if (fstat(file, &about) == 0 && about.st_size > 0) {
        image f = { mmap(NULL, (size_t)about.st_size, PROT_READ, MAP_PRIVATE, file, 0), (size_t)about.st_size };
        if (f.data != MAP_FAILED) {
            name = find_symbol(&f, value);
            munmap((void *)(uintptr_t)f.data, f.size);
        }
    }
    close(file);
    return name;
}

static const char *find_name(const void *function)
{
    MF_UNCANCELLED;
    Dl_info info;
    if (dladdr(function, &info)) {
        if (info.dli_sname && info.dli_saddr == function)
            return mf_intern(info.dli_sname);
        const ElfW(Ehdr) *header = info.dli_fbase;
        uintptr_t base = header->e_type == ET_DYN ? (uintptr_t)info.dli_fbase : 0;
        const char *name = info.dli_fname ? look_in_file(info.dli_fname, (uintptr_t)function - base) : NULL;
        if (name)
            return name;
    }
    char text[32];
    snprintf(text, sizeof text, MF_SYMBOL_UNKNOWN "%p", function);
    return mf_intern(text);
}

/* A cache: each closure asks for its function's name, often the same one in a loop. The name of an unloaded library's function may stay;
 * nothing depends on it. */
static struct {
    const void *function;
    const char *name;
} known[256];
static pthread_mutex_t known_lock = PTHREAD_MUTEX_INITIALIZER;

static const char *known_name(const void *function, const char *found)
{
    size_t at = (size_t)((uintptr_t)function >> 4) % (sizeof known / sizeof *known);
    pthread_mutex_lock(&known_lock);
    if (found) {
        known[at].function = function;
        known[at].name = found;
    }
    const char *name = known[at].function == function ? known[at].name : NULL;
    pthread_mutex_unlock(&known_lock);
    return name;
}

const char *mf_symbol_of(const void *function)
{
    const char *name = known_name(function, NULL);
    return name ? name : known_name(function, find_name(function));
}

bool mf_symbol_bind(void *library, const char *name, void *slot)
{
    void *found = dlsym(library, name);
    memcpy(slot, &found, sizeof found);
    return found;
}

#if defined(__x86_64__)
enum { JUMP_SLOT = R_X86_64_JUMP_SLOT, SLOT_DATA = R_X86_64_GLOB_DAT };
#elif defined(__aarch64__)
enum { JUMP_SLOT = R_AARCH64_JUMP_SLOT, SLOT_DATA = R_AARCH64_GLOB_DAT };
#else
enum { JUMP_SLOT = -1, SLOT_DATA = -1 };
#endif

typedef struct symbol_slots {
    const struct link_map *map;
    uintptr_t tags[DT_FLAGS + 1]; /* indexed by tag: the entries of the dynamic section */
    const char *name;
    const void *function;
} symbol_slots;

/* A concurrent caller gets the old function or the new one. With DF_BIND_NOW the slots were filled at load time and made read-only (RELRO),
 * so that is restored. */
static bool set_slot(const symbol_slots *s, uintptr_t slot)
{
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    void *start = (void *)(slot / page * page);
    if (mprotect(start, page, PROT_READ | PROT_WRITE))
        return false;
    __atomic_store_n((const void **)slot, s->function, __ATOMIC_RELEASE);
    return !(s->tags[DT_FLAGS] & DF_BIND_NOW) || mprotect(start, page, PROT_READ) == 0;
}

static bool set_slots(const symbol_slots *s, uintptr_t table, size_t bytes)
{
    const ElfW(Rela) *r = (const void *)table;
    const ElfW(Sym) *symbols = (const void *)s->tags[DT_SYMTAB];
    const char *strings = (const void *)s->tags[DT_STRTAB];
    bool found = false;
    for (size_t i = 0; i < bytes / sizeof *r; i++) {
        int kind = (int)ELF64_R_TYPE(r[i].r_info);
        if ((kind == JUMP_SLOT || kind == SLOT_DATA) && !strcmp(strings + symbols[ELF64_R_SYM(r[i].r_info)].st_name, s->name))
            found = set_slot(s, s->map->l_addr + r[i].r_offset) || found;
    }
    return found;
}

/* Makes the library call `function` wherever it refers to `name`. A function that it calls has a jump slot; else its data slots are set. */
static void rebind(void *library, const char *name, const void *function)
{
    symbol_slots s = { .name = name, .function = function };
    if (JUMP_SLOT < 0 || dlinfo(library, RTLD_DI_LINKMAP, &s.map))
        return;
    for (const ElfW(Dyn) *d = s.map->l_ld; d->d_tag != DT_NULL; d++)
        if (d->d_tag > 0 && d->d_tag <= DT_FLAGS)
            s.tags[d->d_tag] = d->d_un.d_ptr;
    if (s.tags[DT_SYMTAB] && s.tags[DT_STRTAB] && !set_slots(&s, s.tags[DT_JMPREL], s.tags[DT_PLTRELSZ]))
        set_slots(&s, s.tags[DT_RELA], s.tags[DT_RELASZ]);
}

static int register_nothing(void (*destroy)(void *), void *object, void *library)
{
    (void)destroy, (void)object, (void)library;
    return 0;
}

void mf_symbol_keep_statics(void *library) { rebind(library, "__cxa_atexit", (const void *)(uintptr_t)register_nothing); }
