/* The peer of all-reduces over processes, as an MPI program would do it: sum the process's own rows, then call MPI_Allreduce once.
 *
 *     mpicc -O3 -march=native mpi_allreduce.c -o mpi_allreduce && mpirun -n 2 ./mpi_allreduce [--devices 4]
 *
 * Process 0 reads names from standard input (psum_1KiB to psum_64MiB: bytes per device) and answers with one JSON line each, as the other
 * sides of the benchmark do. Figures are means over calls that last 20 ms together. */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { LINE = 256 };

static struct {
    int rank, devices;
    long count; /* floats in a row */
    float *rows, *part, *sum;
} job;

/* Adds the rows in blocks, so that a block of the sum stays in the cache while all rows are added to it. */
static void add_rows(void)
{
    for (long first = 0; first < job.count; first += 4096) {
        long n = job.count - first < 4096 ? job.count - first : 4096;
        float *restrict to = job.part + first;
        memcpy(to, job.rows + first, (size_t)n * sizeof *to);
        for (int d = 1; d < job.devices; d++) {
            const float *restrict from = job.rows + d * job.count + first;
            for (long i = 0; i < n; i++)
                to[i] += from[i];
        }
    }
}

static double timed(int calls)
{
    MPI_Barrier(MPI_COMM_WORLD);
    double start = MPI_Wtime(), mine, slowest;
    for (int i = 0; i < calls; i++) {
        add_rows();
        MPI_Allreduce(job.part, job.sum, (int)job.count, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
    }
    mine = (MPI_Wtime() - start) / calls;
    MPI_Allreduce(&mine, &slowest, 1, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
    return slowest;
}

static void *get(long bytes)
{
    void *p = aligned_alloc(64, (size_t)bytes);
    if (!p)
        MPI_Abort(MPI_COMM_WORLD, 1);
    memset(p, 0, (size_t)bytes);
    return p;
}

static int prepare(long bytes)
{
    static long ready;
    if (ready == bytes)
        return 1;
    free(job.rows), free(job.part), free(job.sum);
    job.count = bytes / (long)sizeof(float);
    job.rows = get(job.devices * bytes);
    job.part = get(bytes);
    job.sum = get(bytes);
    for (long i = 0; i < job.devices * job.count; i++)
        job.rows[i] = 1;
    ready = bytes;
    timed(3);
    return job.sum[job.count - 1] > 0;
}

static void answer(const char *name)
{
    char unit;
    long size;
    if (sscanf(name, "psum_%ld%ciB", &size, &unit) != 2 || (unit != 'K' && unit != 'M')) {
        if (!job.rank)
            printf("{\"name\": \"%s\", \"error\": \"unknown workload\"}\n", name);
        return;
    }
    int calls = 3;
    prepare(size << (unit == 'K' ? 10 : 20));
    double seconds = timed(calls);
    if (calls * seconds < 0.02)
        seconds = timed(calls = (int)(0.02 / seconds) + 1);
    if (!job.rank)
        printf("{\"peer\": \"MPI_Allreduce\", \"name\": \"%s\", \"seconds\": %.9g, \"calls\": %d, \"rss_mib\": 0}\n", name, seconds, calls);
}

/* Broadcasts a line, sleeping between polls: an idle side must leave its cores to the others, and MPI_Bcast spins. */
static void share_line(char *line)
{
    MPI_Request request;
    MPI_Ibcast(line, LINE, MPI_CHAR, 0, MPI_COMM_WORLD, &request);
    for (int done = 0; !done; MPI_Test(&request, &done, MPI_STATUS_IGNORE))
        nanosleep(&(struct timespec){ .tv_nsec = 1000000 }, NULL);
}

int main(int argc, char **argv)
{
    char line[LINE] = "", version[MPI_MAX_LIBRARY_VERSION_STRING];
    int length;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &job.rank);
    job.devices = argc > 2 && !strcmp(argv[1], "--devices") ? atoi(argv[2]) : 4;
    MPI_Get_library_version(version, &length);
    version[strcspn(version, ",\n")] = 0;
    if (!job.rank)
        printf("{\"name\": \"ready\", \"peer\": \"%s\"}\n", version);
    for (;;) {
        fflush(stdout);
        if (!job.rank && !fgets(line, sizeof line, stdin))
            *line = 0;
        share_line(line);
        line[strcspn(line, "\r\n")] = 0;
        if (!*line)
            break;
        answer(line);
    }
    MPI_Finalize();
}
