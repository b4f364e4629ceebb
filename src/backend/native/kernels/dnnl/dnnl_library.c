/* Opening oneDNN; see dnnl_library.h. Opening costs 1-2 ms and some megabytes, which a program without convolutions must not pay, hence
 * dlopen. Invariant: no thread is inside oneDNN when its statics are destroyed. */
#define _GNU_SOURCE
#include "dnnl_library.h"

#include "base/memory/alloc.h"
#include "base/entry.h"
#include "base/guard.h"
#include "base/text/symbol.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#ifndef MF_DNNL_LIBRARY /* the build may name a file */
#define MF_DNNL_LIBRARY SONAME
#endif

mf_dnnl_functions mf_dnnl;
static bool usable;

static void cap_isa(void)
{
    static const struct {
        const char *name;
        dnnl_cpu_isa_t isa;
    } caps[] = { { "amx", dnnl_cpu_isa_avx512_core_amx },
                 { "avx512_bf16", dnnl_cpu_isa_avx512_core_bf16 },
                 { "avx512", dnnl_cpu_isa_avx512_core },
                 { "avx2", dnnl_cpu_isa_avx2 },
                 { "generic", dnnl_cpu_isa_sse41 } };
    const char *cap = getenv("MF_CPU_ISA");
    for (size_t i = 0; cap && i < sizeof caps / sizeof *caps; i++)
        if (!strcmp(cap, caps[i].name))
            mf_dnnl.dnnl_set_max_cpu_isa(caps[i].isa);
}

static atomic_int inside;
static atomic_bool closed;

void mf_dnnl_leave(void) { atomic_fetch_sub(&inside, 1); }

bool mf_dnnl_enter(void)
{
    atomic_fetch_add(&inside, 1);
    if (!atomic_load(&closed))
        return true;
    mf_dnnl_leave();
    return false;
}

static void close_at_end(void)
{
    if (mf_process_forked()) /* the threads inside are not in this process */
        return;
    atomic_store(&closed, true);
    while (atomic_load(&inside))
        usleep(50);
}

enum { TO_LOAD = 96 << 20 };

static void set_up(void *ok)
{
    *(bool *)ok = mf_dnnl.dnnl_engine_create(&mf_dnnl.engine, dnnl_cpu, 0) == dnnl_success &&
                  mf_dnnl.dnnl_primitive_attr_create(&mf_dnnl.attr) == dnnl_success &&
                  mf_dnnl.dnnl_primitive_attr_set_scratchpad_mode(mf_dnnl.attr, dnnl_scratchpad_mode_user) == dnnl_success;
}

static atomic_bool ends; /* whether the process is ending */
static void end_begins(void) { atomic_store(&ends, true); }

static void load(void)
{
    if (!mf_memory_may_execute() || atexit(end_begins))
        return;
    void *handle = dlopen(MF_DNNL_LIBRARY, RTLD_NOW | RTLD_LOCAL);
    if (!handle || atexit(close_at_end))
        return;
    mf_symbol_keep_statics(handle); /* before the first call */
    /* Handlers registered later are called first. If exit began while the library was being opened, its statics are destroyed, or about
     * to be, and our handlers are called within a moment. */
    usleep(300);
    if (atomic_load(&ends) || atomic_load(&closed))
        return;
    bool ok = true;
#define BIND(name) ok = mf_symbol_bind(handle, #name, &mf_dnnl.name) && ok;
    COMMON_FUNCTIONS(BIND)
    VERSION_FUNCTIONS(BIND)
    if (!ok)
        return;
    /* A build of oneDNN without OpenMP has no thread team to limit. */
    if (!mf_symbol_bind(handle, "omp_set_num_threads", &mf_dnnl.omp_set_num_threads) ||
        !mf_symbol_bind(handle, "omp_get_max_threads", &mf_dnnl.omp_get_max_threads))
        mf_dnnl.omp_set_num_threads = NULL;
    cap_isa();
    mf_dnnl.dnnl_set_primitive_cache_capacity(0); /* we have our own */
    mf_guard_learn(handle);
    bool set = false;
    usable = mf_guarded(set_up, &set) && set;
}

bool mf_dnnl_loaded(void)
{
    static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
    static atomic_bool tried;
    if (atomic_load(&tried))
        return usable;
    pthread_mutex_lock(&lock);
    if (!atomic_load(&tried) && mf_memory_suffices(TO_LOAD)) {
        load();
        atomic_store(&tried, true);
    }
    pthread_mutex_unlock(&lock);
    return usable;
}

int mf_dnnl_team_of_one(void)
{
    if (!mf_dnnl.omp_set_num_threads)
        return 0;
    int before = mf_dnnl.omp_get_max_threads();
    if (before != 1)
        mf_dnnl.omp_set_num_threads(1);
    return before;
}

void mf_dnnl_team_restore(int before)
{
    if (before > 1)
        mf_dnnl.omp_set_num_threads(before);
}
