/* Plugins as clients. */
#ifndef MF_BACKEND_PJRT_PLUGIN_H
#define MF_BACKEND_PJRT_PLUGIN_H

#include "array/client.h"

/* Registers the client of that name, where MF_PJRT_PLUGIN tells of it: opened once, whoever asks. NULL: it does not; or *error. */
const mf_client *mf_plugin_open(const char *name, mf_error_object **error);

#endif
