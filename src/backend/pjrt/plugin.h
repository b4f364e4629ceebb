/* Plugins as clients. */
#ifndef MF_BACKEND_PJRT_PLUGIN_H
#define MF_BACKEND_PJRT_PLUGIN_H

#include "array/client.h"

/* The path of the plugin of that name (pjrt_find.c), to be freed with mf_free; NULL if out of memory. False: not found. */
bool mf_plugin_find(const char *name, char **path);
/* Opens and registers the client of that name, once. NULL: there is no such plugin; or *error. */
const mf_client *mf_plugin_open(const char *name, mf_error_object **error);

#endif
