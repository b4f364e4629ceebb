/* pmap as a function: the inner function is traced on a shard's types with the axis in scope; its program becomes one pmap equation. All
 * checks of pmap are here, against declared variance and the device count; the messages follow JAX's. */
#include "transform/functions/mapped/pmap.h"

#include "base/memory/vector.h"
#include "ops/ops.h"
#include "passes/passes.h"
#include "runtime/comm.h"
#include "runtime/device.h"
#include "trace/dispatch.h"
#include "transform/functions/mapped/mapped_call.h"
#include "transform/rules/sweep.h"

#include <manyfold/state.h>
#include <string.h>

typedef struct pmap_options {
    const char *axis_name, *backend;
    const mf_client *client; /* the client of devices or backend; NULL: neither is given */
    mf_axis in_axes, out_axes;
    mf_ints static_argnums, donate_argnums, replicated_argnums;
    const mf_intlist *devices; /* NULL: not given */
    int64_t axis_size;
    const mf_cell_rules *rules;
} pmap_options;

/* ---- devices and sizes */

static const mf_client *client_of(const pmap_options *o, const mf_signature *s) { return o->client ? o->client : s->client; }

static int64_t device_total(const pmap_options *o, const mf_signature *s) { return mf_device_total(client_of(o, s)); }

static mf_error_object *check_devices(const mf_intlist *devices, const mf_client *client)
{
    if (!devices->count)
        return mf_error_new(MF_ERROR_DEVICE, "pmap: 'devices' argument is empty; it must name at least one device");
    for (int i = 0; i < devices->count; i++) {
        if (devices->at[i] < 0 || devices->at[i] >= mf_device_total(client))
            return mf_error_new(MF_ERROR_DEVICE, "pmap: devices[%d] is no device of this process", i);
        for (int k = 0; k < i; k++)
            if (devices->at[k] == devices->at[i])
                return mf_error_new(MF_ERROR_DEVICE,
                                    "pmap: the same device is named twice: devices[%d] and devices[%d] are both device %lld", k, i,
                                    (long long)devices->at[i]);
    }
    return NULL;
}

static int64_t outer_devices(const mf_axis_env *env)
{
    int64_t n = 1;
    for (; env; env = env->outer)
        n *= env->is_pmap ? env->size : 1;
    return n;
}

static bool inside_pmap(const mf_axis_env *env)
{
    while (env && !env->is_pmap)
        env = env->outer;
    return env != NULL;
}

static mf_error_object *too_few_devices(int64_t needed, int64_t total)
{
    return mf_error_new(MF_ERROR_DEVICE,
                        "pmapped function requires %lld local devices to run due to nested pmapped or other parallel functions, "
                        "but only %lld are available.",
                        (long long)needed, (long long)total);
}

static mf_error_object *check_size(const mf_function_object *f, const mf_signature *s, int64_t size)
{
    const pmap_options *o = f->options;
    int64_t outer = outer_devices(s->env), total = device_total(o, s);
    if (o->devices && inside_pmap(s->env))
        return mf_error_new(MF_ERROR_DEVICE, "Nested pmap with explicit devices argument (%s).", f->name);
    if (outer > 1 && outer * size > total)
        return too_few_devices(outer * size, total);
    if (size > total && !o->devices)
        return mf_error_new(MF_ERROR_DEVICE, "compiling computation %s requires %lld replicas, but only %lld %s devices are available",
                            f->inner->name, (long long)size, (long long)total,
                            client_of(o, s) == &mf_client_cpu ? "CPU" : client_of(o, s)->platform);
    return NULL;
}

int64_t mf_pmap_span(const mf_pmap_params *m)
{
    return m->devices->count ? m->devices->count / m->axis_size : mf_program_replicas(m->program);
}

int64_t mf_program_replicas(const mf_program *p)
{
    int64_t most = 1;
    for (int i = 0; i < p->eqn_count; i++) {
        const mf_eqn *e = p->eqns[i];
        const mf_pmap_params *m = e->op == &mf_op_pmap ? e->params : NULL;
        int64_t inner = m ? m->axis_size * mf_pmap_span(m) : 1;
        for (int k = 0; k < mf_params_program_count(e->op, e->params) && !m; k++) {
            int64_t nested = mf_program_replicas(*mf_params_program_at(e->op, e->params, k));
            inner = nested > inner ? nested : inner;
        }
        most = inner > most ? inner : most;
    }
    return most;
}

