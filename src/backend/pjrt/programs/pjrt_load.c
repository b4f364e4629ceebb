/* Programs for a plugin: StableHLO text, compiled for as many replicas as the maps have devices. Invariant: a program of one replica is
 * portable, and runs on any device; one of several runs on the devices that its maps name, each once, or on the first ones. */
#include "backend/pjrt/pjrt.h"

#include "base/memory/alloc.h"
#include "ops/control/callback.h"
#include "ops/ops.h"
#include "runtime/comm.h"
#include "stablehlo/hlo_module.h"
#include "transform/functions/mapped/pmap.h"

#include <inttypes.h>
#include <string.h>

static void executable_destroy(mf_object *o)
{
    pjrt_executable *x = (pjrt_executable *)o;
    pjrt_destroy(pjrt_client_of(x->base.client), PJRT_LOADED_DESTROY, x->loaded);
    mf_free(atomic_load(&x->lists));
    mf_free((void *)x->where);
    mf_drop(x->findings);
    mf_drop(x->stacked);
    mf_free(x->in);
    mf_free(x->in_parts);
    mf_free(x->out_parts);
    mf_executable_end(&x->base);
}
static const mf_class executable_class = { "plugin's executable", executable_destroy };

/* ---- which devices */

/* named: the ids by replica; NULL: the first devices. */
static mf_error_object *choose_devices(pjrt_executable *x, const mf_intlist *named)
{
    int count = pjrt_client_of(x->base.client)->device_count;
    const char *name = x->base.client->platform;
    if (x->replicas > count)
        return mf_error_new(MF_ERROR_DEVICE, "%s has %d devices, and a map wants %d", name, count, x->replicas);
    x->named = named;
    for (int r = 0; r < x->replicas; r++) {
        int64_t id = named ? named->at[r] : r;
        if (id < 0 || id >= count)
            return mf_error_new(MF_ERROR_DEVICE, "%s has no device %" PRId64, name, id);
        x->devices[r] = (int)id;
        for (int k = 0; k < r; k++)
            if (x->devices[k] == id)
                return mf_error_new(MF_ERROR_DEVICE, "a map on %s names its device %" PRId64 " twice", name, id);
    }
    return NULL;
}

/* ---- what each replica takes and gives */

/* Makes it one replica that takes and gives all rows, if that is possible and useful. */
static void stack(pjrt_executable *x)
{
    bool may_be = pjrt_client_of(x->base.client)->stacks && x->map && x->replicas == x->map_size && x->replicas > 1 && !x->findings;
    x->stacked = may_be ? pjrt_stack(x->base.program, x->map) : NULL;
    x->replicas = x->stacked ? 1 : x->replicas;
}

static mf_error_object *read_signature(pjrt_executable *x)
{
    const mf_program *p = x->base.program;
    x->in = mf_calloc((size_t)p->in_count + 1, sizeof(mf_type *));
    x->in_parts = mf_calloc((size_t)p->in_count + 1, sizeof *x->in_parts);
    x->out_parts = mf_calloc((size_t)p->out_count + 1, sizeof *x->out_parts);
    x->where = mf_calloc((size_t)p->out_count + 1, sizeof *x->where);
    if (!x->in || !x->in_parts || !x->out_parts || !x->where)
        return mf_error_out_of_memory();
    x->map = mf_hlo_parts(p, x->replicas, x->in_parts, x->out_parts);
    x->map_size = x->map ? (int)((const mf_pmap_params *)x->map->params)->axis_size : 1;
    stack(x);
    bool good = true;
    for (int i = 0; i < p->in_count; i++)
        good = (x->in[i] = mf_hlo_part_type(pjrt_part_of_replica(x, &x->in_parts[i]), p->in[i]->type)) && good;
    return good ? NULL : mf_error_out_of_memory();
}

static bool calls_host(const mf_hlo_findings *list)
{
    for (int i = 0; i < list->wanted.count; i++)
        if (mf_is_host_call(list->wanted.at[i]))
            return true;
    return false;
}

static mf_error_object *name_host_calls(pjrt_executable *x)
{
    pjrt_findings *s = x->findings;
    if (!s || !pjrt_client_of(x->base.client)->calls_host || !calls_host(&s->list))
        return NULL;
    s->host = pjrt_host_calls_new(s->program);
    s->list.host = s->host ? pjrt_host_calls_name(s->host) : 0;
    return s->host ? NULL : mf_error_out_of_memory();
}

