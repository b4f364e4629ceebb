/* LLVM behind one function: IR text in, machine code out. The library is opened when the first loop nest is to be compiled, never
 * before, and code lives as long as the process: equal texts are compiled once.
 * Invariant: everything here runs under one lock; no floating-point operation is contracted or reassociated. Anything that fails gives
 * NULL, and tile kernels do the work. */
#include "backend/native/llvm.h"

#include <dlfcn.h>
#include <llvm-c/Core.h>
#include <llvm-c/Error.h>
#include <llvm-c/IRReader.h>
#include <llvm-c/LLJIT.h>
#include <llvm-c/Orc.h>
#include <llvm-c/Target.h>
#include <llvm-c/TargetMachine.h>
#include <pthread.h>
#include <stdlib.h>
#include <stdio.h>
#include <string.h>

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
    F(LLVMOrcLLJITAddLLVMIRModule)                           \
    F(LLVMOrcLLJITLookup)                                    \
    F(LLVMOrcCreateNewThreadSafeContext)                     \
    F(LLVMOrcThreadSafeContextGetContext)                    \
    F(LLVMOrcDisposeThreadSafeContext)                       \
    F(LLVMOrcCreateNewThreadSafeModule)

#define POINTER(name) __typeof__(&name) name;
static struct {
    FUNCTIONS(POINTER)
    LLVMOrcLLJITRef jit;
    bool tried;
} lib;

static bool bind(void *handle, const char *name, void *slot)
{
    void *symbol = dlsym(handle, name);
    memcpy(slot, &symbol, sizeof symbol);
    return symbol != NULL;
}

/* A message of LLVM's, dropped. True when there was one. */
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
        if (!bind(handle, names[i], &start))
            return false;
        start();
    }
    return true;
}
#else
static bool start_target(void *handle) { return (void)handle, false; }
#endif

/* The machine as it is, or the level that MF_CPU_ISA caps it to. */
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
        target, triple, capped ? (mf_native_avx512() ? "x86-64-v4" : "x86-64-v3") : cpu, capped ? "" : features, LLVMCodeGenLevelDefault,
        LLVMRelocPIC, LLVMCodeModelJITDefault);
    if (cpu)
        lib.LLVMDisposeMessage(cpu);
    if (features)
        lib.LLVMDisposeMessage(features);
    lib.LLVMDisposeMessage(triple);
    return machine;
}

static void load(void)
{
    void *handle = dlopen(MF_LLVM_LIBRARY, RTLD_NOW | RTLD_LOCAL);
    bool ok = handle != NULL;
#define BIND(name) ok = ok && bind(handle, #name, &lib.name);
    FUNCTIONS(BIND)
    if (!ok || !start_target(handle))
        return;
    LLVMTargetMachineRef machine = make_machine();
    if (!machine)
        return;
    LLVMOrcLLJITBuilderRef builder = lib.LLVMOrcCreateLLJITBuilder();
    lib.LLVMOrcLLJITBuilderSetJITTargetMachineBuilder(builder, lib.LLVMOrcJITTargetMachineBuilderCreateFromTargetMachine(machine));
    if (failed(lib.LLVMOrcCreateLLJIT(&lib.jit, builder)))
        lib.jit = NULL;
}

/* ------------------------------------------------------------------ compiled texts */

typedef struct code {
    struct code *next;
    uint64_t hash;
    char *text;      /* without the function's name */
    mf_loop_fn *run; /* NULL: could not be compiled */
} code;

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static code *table[256];

static mf_loop_fn *compile_text(const char *text, const char *name)
{
    char *message = NULL;
    LLVMModuleRef module;
    LLVMOrcThreadSafeContextRef context = lib.LLVMOrcCreateNewThreadSafeContext();
    LLVMMemoryBufferRef buffer = lib.LLVMCreateMemoryBufferWithMemoryRangeCopy(text, strlen(text), name);
    mf_loop_fn *run = NULL;
    if (lib.LLVMParseIRInContext(lib.LLVMOrcThreadSafeContextGetContext(context), buffer, &module, &message)) {
        if (getenv("MF_LLVM_DEBUG"))
            mf_warn("LLVM: %s\n%s", message, text);
        lib.LLVMDisposeMessage(message);
        lib.LLVMOrcDisposeThreadSafeContext(context);
        return NULL;
    }
    lib.LLVMSetDataLayout(module, lib.LLVMOrcLLJITGetDataLayoutStr(lib.jit));
    lib.LLVMSetTarget(module, lib.LLVMOrcLLJITGetTripleString(lib.jit));
    LLVMOrcThreadSafeModuleRef owned = lib.LLVMOrcCreateNewThreadSafeModule(module, context);
    lib.LLVMOrcDisposeThreadSafeContext(context); /* the module keeps it */
    LLVMOrcExecutorAddress address = 0;
    if (!failed(lib.LLVMOrcLLJITAddLLVMIRModule(lib.jit, lib.LLVMOrcLLJITGetMainJITDylib(lib.jit), owned)) &&
        !failed(lib.LLVMOrcLLJITLookup(lib.jit, &address, name)))
        memcpy(&run, &address, sizeof run);
    return run;
}