/* Devices that are named, or over which the axis spans processes, serve the map and the maps inside it: there must be exactly as many as
 * they all need. */
static mf_error_object *check_named_devices(const pmap_options *o, const mf_mapped_call *m, const mf_program *body)
{
    const mf_intlist *devices = m->here ? m->here : o->devices;
    int64_t size = mf_mapped_axis_size(m), needed = size * mf_program_replicas(body);
    if (!devices || needed == devices->count)
        return NULL;
    if (needed > devices->count && needed > size)
        return too_few_devices(needed, devices->count);
    if (m->here)
        return mf_global_axis_wrong_rows(m->here, m->size, m->size * devices->count / needed);
    return mf_error_new(MF_ERROR_SHAPE,
                        "Leading axis size of input to pmapped function must equal the number of local devices passed to pmap. "
                        "Got axis_size=%lld, num_local_devices=%lld.",
                        (long long)size, (long long)devices->count);
}

/* For a map over devices of this process alone in a job of several processes: a collective that looks like one over all processes would
 * give each process a different result. Naming the devices shows that it is meant. */
static mf_error_object *check_stays_here(const pmap_options *o, const mf_client *client, int64_t size, const mf_program *body)
{
    const mf_comm *c = mf_comm_current();
    const mf_eqn *e = c && c->size > 1 && !o->devices && o->axis_name ? mf_program_mention(body, o->axis_name) : NULL;
    if (!e)
        return NULL;
    mf_error_object *error = mf_error_new(
        MF_ERROR_DEVICE,
        "pmap: %s over '%s' would be over %lld devices of this process alone, for no map on devices of %s spans processes, "
        "and this is one of %d; name the devices, .devices = mf_devices_of(\"%s\"), if that is meant",
        e->op->name, o->axis_name, (long long)size, client->platform, c->size, client->platform);
    if (e->address)
        mf_error_set_address(error, e->address);
    return error;
}

static mf_error_object *resolve_global_axis(const mf_function_object *f, const mf_signature *s, mf_mapped_call *m)
{
    const pmap_options *o = f->options;
    (void)s;
    return m->here ? mf_global_axis_find(m->here, o->axis_size, m) : NULL;
}

/* The size when nothing is mapped: axis_size, else that of the states that the rules map (trace_inside), else the number of given devices,
 * else all local devices that the enclosing maps leave. */
static mf_error_object *resolve_size(const mf_function_object *f, const mf_signature *s, mf_mapped_call *m)
{
    const pmap_options *o = f->options;
    mf_error_object *e = resolve_global_axis(f, s, m);
    if (e)
        return e;
    if (m->size < 0)
        m->size = o->devices ? o->devices->count : device_total(o, s) / outer_devices(s->env);
    return check_size(f, s, m->axis_size ? m->axis_size : m->size < 1 ? 1 : m->size);
}

/* ---- out_axes=None requires results that do not vary */

static mf_error_object *varying_error(const mf_function_object *f, const mf_signature *s, const mf_traced *inner, const mf_axis_env *env,
                                      int output, const uint64_t *masks, int depth)
{
    const pmap_options *o = f->options;
    if (output >= mf_traced_result_count(inner))
        return mf_unexpected_output(o->rules, inner, output, f->name);
    mf_text path = { 0 }, through = { 0 };
    mf_traced_output_path(&path, inner, output);
    uint64_t *alone = mf_calloc((size_t)inner->program->in_count + 1, sizeof *alone);
    for (int i = 0, typed = 0; alone && i < s->leaf_count && !through.count; i++) {
        if (!s->leaves[i].type)
            continue;
        if (masks[typed] >> depth & 1) {
            alone[typed] = (uint64_t)1 << depth;
            uint64_t *v = mf_variance_of(inner->program, env, alone);
            if (v && v[inner->program->out[output]->id] >> depth & 1)
                mf_signature_leaf_path(&through, s, i);
            mf_free(v);
            alone[typed] = 0;
        }
        typed++;
    }
    mf_free(alone);
    mf_error_object *e = mf_error_new(
        MF_ERROR_AXIS,
        "%s: out_axes is none for %s, but its value varies over the mapped axis%s%s%s through %s; use a collective "
        "such as psum to make it the same on all devices, or map it with out_axes=0",
        f->name, path.at ? path.at : "a result", o->axis_name ? " '" : "", o->axis_name ? o->axis_name : "", o->axis_name ? "'" : "",
        through.at ? through.at : "the device's index");
    mf_text_free(&path);
    mf_text_free(&through);
    return e;
}

