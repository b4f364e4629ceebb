/* A stack frame that stops C++ exceptions, without any C++: the unwinder calls the personality routine of each frame it passes, and the
 * routine below claims to handle every exception. The unwinder's functions are looked up in the library that throws, so a program that
 * loads no such library needs no C++ runtime.
 * Invariant: forced unwinding (a cancelled thread) passes through. */
#include "base/guard.h"

#include "base/text/symbol.h"

#include <stdatomic.h>
#include <stdint.h>
#include <string.h>
#include <unwind.h>

#define FUNCTIONS(F) \
    F(_Unwind_SetGR) \
    F(_Unwind_SetIP) \
    F(_Unwind_RaiseException)

#define POINTER(name) __typeof__(&name) name;
static struct {
    FUNCTIONS(POINTER)
    void *(*__cxa_begin_catch)(void *);
    void (*__cxa_end_catch)(void);
    _Atomic bool ready;
} unwinder;

void mf_guard_learn(void *library)
{
    static atomic_flag taken = ATOMIC_FLAG_INIT;
    if (atomic_load(&unwinder.ready) || atomic_flag_test_and_set(&taken)) /* all libraries of a process share one C++ runtime */
        return;
    bool ok = mf_symbol_bind(library, "__cxa_begin_catch", &unwinder.__cxa_begin_catch) &&
              mf_symbol_bind(library, "__cxa_end_catch", &unwinder.__cxa_end_catch);
#define BIND(name) ok = ok && mf_symbol_bind(library, #name, &unwinder.name);
    FUNCTIONS(BIND)
    atomic_store(&unwinder.ready, ok);
    if (!ok)
        atomic_flag_clear(&taken);
}

#if defined(__x86_64__) || defined(__aarch64__)

/* Calls fn(context). Returns NULL, or the exception that left it. */
struct _Unwind_Exception *mf_guard_enter(void (*fn)(void *context), void *context) __attribute__((visibility("hidden")));
extern const char mf_guard_landing[] __attribute__((visibility("hidden")));

#define FRAME(name)                                       \
    ".text\n.p2align 4\n"                                 \
    ".globl " name "\n.hidden " name "\n"                 \
    ".globl mf_guard_landing\n.hidden mf_guard_landing\n" \
    ".type " name ", %function\n" name ":\n"              \
    ".cfi_startproc\n"                                    \
    ".cfi_personality 0x1b, mf_guard_personality\n" /* pc-relative, 4 bytes */

#if defined(__x86_64__)
__asm__(FRAME("mf_guard_enter") "pushq %rbp\n"
                                ".cfi_def_cfa_offset 16\n"
                                ".cfi_offset 6, -16\n"
                                "movq %rsp, %rbp\n"
                                ".cfi_def_cfa_register 6\n"
                                "movq %rdi, %rax\n"
                                "movq %rsi, %rdi\n"
                                "call *%rax\n"
                                "xorl %eax, %eax\n"
                                "mf_guard_landing:\n" /* rax is the exception */
                                "popq %rbp\n"
                                ".cfi_def_cfa 7, 8\n"
                                "ret\n"
                                ".cfi_endproc\n"
                                ".size mf_guard_enter, . - mf_guard_enter\n");
#else
__asm__(FRAME("mf_guard_enter") "stp x29, x30, [sp, #-16]!\n"
                                ".cfi_def_cfa_offset 16\n"
                                ".cfi_offset 29, -16\n"
                                ".cfi_offset 30, -8\n"
                                "mov x29, sp\n"
                                ".cfi_def_cfa_register 29\n"
                                "mov x2, x0\n"
                                "mov x0, x1\n"
                                "blr x2\n"
                                "mov x0, #0\n"
                                "mf_guard_landing:\n" /* x0 is the exception */
                                "ldp x29, x30, [sp], #16\n"
                                ".cfi_def_cfa 31, 0\n"
                                "ret\n"
                                ".cfi_endproc\n"
                                ".size mf_guard_enter, . - mf_guard_enter\n");
#endif

_Unwind_Reason_Code mf_guard_personality(int version, _Unwind_Action actions, _Unwind_Exception_Class class, struct _Unwind_Exception *e,
                                         struct _Unwind_Context *frame) __attribute__((used, visibility("hidden")));
_Unwind_Reason_Code mf_guard_personality(int version, _Unwind_Action actions, _Unwind_Exception_Class class, struct _Unwind_Exception *e,
                                         struct _Unwind_Context *frame)
{
    (void)class;
    if (version != 1 || (actions & _UA_FORCE_UNWIND) || !atomic_load(&unwinder.ready))
        return _URC_CONTINUE_UNWIND;
    if (actions & _UA_SEARCH_PHASE)
        return _URC_HANDLER_FOUND;
    unwinder._Unwind_SetGR(frame, __builtin_eh_return_data_regno(0), (uintptr_t)e);
    unwinder._Unwind_SetIP(frame, (uintptr_t)mf_guard_landing);
    return _URC_INSTALL_CONTEXT;
}

static const char ours[] = "MFLDGUAR";

static bool is_ours(const struct _Unwind_Exception *e) { return !memcmp(&e->exception_class, ours, sizeof e->exception_class); }

bool mf_guarded(void (*fn)(void *context), void *context)
{
    struct _Unwind_Exception *e = mf_guard_enter(fn, context);
    if (e && !is_ours(e)) {
        (void)unwinder.__cxa_begin_catch(e);
        unwinder.__cxa_end_catch();
    }
    return !e;
}

void mf_guard_leave(void)
{
    static struct _Unwind_Exception e;
    memcpy(&e.exception_class, ours, sizeof e.exception_class);
    if (atomic_load(&unwinder.ready))
        (void)unwinder._Unwind_RaiseException(&e);
}

#else

bool mf_guarded(void (*fn)(void *context), void *context) { return fn(context), true; }
void mf_guard_leave(void) {}

#endif
