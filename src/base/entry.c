/* Finds where the user called the library. A public function notes its return address, which costs nothing. That is not enough where the
 * library's own functions are written on the public ones: the address lies inside the library, and a user's `return mf_add(x, y);` leaves
 * no frame of its own. Then the stack is walked. Invariant: only slow paths, errors and tracing, ask for a location. */
#include "base/entry.h"

#include "base/thread/cancel.h"

#include <dlfcn.h>
#include <execinfo.h>
#include <link.h>
#include <pthread.h>
#include <string.h>

#define MOST_FRAMES 48

_Thread_local const void *mf_entry_address;
static _Thread_local mf_callee *innermost;

/* The library's own code. In a program that links the archive, the code has a section with a name of its own. */
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
        if (object->dlpi_name && *object->dlpi_name) { /* a shared library; the main program, whose name is empty, also holds user code */
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

bool mf_is_own_function(const void *function)
{
    pthread_once(&once, find_own_code);
    return is_own((const char *)function + 1);
}

/* ---- calls from inside */

void mf_callee_begin(mf_callee *c, void (*function)(void), const void *back)
{
    *c = (mf_callee){ .back = back, .entry = mf_entry_address, .outer = innermost, .layer = mf_layer_current, .cancel = mf_cancel_hold() };
    memcpy(&c->function, &function, sizeof c->function);
    if (!mf_entry_address || !mf_is_own_function(c->function)) {
        mf_entry_address = NULL;
        mf_layer_current = (mf_layer){ 0 };
    } else if (!c->layer.entered) {
        mf_layer_current = (mf_layer){ .entered = true };
    }
    innermost = c;
}

void mf_callee_end(mf_callee *c)
{
    innermost = c->outer;
    mf_entry_address = c->entry;
    mf_cancel_free(c->cancel);
    if (mf_layer_current.entered && c->layer.entered) /* the callee stayed in the layer that was already entered */
        return;
    mf_drop(mf_layer_current.error);
    mf_layer_current = c->layer;
}

/* ---- layers */

mf_layer mf_layer_enter_(const void *location)
{
    mf_layer outer = mf_layer_current;
    outer.entered = mf_entry_address != NULL;
    if (!outer.entered) {
        outer.cancel = mf_cancel_hold();
        mf_entry_address = location;
        mf_layer_current = (mf_layer){ .entered = true };
    }
    return outer;
}

void mf_layer_leave_(const mf_layer *outer)
{
    if (outer->entered)
        return;
    mf_cancel_free(outer->cancel);
    MF_PARENT_ONLY();
    mf_drop(mf_layer_current.error);
    mf_layer_current = (mf_layer){ 0 };
    mf_entry_address = NULL;
}

/* ---- locations */

/* The C library's frames say nothing of the user: threads begin there (the library's own too), and functions such as qsort call back. */
static bool is_of_c_library(const void *address)
{
    Dl_info object;
    if (!dladdr((const char *)address - 1, &object) || !object.dli_fname)
        return false;
    const char *slash = strrchr(object.dli_fname, '/'), *name = slash ? slash + 1 : object.dli_fname;
    return strncmp(name, "libc.", 5) == 0 || strncmp(name, "libpthread.", 11) == 0;
}

const void *mf_entry_location(void)
{
    const void *address = mf_entry_address;
    if (!address)
        return NULL;
    pthread_once(&once, find_own_code);
    if (!is_own(address))
        return address;
    void *frames[MOST_FRAMES];
    int count = backtrace(frames, MOST_FRAMES);
    const mf_callee *c = innermost;
    for (int i = 1; i < count; i++) {
        if (!is_own(frames[i]) && !is_of_c_library(frames[i]))
            return frames[i];
        if (!c || frames[i] != c->back)
            continue;
        if (!mf_is_own_function(c->function)) /* the callee's frame is gone (tail call): its function's address serves instead */
            return (const char *)c->function + 1;
        c = c->outer;
    }
    return count < MOST_FRAMES ? NULL : address;
}