/* The variance of the body's variables when the mapped inputs vary over this map; NULL when out of memory. */
static uint64_t *variance_inside(const mf_program *p, const mf_axis_env *env, const mf_axis *in_axes, uint64_t *masks)
{
    int depth = mf_axis_env_depth(env, env);
    for (int i = 0; masks && i < p->in_count; i++)
        masks[i] = in_axes[i] == MF_NONE ? 0 : (uint64_t)1 << depth;
    return masks ? mf_variance_of(p, env, masks) : NULL;
}

static mf_error_object *check_unmapped_results(const mf_function_object *f, const mf_signature *s, const mf_traced *inner,
                                               const mf_axis_env *env, const mf_axis *in_axes, const mf_axis *out_axes)
{
    const mf_program *p = inner->program;
    bool any = false;
    for (int i = 0; i < p->out_count; i++)
        any |= out_axes[i] == MF_NONE;
    if (!any)
        return NULL;
    int depth = mf_axis_env_depth(env, env);
    uint64_t *masks = mf_calloc((size_t)p->in_count + 1, sizeof *masks), *v = variance_inside(p, env, in_axes, masks);
    mf_error_object *e = v ? NULL : mf_error_out_of_memory();
    for (int i = 0; i < p->out_count && !e; i++)
        if (out_axes[i] == MF_NONE && v[p->out[i]->id] >> depth & 1)
            e = varying_error(f, s, inner, env, i, masks, depth);
    mf_free(masks);
    mf_free(v);
    return e;
}

/* States that come out varying although no rule names them get axis 0. */
static mf_error_object *map_unexpected_results(const mf_function_object *f, const mf_traced *inner, const mf_axis_env *env,
                                               const mf_axis *in_axes, mf_axis *out_axes)
{
    const mf_program *p = inner->program;
    const pmap_options *o = f->options;
    int depth = mf_axis_env_depth(env, env);
    uint64_t *masks = mf_calloc((size_t)p->in_count + 1, sizeof *masks), *v = variance_inside(p, env, in_axes, masks);
    mf_error_object *e = v ? NULL : mf_error_out_of_memory();
    for (int i = mf_traced_result_count(inner); i < p->out_count && !e; i++)
        if (out_axes[i] == MF_NONE && v[p->out[i]->id] >> depth & 1) {
            out_axes[i] = 0;
            e = mf_unexpected_output(o->rules, inner, i, f->name);
        }
    mf_free(masks);
    mf_free(v);
    return e;
}

/* ---- the equation */

static const mf_intlist *axis_list(const mf_axis *axes, int count) { return mf_ints_intern(axes, count); }

/* Positions 0 to count-1: all devices in order, or in a map all devices of one of its indices. NULL when out of memory. */
static const mf_intlist *first_positions(int count)
{
    int64_t *at = mf_alloc((size_t)count * sizeof *at);
    for (int i = 0; at && i < count; i++)
        at[i] = i;
    const mf_intlist *list = at ? mf_ints_intern(at, count) : NULL;
    mf_free(at);
    return list;
}

