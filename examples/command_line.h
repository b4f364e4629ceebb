/* What the training programs share besides training: command-line options, messages to the user, the output folder. The including file
 * defines PROGRAM, the program's name, as a string; every message on stderr begins with it. */
#ifndef EXAMPLES_COMMAND_LINE_H
#define EXAMPLES_COMMAND_LINE_H

#include <manyfold.h>

#include <errno.h>
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

static inline bool whole_number(const char *text, long long least, long long most, long long *out)
{
    char *end;
    errno = 0;
    *out = strtoll(text, &end, 10);
    return !errno && end != text && !*end && *out >= least && *out <= most;
}

static inline bool number(const char *text, double *out)
{
    char *end;
    *out = strtod(text, &end);
    return end != text && !*end;
}

/* Sets one option from its argument; text is NULL for an option without one. Returns false if the argument is invalid. */
typedef bool option_setter(void *settings, int option, const char *text);

/* Reads all options; afterwards optind is the index of the first argument that is not an option. 'h' stands for --help. Returns false if
 * the program is to exit now, with *status. */
static inline bool read_options(int argc, char **argv, const struct option *options, const char *usage, option_setter *set, void *settings,
                                int *status)
{
    int option, at = 0;
    *status = EXIT_FAILURE;
    while ((option = getopt_long(argc, argv, "", options, &at)) != -1) {
        if (option == 'h') {
            fputs(usage, stdout);
            *status = EXIT_SUCCESS;
            return false;
        }
        if (option == '?' || !set(settings, option, optarg)) {
            if (option != '?')
                fprintf(stderr, PROGRAM ": --%s does not take '%s'\n", options[at].name, optarg);
            fputs(PROGRAM " --help tells what there is\n", stderr);
            return false;
        }
    }
    return true;
}

/* Whether v is an error; if so, prints its message. */
static inline bool report_error(mf_value v)
{
    const char *message = mf_is_error(v) ? mf_error(v) : NULL;
    if (message)
        fprintf(stderr, PROGRAM ": %s\n", message);
    return message != NULL;
}

/* The same for the result of mf_load_fashion_mnist(folder, ...). A NULL folder is where the Debian package installs the images. */
static inline bool report_dataset_error(mf_value dataset, const char *folder)
{
    if (!report_error(dataset))
        return false;
    if (!folder)
        fputs(PROGRAM ": the images are in Debian's package dataset-fashion-mnist; --data names another folder\n", stderr);
    return true;
}

/* The loader; NULL if it has no batch, after printing why. */
static inline mf_loader *having_batches(mf_loader *l)
{
    mf_value batch;
    if (mf_loader_batches(l) > 0)
        return l;
    if (!mf_loader_next(l, &batch) || !report_error(batch))
        fputs(PROGRAM ": the dataset has no rows\n", stderr);
    mf_loader_close(l);
    return NULL;
}

static inline bool make_folder(const char *folder)
{
    if (mkdir(folder, 0777) == 0 || errno == EEXIST)
        return true;
    fprintf(stderr, PROGRAM ": %s: %s\n", folder, strerror(errno));
    return false;
}

static inline bool path_in(const char *folder, const char *name, char *path, size_t size)
{
    int n = snprintf(path, size, "%s/%s", folder, name);
    if (n >= 0 && (size_t)n < size)
        return true;
    fputs(PROGRAM ": the name of the folder after --out is too long\n", stderr);
    return false;
}

#endif