/* What the program reports at run time, and whether its devices may disagree. */
static mf_error_object *read_checks(pjrt_executable *x)
{
    x->findings = pjrt_findings_new(x);
    mf_error_object *error = x->findings ? pjrt_check_agreement(x->base.program, &x->findings->list) : mf_error_out_of_memory();
    if (!error && !mf_hlo_finds_out(&x->findings->list)) {
        mf_drop(x->findings);
        x->findings = NULL;
    }
    return error ? error : name_host_calls(x);
}

/* ---- options, as a CompileOptionsProto: fields 3 { 4 replicas, 5 partitions, 9 { 1 replicas, 2 computations, 3 { 1 ids } } }, and 4 */

static void put_number(mf_text *t, uint64_t n)
{
    char byte;
    for (; n >= 128; n >>= 7) {
        byte = (char)(n | 128);
        mf_text_putn(t, &byte, 1);
    }
    byte = (char)n;
    mf_text_putn(t, &byte, 1);
}

static void put_field(mf_text *t, int field, uint64_t n)
{
    put_number(t, (uint64_t)field << 3);
    put_number(t, n);
}

/* Takes the text. */
static void put_message(mf_text *t, int field, mf_text *inside)
{
    put_number(t, (uint64_t)field << 3 | 2);
    put_number(t, inside->count);
    mf_text_putn(t, inside->at ? inside->at : "", inside->count);
    t->failed = t->failed || inside->failed;
    mf_text_free(inside);
}

/* One of XLA's debug options: field 7 { 1 its name, 2 { 2 a truth value } }. */
static void put_switch(mf_text *t, const char *name, bool on)
{
    mf_text entry = { 0 }, key = { 0 }, value = { 0 };
    mf_text_put(&key, name);
    put_field(&value, 2, on);
    put_message(&entry, 1, &key);
    put_message(&entry, 2, &value);
    put_message(t, 7, &entry);
}

/* XLA's CPU compiler drops NaN in minimum and maximum unless an option forbids it. */
static void put_options(mf_text *t, const pjrt_executable *x)
{
    mf_text build = { 0 }, assignment = { 0 }, computation = { 0 }, ids = { 0 };
    int replicas = x->one_replica_each ? 1 : x->replicas;
    put_field(&build, 4, (uint64_t)replicas);
    put_field(&build, 5, 1);
    if (replicas > 1) {
        put_field(&assignment, 1, (uint64_t)x->replicas);
        put_field(&assignment, 2, 1);
        for (int r = 0; r < x->replicas; r++)
            put_number(&ids, (uint64_t)pjrt_client_of(x->base.client)->ids[x->devices[r]]);
        put_message(&computation, 1, &ids);
        put_message(&assignment, 3, &computation);
        put_message(&build, 9, &assignment);
    }
    put_message(t, 3, &build);
    if (replicas == 1)
        put_field(t, 4, 1);
    if (pjrt_client_of(x->base.client)->is_cpu)
        put_switch(t, "xla_cpu_enable_fast_min_max", false);
}

/* ---- compiling */

/* Checks that the executable has the program's number of results: more would be written beyond the ends of the lists. */
static mf_error_object *check_results(const pjrt_executable *x)
{
    const pjrt_client *c = pjrt_client_of(x->base.client);
    pjrt_one_more args = { PJRT_HEAD(pjrt_one_more), x->loaded, NULL };
    mf_error_object *error = pjrt_call(c, PJRT_LOADED_GET_EXECUTABLE, NULL, &args);
    if (error)
        return error;
    pjrt_number_of count = { PJRT_HEAD(pjrt_number_of), args.out, 0 };
    error = pjrt_call(c, PJRT_EXECUTABLE_NUM_OUTPUTS, NULL, &count);
    pjrt_destroy(c, PJRT_EXECUTABLE_DESTROY, args.out);
    size_t wanted = (size_t)x->base.program->out_count + (x->findings != NULL);
    if (!error && count.out != wanted)
        error = mf_error_new(MF_ERROR_DEVICE, "%s made an executable of %zu results of a program of %zu", x->base.client->platform,
                             count.out, wanted);
    return error;
}

static char *find(const mf_text *code, const char *word) { return memmem(code->at, code->count, word, strlen(word)); }

/* Reads from the text what its replicas do. Every collective, also one added by the emitter, names its groups; a map whose devices
 * neither meet nor ask for their index becomes a program of one replica, which each device runs. */
