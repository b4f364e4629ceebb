/* LLVM behind one function: IR text in, machine code out. The library is opened when the first loop nest is to be compiled, never before;
 * code lives until it is freed, or the process ends.
 * The texts are vector code already, so no IR passes are run: O2 gained 0 to 4 % on chains, Adam, activations and elementary functions, for
 * twice the compile time. Code generation is at its default level; without optimisation it loses to the tile kernels.
 * Invariant: everything here runs under one lock, which the end of the process takes for good; no floating-point operation is contracted or
 * reassociated. Anything that fails gives NULL, and tile kernels do the work.
 * When LLVM gets no memory it ends the process. So it is entered only while there is memory to spare; if it wants to end the process all
 * the same, that is caught here, and LLVM is not entered any more, because its locks may be held for good. What it made before stays in
 * use. */
#include "backend/native/llvm/llvm.h"

#include "backend/native/kernels/kernels.h"
#include "base/memory/alloc.h"
#include "base/guard.h"
#include "base/text/symbol.h"
#include "runtime/profile/profiler.h"

#include <dlfcn.h>
#include <errno.h>
#include <llvm-c/Core.h>
#include <llvm-c/Error.h>
#include <llvm-c/IRReader.h>
#include <llvm-c/LLJIT.h>
#include <llvm-c/Orc.h>
#include <llvm-c/Target.h>
#include <llvm-c/TargetMachine.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

/* ------------------------------------------------------------------ the library */

#if defined(__x86_64__)
#define TARGET(name) LLVMInitializeX86##name
#elif defined(__aarch64__)
#define TARGET(name) LLVMInitializeAArch64##name
#endif

#define FUNCTIONS(F)                                         \
    F(LLVMGetDefaultTargetTriple)                            \
    F(LLVMGetTargetFromTriple)                               \
    F(LLVMGetHostCPUName)                                    \
    F(LLVMGetHostCPUFeatures)                                \
    F(LLVMCreateTargetMachine)                               \
    F(LLVMCreateMemoryBufferWithMemoryRangeCopy)             \
    F(LLVMParseIRInContext)                                  \
    F(LLVMDisposeMessage)                                    \
    F(LLVMGetErrorMessage)                                   \
    F(LLVMDisposeErrorMessage)                               \
    F(LLVMOrcJITTargetMachineBuilderCreateFromTargetMachine) \
    F(LLVMOrcCreateLLJITBuilder)                             \
    F(LLVMOrcLLJITBuilderSetJITTargetMachineBuilder)         \
    F(LLVMOrcCreateLLJIT)                                    \
    F(LLVMOrcLLJITGetMainJITDylib)                           \
    F(LLVMOrcLLJITGetDataLayoutStr)                          \
    F(LLVMOrcLLJITGetTripleString)                           \
    F(LLVMSetDataLayout)                                     \
    F(LLVMSetTarget)                                         \
    F(LLVMGetNamedFunction)                                  \
    F(LLVMSetValueName2)                                     \
    F(LLVMOrcLLJITAddLLVMIRModuleWithRT)                     \
    F(LLVMOrcJITDylibCreateResourceTracker)                  \
    F(LLVMOrcResourceTrackerRemove)                          \
    F(LLVMOrcReleaseResourceTracker)                         \
    F(LLVMOrcLLJITLookup)                                    \
    F(LLVMOrcCreateNewThreadSafeContext)                     \
    F(LLVMOrcThreadSafeContextGetContext)                    \
    F(LLVMOrcDisposeThreadSafeContext)                       \
    F(LLVMOrcCreateNewThreadSafeModule)                      \
    F(LLVMInstallFatalErrorHandler)

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static bool closed;
static _Thread_local bool inside; /* this thread holds the lock */

#define POINTER(name) __typeof__(&name) name;
static struct {
    FUNCTIONS(POINTER)
    LLVMOrcLLJITRef jit;
    bool tried;
} lib;

/* Drops an error message of LLVM; whether there was one. */
static bool failed(LLVMErrorRef error)
{
    if (!error)
        return false;
    char *message = lib.LLVMGetErrorMessage(error);
    if (getenv("MF_LLVM_DEBUG"))
        mf_warn("LLVM: %s", message);
    lib.LLVMDisposeErrorMessage(message);
    return true;
}

#ifdef TARGET
#define TEXT_(x) #x
#define TEXT(x)  TEXT_(x)
static bool start_target(void *handle)
{
    static const char *const names[] = { TEXT(TARGET(TargetInfo)), TEXT(TARGET(Target)), TEXT(TARGET(TargetMC)), TEXT(TARGET(AsmPrinter)) };
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        void (*start)(void);
        if (!mf_symbol_bind(handle, names[i], &start))
            return false;
        start();
    }
    return true;
}
#else
static bool start_target(void *handle) { return (void)handle, false; }
#endif

