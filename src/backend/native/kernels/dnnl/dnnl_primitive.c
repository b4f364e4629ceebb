/* Making oneDNN's primitives, and the cache of them; see dnnl_primitive.h for the invariant.
 * Memory: oneDNN does not check every result of malloc, its C++ exceptions cannot pass through C, and OpenMP aborts the process when an
 * allocation fails. So it is entered only if many times the memory that it was seen to take is available, and exceptions that it throws
 * nevertheless are caught here. */
#define _GNU_SOURCE
#include "dnnl_primitive.h"

#include "base/memory/alloc.h"
#include "base/error.h"
#include "base/guard.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

/* ---- primitives ---- */

static _Thread_local bool memory_was_out; /* since it was last set to false */

bool mf_dnnl_ok(dnnl_status_t status)
{
    memory_was_out = memory_was_out || status == dnnl_out_of_memory;
    return status == dnnl_success;
}

static size_t align64(size_t n) { return (n + 63) & ~(size_t)63; }

static dnnl_data_type_t data_type(mf_dtype dtype)
{
    return dtype == MF_F32 ? dnnl_f32 : dtype == MF_BF16 ? dnnl_bf16 : dnnl_data_type_undef;
}

bool mf_dnnl_desc_make(desc *out, int rank, const int64_t *dims, const int64_t *strides, mf_dtype dtype)
{
    dnnl_dims_t d = { 0 }, s = { 0 };
    for (int i = 0; i < rank; i++) {
        d[i] = dims[i];
        if (strides)
            s[i] = strides[i];
    }
#if DNNL_VERSION_MAJOR >= 3
    return mf_dnnl_ok(strides ? mf_dnnl.dnnl_memory_desc_create_with_strides(out, rank, d, data_type(dtype), s)
                              : mf_dnnl.dnnl_memory_desc_create_with_tag(out, rank, d, data_type(dtype), dnnl_format_tag_any));
#else
    return mf_dnnl_ok(strides ? mf_dnnl.dnnl_memory_desc_init_by_strides(out, rank, d, data_type(dtype), s)
                              : mf_dnnl.dnnl_memory_desc_init_by_tag(out, rank, d, data_type(dtype), dnnl_format_tag_any));
#endif
}

static desc copy_desc(desc_ref d)
{
#if DNNL_VERSION_MAJOR >= 3
    desc out = NULL;
    mf_dnnl.dnnl_memory_desc_clone(&out, d);
    return out;
#else
    return *d;
#endif
}

void mf_dnnl_desc_free(desc *d)
{
#if DNNL_VERSION_MAJOR >= 3
    if (*d)
        mf_dnnl.dnnl_memory_desc_destroy(*d);
#endif
    memset(d, 0, sizeof *d);
}

static bool add_reorder(mf_dnnl_primitive *p, mf_dnnl_operand *o, bool output)
{
    desc_ref from = output ? REF(o->wanted) : REF(o->user), to = output ? REF(o->user) : REF(o->wanted);
    if (!mf_dnnl_ok(mf_dnnl.dnnl_reorder_primitive_desc_create(&o->reorder_desc, from, mf_dnnl.engine, to, mf_dnnl.engine, mf_dnnl.attr)))
        return false;
    bool ok = mf_dnnl_ok(mf_dnnl.dnnl_primitive_create(&o->reorder, o->reorder_desc));
    o->reorder_scratch = mf_dnnl.dnnl_primitive_desc_query_md(o->reorder_desc, dnnl_query_scratchpad_md, 0);
    o->bytes = mf_dnnl.dnnl_memory_desc_get_size(REF(o->wanted));
    o->offset = p->scratch_bytes;
    p->scratch_bytes += align64(o->bytes);
    return ok;
}

bool mf_dnnl_finish(mf_dnnl_primitive *p)
{
    dnnl_primitive_desc_t pd = p->desc;
    p->scratch = mf_dnnl.dnnl_primitive_desc_query_md(pd, dnnl_query_scratchpad_md, 0);
    p->scratch_bytes = p->scratch ? align64(mf_dnnl.dnnl_memory_desc_get_size(p->scratch)) : 0;
    mf_dnnl.dnnl_primitive_desc_query(pd, dnnl_query_impl_info_str, 0, &p->description);
    for (int i = 0; i < MF_DNNL_OPERANDS; i++) {
        mf_dnnl_operand *o = &p->operands[i];
        o->wanted = copy_desc(mf_dnnl.dnnl_primitive_desc_query_md(pd, dnnl_query_exec_arg_md, o->argument));
        if (mf_dnnl.dnnl_memory_desc_equal(REF(o->user), REF(o->wanted)))
            continue;
        if (!add_reorder(p, o, i == MF_DNNL_OUT))
            return false;
    }
    p->reorder_offset = p->scratch_bytes;
    size_t most = 0;
    for (int i = 0; i < MF_DNNL_OPERANDS; i++) {
        desc_ref d = p->operands[i].reorder_scratch;
        size_t bytes = d ? mf_dnnl.dnnl_memory_desc_get_size(d) : 0;
        if (bytes > most)
            most = bytes;
    }
    p->scratch_bytes += align64(most);
    return mf_dnnl_ok(mf_dnnl.dnnl_primitive_create(&p->primitive, pd));
}

bool mf_dnnl_is_reference(dnnl_primitive_desc_t pd)
{
    const char *name = NULL;
    mf_dnnl.dnnl_primitive_desc_query(pd, dnnl_query_impl_info_str, 0, &name);
    return name && !strncmp(name, "ref", 3);
}

/* ---- the cache ---- */

