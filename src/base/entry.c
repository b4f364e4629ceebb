/* Where the user called us. A public function notes its return address, which costs nothing; but where the library's own functions are
 * written on the public ones, that address lies inside the library, and a user's `return mf_add(x, y);` leaves no frame of its own. Then
 * the stack is walked. Invariant: only paths that are slow anyway, errors and tracing, ask. */
#include "base/error.h"

#include <execinfo.h>
#include <link.h>
#include <pthread.h>

#define MOST_FRAMES 48

MF_THREAD_LOCAL_HOT const void *mf_entry_address;
_Thread_local mf_callee mf_entry_callee;

/* The library's own code. In a program that the archive was linked into, its section has a name of its own. */
extern const char __start_manyfold_text[] __attribute__((weak)), __stop_manyfold_text[] __attribute__((weak));
static uintptr_t first, end;
static pthread_once_t once = PTHREAD_ONCE_INIT;

static int look_at(struct dl_phdr_info *object, size_t size, void *unused)
{
    (void)size;
    (void)unused;
    uintptr_t here = (uintptr_t)&look_at;
    for (int i = 0; i < object->dlpi_phnum; i++) {
        const ElfW(Phdr) *segment = &object->dlpi_phdr[i];
        uintptr_t at = object->dlpi_addr + segment->p_vaddr;
        if (segment->p_type != PT_LOAD || here < at || here - at >= segment->p_memsz)
            continue;
        if (object->dlpi_name && *object->dlpi_name) { /* a library; the main program's name is empty, and holds the user's code too */
            first = at;
            end = at + segment->p_memsz;
        }
        return 1;
    }
    return 0;
}

static void find_own_code(void)
{
    first = (uintptr_t)__start_manyfold_text;
    end = (uintptr_t)__stop_manyfold_text;
    if (!first)
        dl_iterate_phdr(look_at, NULL);
}

static bool is_own(const void *address) { return (uintptr_t)address - 1 - first < end - first; }

const void *mf_entry_place(void)
{
    const void *address = mf_entry_address;
    if (!address)
        return NULL;
    pthread_once(&once, find_own_code);
    if (!is_own(address))
        return address;
    void *frames[MOST_FRAMES];
    int count = backtrace(frames, MOST_FRAMES);
    for (int i = 1; i < count; i++) {
        if (frames[i] == mf_entry_callee.back) /* the traced function's own frame is gone: the function will do */
            return (const char *)mf_entry_callee.function + 1;
        if (!is_own(frames[i]))
            return frames[i];
    }
    return address;
}
