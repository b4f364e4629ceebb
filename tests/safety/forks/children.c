/* Every public function, called in a child that is forked while threads of the parent are in calls and hold the library's locks: it returns
 * the error for forked children at once and takes no lock. A child may exit in every way. */
#include <manyfold.h>

#include <dlfcn.h>
#include <math.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static const char *_Atomic function_now; /* in a child: the function that is being called */

/* ---- locks: interposed before the library's calls */
#if defined MF_SANITIZED_THREADS || defined MF_SANITIZED_ADDRESS /* a fork takes a second with these */
enum { IN_A_CHILD = 20 };
#else
enum { IN_A_CHILD = 1 };
#endif
#ifndef MF_SANITIZED_THREADS /* which interposes locks itself */
static void forbid(const char *what)
{
    const char *name = atomic_load(&function_now);
    if (!name)
        return;
    fprintf(stderr, "%s calls %s in the child of a fork\n", name, what);
    _exit(4);
}
#define FORBIDDEN(result, name, parameters, arguments)                   \
    result name parameters                                               \
    {                                                                    \
        static result(*_Atomic real) parameters;                         \
        if (!atomic_load(&real)) {                                       \
            void *found = dlsym(RTLD_NEXT, #name);                       \
            atomic_store(&real, *(result(**) parameters)(void *)&found); \
        }                                                                \
        forbid(#name);                                                   \
        return atomic_load(&real) arguments;                             \
    }
FORBIDDEN(int, pthread_mutex_lock, (pthread_mutex_t * m), (m))
FORBIDDEN(int, pthread_cond_wait, (pthread_cond_t * c, pthread_mutex_t *m), (c, m))
FORBIDDEN(int, pthread_cond_timedwait, (pthread_cond_t * c, pthread_mutex_t *m, const struct timespec *t), (c, m, t))
FORBIDDEN(int, pthread_rwlock_rdlock, (pthread_rwlock_t * l), (l))
FORBIDDEN(int, pthread_rwlock_wrlock, (pthread_rwlock_t * l), (l))
FORBIDDEN(int, pthread_once, (pthread_once_t * once, void (*first)(void)), (once, first))
FORBIDDEN(int, pthread_join, (pthread_t t, void **result), (t, result))
#endif

/* ---- the parent's threads: none under the address checker of GCC 12, which does not take the locks of its allocator over a fork (LLVM's
 * does since 18: llvm-project, pull request 75290), so a child that was forked beside threads that allocate may hang in it. */
#ifdef MF_SANITIZED_ADDRESS
enum { MOST_THREADS = 0 };
#else
enum { MOST_THREADS = 3 };
#endif

static atomic_bool stop;
static mf_value each(mf_value x) { return mf_psum(mf_sum(mf_matmul(x, x)), "i"); }
static mf_value square(mf_value x) { return mf_sum(mf_add(mf_mul(x, x), mf_sin(x))); }
static void quiet(mf_status status, const char *message, void *context) { (void)status, (void)message, (void)context; }

static void *work(void *at)
{
    for (int64_t i = (int64_t)(intptr_t)at; !stop; i += 3) {
        MF_SCOPE;
        char name[32];
        snprintf(name, sizeof name, "name %lld", (long long)i);
        mf_value r = mf_call(mf_pmap(each, .axis_name = "i"), mf_ones(MF_SHAPE(2, 30, 30), MF_F32));
        mf_block_until_ready(r);
        (void)mf_item_f64(mf_call(mf_jit(square), mf_ones(MF_SHAPE(1 + i % 3000), MF_F32)));
        (void)mf_get(mf_dict(mf_string(name), r), name);
        (void)mf_random_next(mf_random_default());
        (void)mf_adam(.learning_rate = 1.0 / (double)(i % 50 + 1));
        (void)mf_keep(mf_add(r, 1000 + i));
        (void)mf_error(mf_add(mf_ones(MF_SHAPE(2), MF_F32), mf_ones(MF_SHAPE(3), MF_F32)));
        if (i % 50 == 0)
            mf_clear_caches();
    }
    return NULL;
}

/* ---- the children */

static mf_value value, values[4], made[4], *const places[4] = { &made[0], &made[1], &made[2], &made[3] };
static mf_function function, functions[4], pullback[1];
static mf_filter filter, filters[4];
static mf_state state;
static mf_module module;
static mf_optimizer optimizer;
static mf_device device;
static mf_device_list devices;
static mf_loader *loader;
static mf_checkpoint_manager *manager;
static mf_logbook *logbook;
static const char *const names[] = { "a", "b" };
static char room[1 << 16];
static void any(void) { _exit(6); }

static bool said(mf_value v)
{
    const char *words = mf_error(v);
    return mf_is_error(v) && words && strstr(words, "child of a fork");
}

#define FUNCTION(name, call, is_error) \
    static bool in_child_##name(void)  \
    {                                  \
        call;                          \
        return is_error;               \
    }
#include "functions.def"
#undef FUNCTION
#define FUNCTION(name, call, is_error) { #name, in_child_##name },
static const struct {
    const char *name;
    bool (*call)(void);
} all[] = {
#include "functions.def"
};
enum { COUNT = sizeof all / sizeof *all };

static void end(int way)
{
    switch (way) {
    case 0: _exit(0);
    case 1: exit(0);
    case 2: pthread_exit(NULL);
    default: execlp("true", "true", (char *)NULL), _exit(5);
    }
}

static int judge(const char *name, int status)
{
    if (WIFEXITED(status) && WEXITSTATUS(status) == 0)
        return 0;
    if (WIFSIGNALED(status))
        fprintf(stderr, "%s: the child got signal %d%s\n", name, WTERMSIG(status), WTERMSIG(status) == SIGALRM ? ": it hung" : "");
    else if (WEXITSTATUS(status) > 4)
        fprintf(stderr, "%s: the child ended with %d\n", name, WEXITSTATUS(status));
    return 1;
}

static void exit_without_error(const char *name)
{
    fprintf(stderr, "%s: no error\n", name);
    _exit(3);
}

static int in_a_child(int i, int way)
{
    fflush(NULL);
    pid_t child = fork();
    if (child == 0) {
        alarm(60);
        for (int k = i; k < i + IN_A_CHILD && k < COUNT; k++) {
            atomic_store(&function_now, all[k].name);
            bool good = all[k].call();
            atomic_store(&function_now, NULL);
            if (!good)
                exit_without_error(all[k].name);
        }
        end(way);
    }
    int status = -1;
    if (child < 0 || waitpid(child, &status, 0) != child)
        return perror("fork"), 1;
    return judge(all[i].name, status);
}

static mf_value twice(mf_value x) { return mf_add(x, x); }

/* A process that forks before its first call may use the library in both processes. */
static int before_first_use(void)
{
    pid_t child = fork();
    if (child == 0) {
        mf_value v = mf_call(mf_jit(twice), mf_ones(MF_SHAPE(100), MF_F32));
        exit(mf_item_f64(mf_sum(v)) == 200 ? mf_exit_status() : 5);
    }
    int status = -1;
    if (child < 0 || waitpid(child, &status, 0) != child)
        return perror("fork"), 1;
    return judge("before the first call", status);
}

static void prepare(void)
{
    value = mf_keep(mf_ones(MF_SHAPE(3), MF_F32));
    function = mf_jit(twice);
    filter = mf_everything();
    state = mf_param_state(value);
    module = mf_nn_linear(mf_random_default(), 2, 2);
    optimizer = mf_adam(.learning_rate = 0.5);
    devices = mf_devices();
    device = devices.at[0];
    logbook = mf_logbook_open("/nowhere/logs");
    manager = mf_checkpoint_manager_open("/nowhere/steps");
    loader = mf_loader_open(mf_dict("x", mf_ones(MF_SHAPE(4, 2), MF_F32)), .batch_size = 2);
    for (int i = 0; i < 4; i++) {
        values[i] = value;
        functions[i] = function;
        filters[i] = filter;
    }
}

int main(void)
{
    int bad = before_first_use();
    pthread_t threads[MOST_THREADS + 1];
    mf_set_error_hook(quiet, NULL);
    mf_set_num_cpu_devices(2);
    prepare();
    for (int i = 0; i < MOST_THREADS; i++)
        if (pthread_create(&threads[i], NULL, work, (void *)(intptr_t)i))
            return perror("pthread_create"), 1;
    for (int i = 0; i < COUNT; i += IN_A_CHILD)
        bad += in_a_child(i, i / IN_A_CHILD % 4);
    stop = true;
    for (int i = 0; i < MOST_THREADS; i++)
        pthread_join(threads[i], NULL);
    printf("%d functions, %d in a child: %d bad\n", COUNT, IN_A_CHILD, bad);
    return bad || COUNT < 500;
}