enum { TO_CREATE = 16 << 20 }; /* bytes */

static pthread_mutex_t cache_lock = PTHREAD_MUTEX_INITIALIZER;
static mf_dnnl_primitive *cache;
static int64_t gets;
static int primitives; /* in the cache */
_Atomic int mf_dnnl_cache_most = 512;

static mf_dnnl_primitive *find(const int64_t *key)
{
    for (mf_dnnl_primitive *p = cache; p; p = p->next)
        if (!memcmp(p->key, key, sizeof p->key))
            return p;
    return NULL;
}

/* Frees everything but its key. */
static void empty(mf_dnnl_primitive *p)
{
    for (mf_dnnl_context *c = p->idle, *next; c; c = next) {
        next = c->next;
        mf_dnnl_context_free(c);
    }
    for (int i = 0; i < MF_DNNL_OPERANDS; i++) {
        mf_dnnl_operand *o = &p->operands[i];
        if (o->reorder)
            mf_dnnl.dnnl_primitive_destroy(o->reorder);
        if (o->reorder_desc)
            mf_dnnl.dnnl_primitive_desc_destroy(o->reorder_desc);
        mf_dnnl_desc_free(&o->user);
        mf_dnnl_desc_free(&o->wanted);
        *o = (mf_dnnl_operand){ 0 };
    }
    if (p->primitive)
        mf_dnnl.dnnl_primitive_destroy(p->primitive);
    if (p->desc)
        mf_dnnl.dnnl_primitive_desc_destroy(p->desc);
    p->primitive = NULL;
    p->desc = NULL;
}

static void free_primitive(mf_dnnl_primitive *p)
{
    empty(p);
    pthread_mutex_destroy(&p->lock);
    free(p);
}

typedef struct making {
    mf_dnnl_primitive *p;
    mf_dnnl_builder *build;
    const void *problem;
    bool made;
} making;

static void build_guarded(void *of)
{
    making *m = of;
    m->made = m->build(m->p, m->problem);
}

/* NULL: out of memory. An unsupported problem keeps its key, so that it is not tried again. */
static mf_dnnl_primitive *make(const int64_t *key, mf_dnnl_builder *build, const void *problem)
{
    mf_dnnl_primitive *p = mf_memory_suffices(TO_CREATE) ? calloc(1, sizeof *p) : NULL;
    making m = { .p = p, .build = build, .problem = problem };
    if (!p)
        return NULL;
    memcpy(p->key, key, sizeof p->key);
    pthread_mutex_init(&p->lock, NULL);
    int team = mf_dnnl_team_of_one();
    memory_was_out = false;
    memory_was_out = !mf_guarded(build_guarded, &m) || memory_was_out;
    mf_dnnl_team_restore(team);
    if (!m.made)
        empty(p);
    if (!m.made && memory_was_out) {
        free_primitive(p);
        return NULL;
    }
    return p;
}

/* Makes room for one more: removes the least recently requested of the unused primitives. The lock is held. */
static void evict(void)
{
    while (primitives >= mf_dnnl_cache_most) {
        mf_dnnl_primitive **oldest = NULL, *gone;
        for (mf_dnnl_primitive **at = &cache; *at; at = &(*at)->next)
            if (!(*at)->users && (!oldest || (*at)->last < (*oldest)->last))
                oldest = at;
        if (!oldest)
            return;
        gone = *oldest;
        *oldest = gone->next;
        primitives--;
        free_primitive(gone);
    }
}

/* Creates under the lock, so that two devices with the same problem share one creation. */
const mf_dnnl_primitive *mf_dnnl_get(const int64_t *key, mf_dnnl_builder *build, const void *problem, bool *no_memory)
{
    *no_memory = false;
    if (!mf_dnnl_enter())
        return NULL;
    pthread_mutex_lock(&cache_lock);
    mf_dnnl_primitive *p = find(key);
    if (!p && (p = make(key, build, problem))) {
        evict();
        p->next = cache;
        cache = p;
        primitives++;
    }
    *no_memory = !p;
    if (p)
        p->last = ++gets;
    if (p && !p->primitive)
        p = NULL;
    if (p)
        p->users++;
    pthread_mutex_unlock(&cache_lock);
    mf_dnnl_leave();
    return p;
}

void mf_dnnl_release(void *primitive)
{
    pthread_mutex_lock(&cache_lock);
    ((mf_dnnl_primitive *)primitive)->users--;
    pthread_mutex_unlock(&cache_lock);
}

int mf_dnnl_cache_count(void)
{
    pthread_mutex_lock(&cache_lock);
    int count = primitives;
    pthread_mutex_unlock(&cache_lock);
    return count;
}

/* ---- what this machine supports ---- */

static bool is_intel(void)
{
#if defined(__x86_64__)
    __builtin_cpu_init();
    return __builtin_cpu_is("intel");
#else
    return false;
#endif
}

/* Whether this machine multiplies bf16 faster than f32. oneDNN emulates what the machine lacks, at a quarter of f32's rate; and Intel's
 * AVX-512 takes two cycles per bf16 product, half of f32's rate, so there AMX is required, which the system may refuse. */
static bool bf16_pays(void)
{
    unsigned isa = mf_dnnl.dnnl_get_effective_cpu_isa(), least = is_intel() ? dnnl_cpu_isa_avx512_core_amx : dnnl_cpu_isa_avx512_core_bf16;
    return (isa & least) == least;
}

bool mf_dnnl_supports(mf_dtype dtype)
{
    if (data_type(dtype) == dnnl_data_type_undef || !mf_dnnl_loaded())
        return false;
    return dtype == MF_F32 || bf16_pays();
}