static mf_program *pmap_program(const mf_function_object *f, const mf_signature *s, const mf_traced *inner, const mf_mapped_call *m,
                                const mf_axis *in_axes, const mf_axis *out_axes, mf_error_object **error)
{
    const pmap_options *o = f->options;
    const mf_program *p = inner->program;
    const mf_type **types = mf_alloc(((size_t)p->in_count + 1) * sizeof *types);
    if (!types) {
        *error = mf_error_out_of_memory();
        return NULL;
    }
    for (int i = 0; i < p->in_count; i++)
        types[i] = in_axes[i] == MF_NONE ? p->in[i]->type : mf_type_insert_axis(p->in[i]->type, (int)in_axes[i], m->size);
    mf_pmap_params params = {
        .program = inner->program,
        .axis_name = o->axis_name,
        .name = f->inner->name,
        .axis_size = mf_mapped_axis_size(m),
        .local = m->local && m->local->count < m->axis_size ? m->local : mf_ints_of(0),
        .in_axes = axis_list(in_axes, p->in_count),
        .out_axes = axis_list(out_axes, p->out_count),
        .devices = o->devices ? o->devices
                   : m->here  ? first_positions(m->here->count)
                              : mf_ints_of(0),
        .donated = mf_ints_of(0),
        .backend = o->backend,
    };
    mf_program *q = params.devices ? mf_program_of_eqn(s->env, &mf_op_pmap, &params, types, p->in_count, error) : NULL;
    if (!params.devices)
        *error = mf_error_out_of_memory();
    mf_free(types);
    return q;
}

static mf_traced *map_traced(mf_function_object *f, const mf_signature *s, const mf_mapped_call *m, mf_traced *inner,
                             mf_error_object **error)
{
    const pmap_options *o = f->options;
    const mf_program *p = inner->program;
    mf_axis *in_axes = mf_alloc(((size_t)p->in_count + (size_t)p->out_count + 1) * sizeof *in_axes),
            *out_axes = in_axes ? in_axes + p->in_count : NULL;
    if (!in_axes) {
        *error = mf_error_out_of_memory();
        return NULL;
    }
    int n = 0, reads = mf_traced_read_count(inner);
    for (int i = 0; i < s->leaf_count; i++)
        if (s->leaves[i].type)
            in_axes[n++] = m->axes[i];
    while (n < p->in_count - reads)
        in_axes[n++] = MF_NONE;
    mf_mapped_cell_axes(inner, o->rules, in_axes + n);
    if (o->rules)
        mf_split_cell_axes(inner, in_axes + n, NULL);
    for (; n < p->in_count; n++)
        if (in_axes[n] != MF_NONE && in_axes[n] < 0)
            in_axes[n] += p->in[n]->type->rank + 1;
    *error = mf_mapped_out_axes(inner, f, o->out_axes, o->rules, "pmap", out_axes);
    if (o->rules && !*error)
        mf_split_cell_axes(inner, NULL, out_axes + mf_traced_result_count(inner));
    if (!*error && o->rules && o->rules->unexpected != MF_UNEXPECTED_RAISE)
        *error = map_unexpected_results(f, inner, m->inner.env, in_axes, out_axes);
    if (!*error)
        *error = check_unmapped_results(f, s, inner, m->inner.env, in_axes, out_axes);
    mf_program *q = *error ? NULL : pmap_program(f, s, inner, m, in_axes, out_axes, error);
    mf_free(in_axes);
    if (!q)
        return NULL;
    return o->rules ? mf_traced_with_split_keys(inner, q, s->env, m, error)
                    : mf_traced_with(inner, q, inner->result, inner->result_statics);
}

/* ---- replicated_argnums: the arguments' leaves are checked before the function's own equations */

static bool is_replicated(const mf_ints *argnums, int argument)
{
    for (int k = 0; k < argnums->count; k++)
        if (argnums->at[k] == argument)
            return true;
    return false;
}

/* Puts checks on the leaves of these arguments; the typed leaves are the first inputs. */
static void check_leaves(mf_builder *b, const pmap_options *o, const mf_signature *s, mf_variable **in)
{
    for (int argument = 0, leaf = 0, typed = 0; argument < s->arg_count; argument++)
        for (int k = 0; k < s->structures[argument]->leaf_count; k++, leaf++) {
            if (!s->leaves[leaf].type)
                continue;
            mf_variable **v = &in[typed++];
            if (!is_replicated(&o->replicated_argnums, argument))
                continue;
            mf_text path = { 0 };
            mf_signature_leaf_path(&path, s, leaf);
            mf_replicated_params p = { mf_names_intern(&o->axis_name, 1), mf_intern(path.at ? path.at : "") };
            *v = mf_emit(b, &mf_op_check_replicated, &p, 1, *v);
            mf_text_free(&path);
        }
}

