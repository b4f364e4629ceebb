/* Finds the shared object of a plugin by name, if the program gave no path. Invariant: the first of these that has it: MF_PJRT_PLUGIN
 * (path,name), PJRT_NAMES_AND_LIBRARY_PATHS (name:path,name:path), and pip's place, jax_plugins/FOLDER/xla_<name>_plugin.so, in the
 * package folders that Python would search: PYTHONPATH, the virtual environment, then that of the first python3 on PATH, or its
 * installation and the user's packages. Nothing is executed or opened; pyvenv.cfg is only tested for existence. */
#include "backend/pjrt/plugin.h"

#include "base/memory/alloc.h"

#include <ctype.h>
#include <glob.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { MOST_PATH = 4096 };

static const char *variable(const char *name)
{
    const char *value = getenv(name);
    return value && *value ? value : NULL;
}

/* ---- named in the environment */

static bool from_ours(const char *name, char *path)
{
    const char *all = variable("MF_PJRT_PLUGIN"), *comma = all ? strrchr(all, ',') : NULL;
    if (!all || strcmp(name, comma ? comma + 1 : "pjrt") != 0)
        return false;
    (void)snprintf(path, MOST_PATH, "%.*s", comma ? (int)(comma - all) : MOST_PATH, all);
    return true;
}

static bool from_list(const char *name, char *path)
{
    size_t length = strlen(name);
    for (const char *at = variable("PJRT_NAMES_AND_LIBRARY_PATHS"); at && *at;) {
        int count = (int)strcspn(at, ",");
        if (strncmp(at, name, length) == 0 && at[length] == ':') {
            (void)snprintf(path, MOST_PATH, "%.*s", count - (int)length - 1, at + length + 1);
            return true;
        }
        at += count + (at[count] == ',');
    }
    return false;
}

/* ---- installed by pip */

/* The last of the files that match, in the order of their names: the newest version. */
static bool last_of(const char *pattern, char *path)
{
    glob_t found = { 0 };
    bool some = glob(pattern, 0, NULL, &found) == 0 && found.gl_pathc;
    if (some)
        (void)snprintf(path, MOST_PATH, "%s", found.gl_pathv[found.gl_pathc - 1]);
    globfree(&found);
    return some;
}

/* In the package folders that the pattern matches. */
static bool from_packages(const char *folders, const char *below, const char *name, char *path)
{
    char pattern[2 * MOST_PATH];
    int count = snprintf(pattern, sizeof pattern, "%s%s/jax_plugins/*/xla_%s_plugin.so", folders, below, name);
    return count < (int)sizeof pattern && last_of(pattern, path);
}

static bool from_prefix(const char *prefix, const char *name, char *path)
{
    return from_packages(prefix, "/lib/python3*/site-packages", name, path) ||
           from_packages(prefix, "/lib64/python3*/site-packages", name, path);
}

/* Includes Debian's dist-packages. */
static bool from_installation(const char *prefix, const char *name, char *path)
{
    char local[MOST_PATH + 16];
    (void)snprintf(local, sizeof local, "%s/local", prefix);
    return from_packages(local, "/lib/python3*/dist-packages", name, path) || from_prefix(local, name, path) ||
           from_packages(prefix, "/lib/python3*/dist-packages", name, path) || from_prefix(prefix, name, path);
}

static bool from_user(const char *name, char *path)
{
    char base[MOST_PATH + 16];
    const char *said = variable("PYTHONUSERBASE"), *home = variable("HOME");
    if (!said && !home)
        return false;
    (void)snprintf(base, sizeof base, "%s%s", said ? said : home, said ? "" : "/.local");
    return from_prefix(base, name, path);
}

/* Calls fn with each part of a colon-separated list until it returns true. */
static bool any_part(const char *list, bool (*fn)(const char *folder, const char *name, char *path), const char *name, char *path)
{
    char folder[MOST_PATH];
    for (bool found = false; list && *list;) {
        int count = (int)strcspn(list, ":");
        if (count && snprintf(folder, sizeof folder, "%.*s", count, list) < (int)sizeof folder)
            found = fn(folder, name, path);
        if (found)
            return true;
        list += count + (list[count] == ':');
    }
    return false;
}

static bool from_folder(const char *folder, const char *name, char *path) { return from_packages(folder, "", name, path); }

/* True if the folder has a python3, which ends the search of PATH. The path is empty if that one does not have the plugin. */
static bool from_python(const char *folder, const char *name, char *path)
{
    char file[MOST_PATH + 16], prefix[MOST_PATH];
    (void)snprintf(file, sizeof file, "%s/python3", folder);
    if (access(file, X_OK) != 0)
        return false;
    (void)snprintf(prefix, sizeof prefix, "%s", folder);
    char *slash = strrchr(prefix, '/');
    if (!slash)
        return true;
    *slash = 0;
    (void)snprintf(file, sizeof file, "%s/pyvenv.cfg", prefix);
    bool found = access(file, R_OK) == 0 ? from_prefix(prefix, name, path) : from_user(name, path) || from_installation(prefix, name, path);
    if (!found)
        *path = 0;
    return true;
}

static bool is_plain(const char *name)
{
    for (; *name; name++)
        if (!isalnum((unsigned char)*name) && *name != '_')
            return false;
    return true;
}

static bool from_pip(const char *name, char *path)
{
    const char *environment = variable("VIRTUAL_ENV");
    if (!is_plain(name))
        return false;
    if (any_part(variable("PYTHONPATH"), from_folder, name, path))
        return true;
    if (environment && from_prefix(environment, name, path))
        return true;
    return any_part(variable("PATH"), from_python, name, path) && *path;
}

bool mf_plugin_find(const char *name, char **path)
{
    char found[MOST_PATH] = "";
    if (!from_ours(name, found) && !from_list(name, found) && !from_pip(name, found))
        return false;
    *path = mf_strdup(found);
    return true;
}