static void read_replicas(pjrt_executable *x, const mf_text *code)
{
    char *count = find(code, "mhlo.num_replicas = ");
    x->has_collectives = x->replicas > 1 && (find(code, "replica_groups") || find(code, "source_target_pairs"));
    x->one_replica_each = x->replicas > 1 && x->map && count && !x->has_collectives && !find(code, "replica_id");
    if (!x->one_replica_each)
        return;
    count += strlen("mhlo.num_replicas = ");
    *count++ = '1';
    while (*count >= '0' && *count <= '9')
        *count++ = ' ';
}

static mf_error_object *compile(pjrt_executable *x, const mf_text *code, const mf_text *options)
{
    pjrt_client *c = pjrt_client_of(x->base.client);
    pjrt_program program = { PJRT_HEAD(pjrt_program), code->at, code->count, "mlir", 4 };
    pjrt_client_compile args = { PJRT_HEAD(pjrt_client_compile), c->client, &program, options->at, options->count, NULL };
    mf_error_object *error = pjrt_call(c, PJRT_CLIENT_COMPILE, NULL, &args);
    x->loaded = error ? NULL : args.loaded_out;
    error = error ? error : check_results(x);
    if (!error && !(x->findings && x->findings->host))
        pjrt_cache(c, code, options, x->loaded);
    return error;
}

/* From the compilation cache, or compiled. */
static mf_error_object *make_executable(pjrt_executable *x)
{
    pjrt_client *c = pjrt_client_of(x->base.client);
    mf_text code = { 0 }, options = { 0 };
    mf_error_object *error = mf_hlo_module(&code, x->base.function, x->stacked ? x->stacked : x->base.program, x->replicas, x->base.donated,
                                           x->findings ? &x->findings->list : NULL, c->is_cpu);
    if (!error && !code.failed)
        read_replicas(x, &code);
    put_options(&options, x);
    if (!error && (code.failed || options.failed))
        error = mf_error_out_of_memory();
    bool of_this_process = x->findings && x->findings->host; /* another process does not know its names */
    if (!error && of_this_process && !pjrt_host_calls_list(x->findings->host, &x->findings->list))
        error = mf_error_out_of_memory();
    x->loaded = error || of_this_process ? NULL : pjrt_cached(c, &code, &options);
    mf_error_object *refused = x->loaded ? check_results(x) : NULL;
    if (refused) {
        mf_error_ignore(refused);
        pjrt_destroy(c, PJRT_LOADED_DESTROY, x->loaded);
        x->loaded = NULL;
    }
    if (!error && !x->loaded)
        error = compile(x, &code, &options);
    mf_text_free(&code);
    mf_text_free(&options);
    return error;
}

/* Takes the program, with its maps fitted to the replicas, and the devices. */
static mf_error_object *begin(pjrt_executable *x, const mf_load_request *load)
{
    mf_error_object *error = NULL;
    mf_load_request what = *load;
    mf_hlo_place at = mf_hlo_place_of(load->program, x->replicas);
    mf_program *program = mf_hlo_fit_maps(load->program, at, &error);
    what.program = program;
    if (program)
        error = mf_executable_init(&x->base, &what) ? choose_devices(x, at.devices) : mf_error_out_of_memory();
    mf_drop(program);
    return error;
}

mf_error_object *pjrt_load(const mf_load_request *load, mf_executable **loaded)
{
    int64_t replicas = mf_program_replicas(load->program);
    const mf_intlist *processes;
    if (mf_program_processes(load->program, mf_comm_current(), &processes))
        return mf_error_new(MF_ERROR_DEVICE, "programs run on devices of %s in one process only, and a map of this one spans several",
                            load->client->platform);
    if (replicas > PJRT_MOST_DEVICES)
        return mf_error_new(MF_ERROR_DEVICE, "%s: a map over %" PRId64 " devices; %d are the most", load->client->platform, replicas,
                            PJRT_MOST_DEVICES);
    if (pjrt_needs_steps(load->program, pjrt_client_of(load->client)->calls_host))
        return pjrt_load_steps(load, loaded);
    pjrt_executable *x = mf_object_new(&executable_class, sizeof *x + (size_t)replicas * sizeof *x->devices);
    if (!x)
        return mf_error_out_of_memory();
    x->replicas = (int)replicas;
    mf_error_object *error = begin(x, load);
    error = error ? error : read_checks(x);
    error = error ? error : read_signature(x);
    error = error ? error : make_executable(x);
    if (error) {
        mf_error_set_address(error, mf_entry_address);
        mf_drop(x);
    } else {
        *loaded = &x->base;
    }
    return error;
}
