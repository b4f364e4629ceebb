/* Finds and opens libmpi, and finds out which ABI it has. Invariant: nothing that depends on the ABI is called before it is known. */
#include "comm/mpi/mpi_library.h"

#include "base/text/symbol.h"

#include <dlfcn.h>
#include <stdlib.h>

/* Intel MPI, Cray MPI and MVAPICH have MPICH's ABI, and most of them its soname. */
static const char *const names[] = { "libmpi.so.40", "libmpich.so.12", "libmpi.so.12", "libmpi_abi.so.1", "libmpi_abi.so.0", NULL };
enum { OPEN_MPI = 0, MPICH = 1 }; /* where in `names` to begin */

static const char *const of_mpich[] = { "MPICH", "Intel", "MVAPICH", "CRAY", "Cray", NULL }; /* in the version strings */

static const mf_mpi mpich = { .world = 0x44000000,
                              .self = 0x44000001,
                              .null = 0x04000000,
                              .byte = 0x4c00010d,
                              .errors_return = 0x54000001,
                              .serialized = 2,
                              .multiple = 3,
                              .any_source = -2,
                              .abi = "MPICH" };
static const mf_mpi standard = { .world = 0x101,
                                 .self = 0x102,
                                 .null = 0x100,
                                 .byte = 0x247,
                                 .errors_return = 0x143,
                                 .serialized = 2048,
                                 .multiple = 4096,
                                 .any_source = -1,
                                 .abi = "the standard ABI" };

static mf_error_object *bind_all(mf_mpi *mpi, void *library, const char *name)
{
    const char *missing = NULL;
#define BIND(result, function, parameters)                   \
    if (!mf_symbol_bind(library, #function, &mpi->function)) \
        missing = #function;
    MF_MPI_FUNCTIONS(BIND)
#undef BIND
    return missing ? mf_error_new(MF_ERROR_PEER, "%s is no MPI library of version 3 or later: it has no %s", name, missing) : NULL;
}

/* Open MPI's constants are addresses of objects in the library. */
static bool take_open_mpi(mf_mpi *mpi, void *library)
{
    void *world = dlsym(library, "ompi_mpi_comm_world"), *self = dlsym(library, "ompi_mpi_comm_self");
    void *byte = dlsym(library, "ompi_mpi_byte"), *errors_return = dlsym(library, "ompi_mpi_errors_return");
    void *null = dlsym(library, "ompi_mpi_comm_null");
    if (!world || !self || !null || !byte || !errors_return)
        return false;
    *mpi = (mf_mpi){ .world = (uintptr_t)world,
                     .self = (uintptr_t)self,
                     .null = (uintptr_t)null,
                     .byte = (uintptr_t)byte,
                     .errors_return = (uintptr_t)errors_return,
                     .serialized = 2,
                     .multiple = 3,
                     .any_source = -1,
                     .abi = "Open MPI" };
    mf_symbol_bind(library, "MPI_Comm_f2c", &mpi->from_int);
    return true;
}

static bool is_standard(void *library)
{
    int (*version)(int *, int *), major = -1, minor = -1;
    return mf_symbol_bind(library, "MPI_Abi_get_version", &version) && version(&major, &minor) == 0 && major >= 1;
}

static bool is_mpich(void *library)
{
    static char text[16384]; /* twice the longest of any ABI */
    int (*version)(char *, int *), length = 0;
    if (!mf_symbol_bind(library, "MPI_Get_library_version", &version) || version(text, &length))
        return false;
    for (int i = 0; of_mpich[i]; i++)
        if (strstr(text, of_mpich[i]))
            return true;
    return false;
}

static mf_error_object *take(mf_mpi *mpi, void *library, const char *name)
{
    if (!dlsym(library, "MPI_Init_thread"))
        return mf_error_new(MF_ERROR_PEER, "%s is no MPI library: it has no MPI_Init_thread", name);
    bool is_abi = is_standard(library); /* first, because such a library may be built on Open MPI's and export its symbols */
    if (is_abi || !take_open_mpi(mpi, library)) {
        if (!is_abi && !is_mpich(library))
            return mf_error_new(MF_ERROR_PEER,
                                "%s has an ABI that is not known here: neither Open MPI's, nor MPICH's, nor the standard one", name);
        *mpi = is_abi ? standard : mpich;
        if (is_abi && !mf_symbol_bind(library, "MPI_Comm_fromint", &mpi->from_int)) /* MPI_Comm_f2c is in the Fortran library */
            return mf_error_new(MF_ERROR_PEER, "%s has the standard ABI, but no MPI_Comm_fromint", name);
    }
    return bind_all(mpi, library, name);
}

mf_error_object *mf_mpi_open(mf_mpi *mpi)
{
    const char *asked = getenv("MF_MPI_LIBRARY");
    void *library = NULL;
    if (dlsym(RTLD_DEFAULT, "MPI_Init_thread"))
        return take(mpi, RTLD_DEFAULT, "the MPI library of this program");
    if (asked && *asked) {
        library = dlopen(asked, RTLD_NOW | RTLD_LOCAL);
        return library ? take(mpi, library, asked)
                       : mf_error_new(MF_ERROR_PEER, "MF_MPI_LIBRARY=%s cannot be opened: %s", asked, dlerror());
    }
    int first = getenv("PMI_SIZE") && !getenv("OMPI_COMM_WORLD_SIZE") ? MPICH : OPEN_MPI;
    for (int i = 0; !library && names[first + i]; i++) {
        library = dlopen(names[first + i], RTLD_NOW | RTLD_LOCAL);
        if (library)
            return take(mpi, library, names[first + i]);
    }
    return mf_error_new(MF_ERROR_PEER, "no MPI library was found (%s, ...): set MF_MPI_LIBRARY to its file, or MF_DISTRIBUTED=off",
                        names[first]);
}

mf_error_object *mf_mpi_error(const mf_mpi *mpi, const char *what, int code)
{
    char words[1024] = "";
    int length = 0;
    mpi->MPI_Error_string(code, words, &length);
    return mf_error_new(MF_ERROR_PEER, "%s: MPI says %s", what, *words ? words : "that it failed");
}