/* For this machine, or for the level that MF_CPU_ISA limits it to. */
static LLVMTargetMachineRef make_machine(void)
{
    char *triple = lib.LLVMGetDefaultTargetTriple(), *message = NULL;
    LLVMTargetRef target;
    if (lib.LLVMGetTargetFromTriple(triple, &target, &message)) {
        lib.LLVMDisposeMessage(message);
        lib.LLVMDisposeMessage(triple);
        return NULL;
    }
    const char *cap = getenv("MF_CPU_ISA");
    bool capped = cap && *cap;
    char *cpu = capped ? NULL : lib.LLVMGetHostCPUName(), *features = capped ? NULL : lib.LLVMGetHostCPUFeatures();
    LLVMTargetMachineRef machine = lib.LLVMCreateTargetMachine(
        target, triple, capped ? (mf_kernels_avx512() ? "x86-64-v4" : "x86-64-v3") : cpu, capped ? "" : features, LLVMCodeGenLevelDefault,
        LLVMRelocPIC, LLVMCodeModelJITDefault);
    if (cpu)
        lib.LLVMDisposeMessage(cpu);
    if (features)
        lib.LLVMDisposeMessage(features);
    lib.LLVMDisposeMessage(triple);
    return machine;
}

/* When the process ends, the statics that LLVM had when libLLVM was opened are destroyed after this. */
static void close_at_end(void) { (void)mf_llvm_close(); }

/* If code cannot be made executable, the first tier does the work. */
static bool may_make_code(void)
{
    static _Atomic bool warned;
    bool allowed = mf_memory_may_execute();
    if (!allowed)
        mf_warn_once(&warned, "this process may not make memory executable: hot loops stay with the precompiled kernels");
    return allowed;
}

/* bytes of free memory required: libLLVM maps 190 MiB; loops of many operations took 36 */
enum { TO_LOAD = 384 << 20, TO_COMPILE = 128 << 20 };

/* Called by a thread of this library, or by a thread of the host that uses LLVM without handlers of its own. */
static void end_of_memory(void *context, const char *reason, bool crash)
{
    (void)context, (void)crash;
    if (inside)
        mf_guard_leave();
    (void)!write(STDERR_FILENO, "LLVM ERROR: out of memory\n", 26);
    (void)reason;
    abort();
}

static void fatal(const char *reason)
{
    if (inside)
        mf_guard_leave();
    fprintf(stderr, "LLVM ERROR: %s\n", reason); /* LLVM then exits */
}

static void install_handlers(void *library)
{
    void (*install)(void (*handler)(void *, const char *, bool), void *context);
    if (mf_symbol_bind(library, "_ZN4llvm31install_bad_alloc_error_handlerEPFvPvPKcbES0_", &install)) /* not in LLVM's C interface */
        install(end_of_memory, NULL);
    lib.LLVMInstallFatalErrorHandler(fatal);
}

static void make_jit(void *unused)
{
    (void)unused;
    LLVMTargetMachineRef machine = make_machine();
    if (!machine)
        return;
    LLVMOrcLLJITBuilderRef builder = lib.LLVMOrcCreateLLJITBuilder();
    lib.LLVMOrcLLJITBuilderSetJITTargetMachineBuilder(builder, lib.LLVMOrcJITTargetMachineBuilderCreateFromTargetMachine(machine));
    if (failed(lib.LLVMOrcCreateLLJIT(&lib.jit, builder)))
        lib.jit = NULL;
}

/* Stops using LLVM; the lock is held. */
static void give_up(void)
{
    static _Atomic bool warned;
    closed = true;
    lib.jit = NULL;
    mf_warn_once(&warned, "LLVM got no memory or failed: from now on hot loops stay with the precompiled kernels");
}

static void load(void)
{
    if (!may_make_code())
        return;
    void *handle = dlopen(MF_LLVM_LIBRARY, RTLD_NOW | RTLD_LOCAL);
    bool ok = handle != NULL;
#define BIND(name) ok = ok && mf_symbol_bind(handle, #name, &lib.name);
    FUNCTIONS(BIND)
    if (!ok || atexit(close_at_end))
        return;
    mf_symbol_keep_statics(handle); /* before the first call */
    if (!start_target(handle))
        return;
    mf_guard_learn(handle);
    install_handlers(handle);
    if (!mf_guarded(make_jit, NULL))
        give_up();
}

/* ------------------------------------------------------------------ compilation */

static void free_code(void *code)
{
    (void)failed(lib.LLVMOrcResourceTrackerRemove(code));
    lib.LLVMOrcReleaseResourceTracker(code);
}

typedef struct compilation {
    const char *text;
    mf_loop_fn *run;
    void *code;
} compilation;

