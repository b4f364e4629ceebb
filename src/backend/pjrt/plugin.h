/* Plugins as clients. */
#ifndef MF_BACKEND_PJRT_PLUGIN_H
#define MF_BACKEND_PJRT_PLUGIN_H

#include "array/client.h"

/* Where the plugin of that name lies (pjrt_find.c): a path that mf_free frees, NULL when memory is out. False: nothing says it. */
bool mf_plugin_find(const char *name, char **path);
/* Registers the client of that name, where one is found: opened once, whoever asks. NULL: none is; or *error. */
const mf_client *mf_plugin_open(const char *name, mf_error_object **error);

#endif