static mf_traced *with_checks(const mf_function_object *f, const mf_signature *s, mf_traced *inner, mf_error_object **error)
{
    const pmap_options *o = f->options;
    const mf_program *p = inner->program;
    if (!o->replicated_argnums.count)
        return inner;
    mf_builder b;
    mf_builder_init(&b, s->env);
    mf_variable **in = mf_alloc(((size_t)p->in_count + (size_t)p->out_count + 1) * sizeof *in), **out = in ? in + p->in_count : NULL;
    mf_program *q = NULL;
    if (in) {
        for (int i = 0; i < p->in_count; i++)
            in[i] = mf_builder_input(&b, p->in[i]->type);
        check_leaves(&b, o, s, in);
        mf_inline(&b, p, in, out);
        q = mf_builder_finish(&b, out, p->out_count, error);
    } else {
        mf_builder_abandon(&b);
        *error = mf_error_out_of_memory();
    }
    mf_free(in);
    mf_traced *checked = q ? mf_traced_with(inner, q, inner->result, inner->result_statics) : NULL;
    mf_drop(inner);
    return checked;
}

static mf_error_object *check_replicated_argnums(const mf_function_object *f, const mf_signature *s)
{
    const pmap_options *o = f->options;
    if (o->replicated_argnums.count && !o->axis_name)
        return mf_error_new(MF_ERROR_ARGUMENT, "%s: replicated_argnums needs an axis_name", f->name);
    for (int k = 0; k < o->replicated_argnums.count; k++)
        if (o->replicated_argnums.at[k] < 0 || o->replicated_argnums.at[k] >= s->arg_count - s->has_kwargs)
            return mf_error_new(MF_ERROR_ARGUMENT, "%s: replicated_argnums names argument %lld of %d", f->name,
                                (long long)o->replicated_argnums.at[k], s->arg_count - s->has_kwargs);
    return NULL;
}

static mf_traced *trace_inside(mf_function_object *f, const mf_signature *s, mf_mapped_call *m, mf_error_object **error)
{
    const pmap_options *o = f->options;
    bool by_cells = m->size < 0 && o->rules;
    if ((*error = resolve_size(f, s, m)))
        return NULL;
    mf_traced *inner = mf_mapped_trace(m, f, s, o->axis_name, true, o->rules, by_cells, resolve_global_axis, error);
    mf_error_object *wrong = inner && by_cells ? check_size(f, s, mf_mapped_axis_size(m)) : NULL;
    if (!wrong)
        return inner;
    *error = wrong;
    mf_drop(inner);
    return NULL;
}

static mf_traced *pmap_trace(mf_function_object *f, const mf_signature *s, mf_error_object **error)
{
    const pmap_options *o = f->options;
    mf_mapped_call m = { 0 };
    mf_traced *inner = NULL, *t = NULL;
    *error = mf_signature_known(s, f);
    if (!*error && o->devices)
        *error = check_devices(o->devices, o->client);
    bool alone = client_of(o, s) && client_of(o, s)->alone && !inside_pmap(s->env);
    if (!*error && !alone)
        m.here = mf_devices_here(s->env, o->devices, error);
    if (!*error)
        *error = mf_mapped_call_make(&m, f, s, o->in_axes, m.here ? 0 : o->axis_size, "pmap");
    if (!*error && m.size == 0)
        *error = mf_error_new(MF_ERROR_SHAPE, "pmap: the mapped axis has size 0; at least one element is needed");
    m.inner.client = client_of(o, s); /* for the maps inside too */
    if (!*error)
        *error = check_replicated_argnums(f, s);
    if (!*error)
        inner = trace_inside(f, s, &m, error);
    if (inner)
        inner = with_checks(f, &m.inner, inner, error);
    if (inner)
        *error = check_named_devices(o, &m, inner->program);
    if (inner && !*error && alone)
        *error = check_stays_here(o, client_of(o, s), mf_mapped_axis_size(&m), inner->program);
    if (inner && !*error)
        t = map_traced(f, s, &m, inner, error);
    if (!t && !*error)
        *error = mf_error_out_of_memory();
    if (!t && !inside_pmap(s->env) && !alone)
        mf_comm_expect_map(o->devices);
    mf_drop(inner);
    mf_mapped_call_free(&m);
    return t;
}

