/* Joining the processes of a job by MPI. */
#ifndef MF_COMM_MPI_MPI_JOIN_H
#define MF_COMM_MPI_MPI_JOIN_H

#include "runtime/comm.h"

mf_error_object *mf_mpi_join(const mf_join_options *how, mf_comm **joined);

#endif
