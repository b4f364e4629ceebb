/* The composition root: the only file that names what is linked in. Order is preference; the reference backend, which runs everywhere,
 * comes last. */
#include "backend/pjrt/plugin.h"
#include "comm/mpi/mpi_join.h"
#include "runtime/backend.h"
#include "runtime/compile/segment_compiler.h"
#include "runtime/device.h"

const mf_segment_compiler *const mf_segment_compilers[] = {
#if MF_HAVE_NATIVE
    &mf_segment_compiler_native,
#endif
    &mf_segment_compiler_reference,
    NULL,
};

const mf_client mf_client_cpu = {
    .platform = "cpu",
    .allocate = mf_host_allocate,
    .release = mf_host_release,
    .from_host = mf_host_from,
    .to_host = mf_host_to,
    .host_view = mf_host_view,
    .device_count = mf_cpu_device_count,
    .backend = &mf_backend_cpu,
};

const mf_client *(*const mf_client_open)(const char *name, mf_error_object **error) = mf_plugin_open;

mf_error_object *(*const mf_comm_join)(const mf_join_options *, mf_comm **) = mf_mpi_join;