static const mf_ints *pmap_statics(const mf_function_object *f) { return &((const pmap_options *)f->options)->static_argnums; }
static const mf_ints *pmap_donated(const mf_function_object *f) { return &((const pmap_options *)f->options)->donate_argnums; }
static const mf_intlist *pmap_devices(const mf_function_object *f) { return ((const pmap_options *)f->options)->devices; }
static const mf_function_class pmap_class = {
    .name = "pmap", .trace = pmap_trace, .static_argnums = pmap_statics, .donate_argnums = pmap_donated, .devices = pmap_devices
};

/* ---- options */

static mf_error_object *find_backend(const char *name, const mf_client **client)
{
    mf_error_object *error;
    *client = mf_client_named(name, &error);
    if (!name || *client || error)
        return error;
    mf_text names = { 0 };
    mf_client_names(&names);
    mf_error_object *e = mf_error_new(MF_ERROR_DEVICE, "unknown backend '%s': the present ones are %s", name, names.at ? names.at : "none");
    mf_text_free(&names);
    return e;
}

/* The ids of the given devices; NULL when none are given, or with *error. *client: the client that owns them. */
static const mf_intlist *device_ids(mf_device_list list, const mf_client **client, mf_error_object **error)
{
    if (!list.at && list.count == 0)
        return NULL;
    if (!list.at || list.count < 0) {
        *error = mf_error_new(MF_ERROR_DEVICE, "pmap: 'devices' is no list: %d devices at %s", list.count, list.at ? "an address" : "NULL");
        return NULL;
    }
    MF_SMALL_ARRAY(int64_t, ids, 256, list.count);
    for (int i = 0; ids && i < list.count; i++) {
        const mf_client *whose = mf_device_client(list.at[i]);
        ids[i] = mf_device_id(list.at[i]);
        if (whose && *client && whose != *client && !*error)
            *error = mf_error_new(MF_ERROR_DEVICE, "pmap: devices[%d] is a device of %s, but the backend or the devices before it are %s's",
                                  i, whose->platform, (*client)->platform);
        *client = *client ? *client : whose;
    }
    const mf_intlist *interned = ids ? mf_ints_intern(ids, list.count) : NULL;
    if (!interned && !*error)
        *error = mf_error_out_of_memory();
    return interned;
}

mf_function mf_pmap_opt(mf_function f, const mf_pmap_options *o)
{
    MF_ENTER((mf_function){ MF_FORK_HANDLE });
    static const mf_pmap_options none;
    o = o ? o : &none;
    const mf_client *client;
    mf_error_object *e = find_backend(o->backend, &client);
    if (e)
        return (mf_function){ mf_handle_new(e) };
    pmap_options options;
    memset(&options, 0, sizeof options);
    options.axis_name = mf_intern(o->axis_name);
    options.backend = mf_intern(o->backend);
    options.in_axes = o->in_axes;
    options.out_axes = o->out_axes;
    options.static_argnums = mf_ints_plain(o->static_broadcasted_argnums, "pmap: static_broadcasted_argnums", &e);
    options.donate_argnums = mf_ints_plain(o->donate_argnums, "pmap: donate_argnums", &e);
    options.replicated_argnums = mf_ints_plain(o->replicated_argnums, "pmap: replicated_argnums", &e);
    options.devices = device_ids(o->devices, &client, &e);
    options.client = client;
    if (options.devices && client && !o->backend)
        options.backend = mf_intern(client->platform);
    options.axis_size = o->axis_size;
    e = e ? e : mf_comm_failure();
    options.rules = mf_rules_of(&f);
    if (e)
        return (mf_function){ mf_handle_new(e) };
    return mf_function_wrap(&pmap_class, f, &options, sizeof options);
}
