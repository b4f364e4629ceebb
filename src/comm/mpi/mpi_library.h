/* libmpi, opened at run time and used without its header, so that one binary runs under every MPI. Handles are passed as uintptr_t,
 * which holds a pointer or an int; MPI writes handles into zeroed slots of that size; a status is bytes that only MPI reads; no arrays
 * of requests are used. The other differences between the ABIs are constants, one table per ABI (mpi_library.c). */
#ifndef MF_COMM_MPI_MPI_LIBRARY_H
#define MF_COMM_MPI_MPI_LIBRARY_H

#include "base/error.h"

typedef struct mf_mpi_status {
    _Alignas(8) unsigned char bytes[64];
} mf_mpi_status;

#define MF_MPI_FUNCTIONS(X)                                                                                             \
    X(int, MPI_Initialized, (int *flag))                                                                                \
    X(int, MPI_Finalized, (int *flag))                                                                                  \
    X(int, MPI_Init_thread, (int *argc, char ***argv, int required, int *provided))                                     \
    X(int, MPI_Query_thread, (int *provided))                                                                           \
    X(int, MPI_Finalize, (void))                                                                                        \
    X(int, MPI_Get_library_version, (char *text, int *length))                                                          \
    X(int, MPI_Error_string, (int code, char *text, int *length))                                                       \
    X(int, MPI_Comm_size, (uintptr_t comm, int *size))                                                                  \
    X(int, MPI_Comm_rank, (uintptr_t comm, int *rank))                                                                  \
    X(int, MPI_Comm_idup, (uintptr_t comm, uintptr_t * made, uintptr_t * request))                                      \
    X(int, MPI_Comm_set_errhandler, (uintptr_t comm, uintptr_t handler))                                                \
    X(int, MPI_Comm_create_keyval, (void *copy, void *leave, int *key, void *extra))                                    \
    X(int, MPI_Comm_set_attr, (uintptr_t comm, int key, void *value))                                                   \
    X(int, MPI_Isend, (const void *at, int count, uintptr_t type, int to, int tag, uintptr_t comm, uintptr_t *request)) \
    X(int, MPI_Irecv, (void *at, int count, uintptr_t type, int from, int tag, uintptr_t comm, uintptr_t *request))     \
    X(int, MPI_Test, (uintptr_t * request, int *flag, void *status))                                                    \
    X(int, MPI_Get_count, (const void *status, uintptr_t type, int *count))

typedef struct mf_mpi {
    uintptr_t world, self, null, byte, errors_return;
    int serialized, multiple; /* thread levels */
    int any_source;
    const char *abi;
#define MF_MPI_MEMBER(result, name, parameters) result(*name) parameters;
    MF_MPI_FUNCTIONS(MF_MPI_MEMBER)
#undef MF_MPI_MEMBER
    uintptr_t (*from_int)(int comm); /* makes a handle of the number from MPI_Comm_c2f or MPI_Comm_toint; NULL: the number is the handle */
} mf_mpi;

/* The library that the process has loaded already, else the one that MF_MPI_LIBRARY names, else the launcher's. */
mf_error_object *mf_mpi_open(mf_mpi *mpi);
mf_error_object *mf_mpi_error(const mf_mpi *mpi, const char *what, int code); /* with MPI's words */

#endif
