/* The composition root: the only file that names what is linked in. Order is preference; the reference backend, which runs everywhere,
 * comes last. */
#include "runtime/backend.h"

const mf_backend *const mf_backend_table[] = {
#if MF_HAVE_NATIVE
    &mf_backend_native,
#endif
    &mf_backend_reference,
    NULL,
};