/* Finds or makes the code of a text in which the function is called `name`. The lock is held. */
static mf_loop_fn *find_code(const char *text, const char *name, uint64_t hash)
{
    code **bucket = &table[hash % 256];
    for (code *c = *bucket; c; c = c->next)
        if (c->hash == hash && !strcmp(c->text, text))
            return c->run;
    code *c = mf_alloc(sizeof *c);
    char *copy = mf_strdup(text);
    if (!c || !copy) {
        mf_free(c);
        mf_free(copy);
        return NULL;
    }
    if (!lib.tried)
        load();
    lib.tried = true;
    *c = (code){ *bucket, hash, copy, lib.jit ? compile_text(text, name) : NULL };
    *bucket = c;
    return c->run;
}

/* The name stands for the group's structure: equal groups give equal texts. */
static uint64_t structure_of(const mf_group_plan *plan)
{
    const mf_group *g = plan->group;
    uint64_t h = mf_hash(plan->dims, (size_t)plan->rank * sizeof *plan->dims, (uint64_t)plan->n);
    for (int i = 0; i < g->count; i++) {
        const mf_node *x = &g->nodes[i];
        const mf_load *l = &plan->loads[i];
        int64_t facts[] = { x->kind, x->dtype, x->in_count, x->in[0], x->in[1], x->in[2], x->bits, plan->out_slot[i], l->slot, l->offset };
        h = mf_hash(facts, sizeof facts, h);
        h = mf_hash(l->strides, (size_t)plan->rank * sizeof *l->strides, h);
        if (x->name)
            h = mf_hash(x->name, strlen(x->name), h);
    }
    return h;
}

bool mf_llvm_can(const mf_group *g)
{
    for (int i = 0; i < g->count; i++)
        if (!mf_ir_node_possible(g, &g->nodes[i]))
            return false;
    return true;
}

mf_loop_fn *mf_llvm_compile_rows(const mf_rows_plan *plan)
{
    static const char name[] = "mf_rows"; /* of the text; the function's name adds its hash */
    mf_arena strings = { 0 };
    mf_ir draft = { .strings = &strings }, ir = { .strings = &strings };
    char full[32];
    mf_loop_fn *run = NULL;
    mf_ir_rows(&draft, plan, name);
    if (!draft.failed) {
        uint64_t hash = mf_hash(draft.text.at, strlen(draft.text.at), 1);
        snprintf(full, sizeof full, "mf_%016llx", (unsigned long long)hash);
        mf_ir_rows(&ir, plan, full);
        pthread_mutex_lock(&lock);
        run = ir.failed ? NULL : find_code(ir.text.at, full, hash);
        pthread_mutex_unlock(&lock);
    }
    mf_text_free(&draft.text);
    mf_text_free(&ir.text);
    mf_arena_free(&strings);
    return run;
}

int mf_llvm_lanes(void) { return mf_native_avx512() ? 16 : 8; }

mf_loop_fn *mf_llvm_compile(const mf_group_plan *plan, int64_t *rows)
{
    mf_arena strings = { 0 };
    mf_ir ir = { .strings = &strings };
    char name[32];
    uint64_t hash = structure_of(plan);
    mf_loop_fn *run = NULL;
    snprintf(name, sizeof name, "mf_%016llx", (unsigned long long)hash);
    mf_ir_loops(&ir, plan, name, rows);
    if (!ir.failed) {
        pthread_mutex_lock(&lock);
        run = find_code(ir.text.at, name, hash);
        pthread_mutex_unlock(&lock);
    }
    mf_text_free(&ir.text);
    mf_arena_free(&strings);
    return run;
}
