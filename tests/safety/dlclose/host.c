/* A host program that loads the library, uses it in the way that its argument names, unloads it with dlclose, and continues. */
#include <manyfold.h>

#include <dlfcn.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static void *library;
static pthread_barrier_t met;

static void *find(const char *name)
{
    void *found = dlsym(library, name);
    if (!found)
        exit((fprintf(stderr, "%s: %s\n", name, dlerror()), 1));
    return found;
}
#define CALL(function) ((__typeof__(&(function)))find(#function))

static void load(const char *path)
{
    library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    if (!library)
        exit((fprintf(stderr, "%s\n", dlerror()), 1));
}

static void unload(void)
{
    if (dlclose(library))
        exit((fprintf(stderr, "%s\n", dlerror()), 1));
    usleep(20000);
}

static mf_value product(int n)
{
    mf_value x = CALL(mf_ones)(MF_SHAPE(n, n), MF_F32);
    return ((mf_value(*)(mf_value, mf_value))find("mf_matmul"))(x, x);
}

static double compute(void) { return CALL(mf_item_f64)(((mf_value(*)(mf_value))find("mf_sum"))(product(100))); }

static void *thread(void *unused)
{
    if (compute() != 1e6)
        exit((fputs("another number\n", stderr), 1));
    pthread_barrier_wait(&met);
    pthread_barrier_wait(&met); /* the library has been unloaded */
    return unused;
}

int main(int argc, char **argv)
{
    const char *path = argv[1], *way = argc > 2 ? argv[2] : "";
    pthread_t other;
    alarm(100);
    load(path);
    if (!strcmp(way, "idle") && compute() != 1e6)
        return 1;
    if (!strcmp(way, "queued"))
        for (int i = 0; i < 50; i++)
            product(400);
    if (!strcmp(way, "thread")) {
        pthread_barrier_init(&met, NULL, 2);
        pthread_create(&other, NULL, thread, NULL);
        pthread_barrier_wait(&met);
    }
    unload();
    if (!strcmp(way, "thread")) {
        pthread_barrier_wait(&met);
        pthread_join(other, NULL);
    }
    load(path);
    if (compute() != 1e6)
        return 1;
    unload();
    return 0;
}