static void compile_text(void *of)
{
    compilation *c = of;
    const char *text = c->text;
    static int count;
    char *message = NULL, name[24];
    LLVMModuleRef module;
    LLVMOrcThreadSafeContextRef context = lib.LLVMOrcCreateNewThreadSafeContext();
    snprintf(name, sizeof name, "mf_loop%d", count++);
    LLVMMemoryBufferRef buffer = lib.LLVMCreateMemoryBufferWithMemoryRangeCopy(text, strlen(text), name);
    mf_loop_fn *run = NULL;
    if (lib.LLVMParseIRInContext(lib.LLVMOrcThreadSafeContextGetContext(context), buffer, &module, &message)) {
        if (getenv("MF_LLVM_DEBUG"))
            mf_warn("LLVM: %s\n%s", message, text);
        lib.LLVMDisposeMessage(message);
        lib.LLVMOrcDisposeThreadSafeContext(context);
        return;
    }
    lib.LLVMSetValueName2(lib.LLVMGetNamedFunction(module, "mf_loop"), name, strlen(name));
    lib.LLVMSetDataLayout(module, lib.LLVMOrcLLJITGetDataLayoutStr(lib.jit));
    lib.LLVMSetTarget(module, lib.LLVMOrcLLJITGetTripleString(lib.jit));
    LLVMOrcThreadSafeModuleRef owned = lib.LLVMOrcCreateNewThreadSafeModule(module, context);
    lib.LLVMOrcDisposeThreadSafeContext(context); /* the module keeps the context */
    LLVMOrcExecutorAddress address = 0;
    LLVMOrcResourceTrackerRef made = lib.LLVMOrcJITDylibCreateResourceTracker(lib.LLVMOrcLLJITGetMainJITDylib(lib.jit));
    if (!failed(lib.LLVMOrcLLJITAddLLVMIRModuleWithRT(lib.jit, made, owned)) && !failed(lib.LLVMOrcLLJITLookup(lib.jit, &address, name)))
        memcpy(&run, &address, sizeof run);
    if (run)
        c->code = made;
    else
        free_code(made);
    c->run = run;
}

/* ------------------------------------------------------------------ locking */

/* A fork waits until no thread is inside LLVM: locks that libLLVM and the C library hold meanwhile, for example of the list of exit
 * handlers, would be held for good in the child. */
static void before_fork(void)
{
    if (!inside)
        pthread_mutex_lock(&lock);
}

static void after_fork(void)
{
    if (!inside)
        pthread_mutex_unlock(&lock);
}

static void watch_forks(void) { pthread_atfork(before_fork, after_fork, after_fork); }

/* A thread that may be about to end the process and threads that want to enter LLVM must see each other: the former sets held_until, the
 * latter count themselves in `busy`. */
static atomic_int busy;
static atomic_llong held_until; /* ns */
enum { HOLD_MS = 50 };

static void sleep_ms(void)
{
    struct timespec rest = { 0, 1000000 };
    while (nanosleep(&rest, &rest) && errno == EINTR) {
    }
}

static void mark_busy(void)
{
    for (int ms = 0;; ms++) {
        atomic_fetch_add(&busy, 1);
        if (ms >= HOLD_MS || mf_profile_now() >= atomic_load(&held_until))
            return;
        atomic_fetch_sub(&busy, 1);
        sleep_ms();
    }
}

bool mf_llvm_idle(int ms)
{
    if (inside) /* LLVM itself calls exit */
        return true;
    for (; ms > 0 && atomic_load(&busy); ms--)
        sleep_ms();
    return !atomic_load(&busy);
}

void mf_llvm_hold(int ms)
{
    if (inside)
        return;
    atomic_store(&held_until, mf_profile_now() + HOLD_MS * 1000000LL);
    (void)mf_llvm_idle(ms);
}

static bool enter(void)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, watch_forks);
    mark_busy();
    pthread_mutex_lock(&lock);
    if (closed) {
        pthread_mutex_unlock(&lock);
        atomic_fetch_sub(&busy, 1);
        return false;
    }
    inside = true;
    if (!lib.tried && mf_memory_suffices(TO_LOAD)) { /* otherwise a later call tries again */
        load();
        lib.tried = true;
    }
    return true;
}

static void leave(void)
{
    inside = false;
    pthread_mutex_unlock(&lock);
    atomic_fetch_sub(&busy, 1);
}

bool mf_llvm_open(void)
{
    bool open = enter();
    if (!open)
        return false;
    open = lib.jit != NULL;
    leave();
    return open;
}

mf_loop_fn *mf_llvm_code(const char *text, void **code)
{
    compilation c = { .text = text };
    *code = NULL;
    if (!enter())
        return NULL;
    if (lib.jit && mf_memory_suffices(TO_COMPILE) && !mf_guarded(compile_text, &c)) {
        c = (compilation){ 0 };
        give_up();
    }
    leave();
    *code = c.code;
    return c.run;
}

void mf_llvm_free(void *code)
{
    if (!enter())
        return;
    if (!mf_guarded(free_code, code))
        give_up();
    leave();
}

bool mf_llvm_close(void)
{
    if (inside || mf_process_forked()) /* LLVM itself calls exit; or the user of LLVM is a thread of another process */
        return false;
    pthread_mutex_lock(&lock);
    closed = true;
    pthread_mutex_unlock(&lock);
    return true;
}
