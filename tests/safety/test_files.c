/* Files that are written while others read them or while the process is killed, with odd names, or that are no regular files: a loaded file
 * is complete, an old file stays until the new one is complete, and no temporary files are left. */
#include "check.h"

#include <dirent.h>
#include <fcntl.h>
#include <manyfold.h>
#include <pthread.h>
#include <signal.h>
#include <spawn.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

static char folder[] = "/tmp/mf_files_XXXXXX";

static const char *in_folder(const char *name)
{
    static char path[4][256];
    static int next;
    static bool made; /* the name must keep its own X */
    if (!made && !(made = mkdtemp(folder)))
        abort();
    char *at = path[next++ % 4];
    snprintf(at, sizeof path[0], "%s/%s", folder, name);
    return at;
}

/* The number of entries in the folder; optionally removes them. */
static int entries(bool clear)
{
    DIR *d = opendir(folder);
    int count = 0;
    for (struct dirent *e; d && (e = readdir(d));) {
        if (e->d_name[0] == '.')
            continue;
        count++;
        if (clear)
            (void)remove(in_folder(e->d_name));
    }
    if (d)
        closedir(d);
    return count;
}

__attribute__((destructor)) static void remove_folder(void)
{
    entries(true);
    (void)rmdir(folder);
}

static void ignore(mf_status status, const char *message, void *said)
{
    (void)status;
    snprintf(said, 512, "%s", message);
}

/* ------------------------------------------------------------------ savers and loaders of one path */

typedef struct crowd {
    const char *path;
    bool npz;
    _Atomic bool over;
    _Atomic int damaged, failed, loads;
} crowd;

static mf_value load(const crowd *c) { return c->npz ? mf_get(mf_load_npz(c->path), "a") : mf_load_npy(c->path); }

static mf_status save(const crowd *c, mf_value v) { return c->npz ? mf_save_npz(c->path, mf_dict("a", v)) : mf_save_npy(c->path, v); }

static void *save_often(void *context)
{
    crowd *c = context;
    for (int i = 0; i < 20; i++) {
        MF_SCOPE;
        c->failed += save(c, mf_full(MF_SHAPE(20000 * (i % 5 + 1)), mf_f(i))) != MF_OK;
    }
    return NULL;
}

static void *load_often(void *context)
{
    for (crowd *c = context; !c->over; c->loads++) {
        MF_SCOPE;
        mf_value v = load(c);
        c->damaged += mf_is_error(v) || mf_item_f64(mf_min(v)) != mf_item_f64(mf_max(v));
    }
    return NULL;
}

static void gather(crowd c)
{
    enum { EACH = 3 };
    pthread_t threads[2 * EACH];
    CHECK_EQ_INT(save(&c, mf_zeros(MF_SHAPE(10), MF_F32)), MF_OK);
    for (int i = 0; i < 2 * EACH; i++)
        pthread_create(&threads[i], NULL, i < EACH ? save_often : load_often, &c);
    for (int i = 0; i < EACH; i++)
        pthread_join(threads[i], NULL);
    c.over = true;
    for (int i = EACH; i < 2 * EACH; i++)
        pthread_join(threads[i], NULL);
    CHECK_EQ_INT(c.failed, 0);
    CHECK_EQ_INT(c.damaged, 0);
    CHECK(c.loads > 0);
    CHECK_EQ_INT(entries(true), 1);
}

TEST(many_save_and_load_one_path)
{
    gather((crowd){ .path = in_folder("a.npy") });
    gather((crowd){ .path = in_folder("a.npz"), .npz = true });
}

/* ------------------------------------------------------------------ killed */

extern char **environ;

/* Starts this program again, which saves until it is killed: see main_saves. */
static pid_t start_saving(const char *path)
{
    pid_t child = -1;
    char *arguments[] = { "test_files", NULL };
    setenv("MF_TEST_SAVES", path, 1);
    if (posix_spawn(&child, "/proc/self/exe", NULL, NULL, arguments, environ))
        child = -1;
    unsetenv("MF_TEST_SAVES");
    return child;
}

__attribute__((constructor)) static void main_saves(void)
{
    const char *path = getenv("MF_TEST_SAVES");
    if (!path)
        return;
    for (int i = 0;; i++) {
        MF_SCOPE;
        if (mf_save_npy(path, mf_full(MF_SHAPE(400000), mf_f(i))))
            _exit(1);
    }
}

TEST(fifty_kills_leave_the_old_file_or_the_new_one)
{
    bool replaced = false;
    useconds_t wait = 20000; /* longer if nothing was saved in that time */
    const char *path = in_folder("k.npy");
    CHECK_EQ_INT(mf_save_npy(path, mf_full(MF_SHAPE(400000), mf_f(-1))), MF_OK);
    for (int i = 0; i < 50; i++) {
        MF_SCOPE;
        pid_t child = start_saving(path);
        REQUIRE(child > 0);
        usleep(wait + (useconds_t)i * 700);
        kill(child, SIGKILL);
        waitpid(child, NULL, 0);
        mf_value v = mf_load_npy(path);
        CHECK(!mf_is_error(v));
        CHECK_NEAR(mf_item_f64(mf_min(v)), mf_item_f64(mf_max(v)), 0);
        replaced = replaced || mf_item_f64(mf_min(v)) >= 0;
        wait *= replaced || wait > 500000 ? 1 : 2;
    }
    CHECK(replaced); /* the kills hit while it was saving */
    entries(true);
}

/* ------------------------------------------------------------------ names and kinds of files */

TEST(permissions_and_links_stay)
{
    struct stat s;
    const char *path = in_folder("p.npy"), *link = in_folder("link.npy");
    mode_t before = umask(027);
    CHECK_EQ_INT(mf_save_npy(path, mf_f(1)), MF_OK);
    umask(before);
    CHECK(stat(path, &s) == 0 && (s.st_mode & 0777) == 0640);
    chmod(path, 0604);
    CHECK(symlink(path, link) == 0);
    CHECK_EQ_INT(mf_save_npz(link, mf_f(2)), MF_OK);
    CHECK(stat(path, &s) == 0 && (s.st_mode & 0777) == 0604);
    CHECK(lstat(link, &s) == 0 && S_ISLNK(s.st_mode));
    CHECK_EQ_INT(entries(true), 2);
}

TEST(what_is_no_regular_file_is_refused_at_once)
{
    char said[512] = "";
    const char *fifo = in_folder("fifo"), *paths[] = { fifo, folder, "/dev/zero", "/dev/null" };
    CHECK(mkfifo(fifo, 0600) == 0);
    mf_set_error_hook(ignore, said);
    for (int i = 0; i < 4; i++) {
        MF_SCOPE;
        CHECK_CONTAINS(mf_error(mf_load_npy(paths[i])), "it is no regular file");
        CHECK_CONTAINS(mf_error(mf_load_npz(paths[i])), "it is no regular file");
        CHECK_EQ_INT(mf_save_npy(paths[i], mf_f(1)), MF_ERROR_IO);
        CHECK_EQ_INT(mf_save_npz(paths[i], mf_f(1)), MF_ERROR_IO);
        CHECK_CONTAINS(said, "it is no regular file");
    }
    mf_set_error_hook(NULL, NULL);
    entries(true);
}

TEST(keys_are_kept_or_refused)
{
    char said[512] = "";
    const char *path = in_folder("keys.npz");
    mf_set_error_hook(ignore, said);
    for (int n = 1000; n <= 64000; n += n < 1100 ? 5 : 20000) {
        MF_SCOPE;
        char *key = calloc(1, (size_t)n + 1);
        memset(key, 'k', (size_t)n);
        CHECK_EQ_INT(mf_save_npz(path, mf_dict(key, mf_arange(3, MF_F32), "b", mf_f(1))), MF_OK);
        CHECK_EQ_INT(mf_len(mf_load_npz(path)), 2);
        free(key);
    }
    CHECK_EQ_INT(mf_save_npz(path, mf_dict("b", mf_f(7))), MF_OK);
    static const char *const refused[] = { "", ".", "..", "../up", "a//b", "/root", "a/..", "x\xff\xfe" };
    for (size_t i = 0; i < sizeof refused / sizeof *refused; i++) {
        MF_SCOPE;
        CHECK(mf_save_npz(path, mf_dict(refused[i], mf_f(1), "b", mf_f(2))) != MF_OK);
        CHECK(mf_save_npz(path, mf_dict("x", mf_dict(refused[i], mf_f(1)))) != MF_OK || i == 5);
        CHECK_CONTAINS(said, "keys.npz");
    }
    char *longest = calloc(1, 70001);
    memset(longest, 'k', 70000);
    CHECK(mf_save_npz(path, mf_dict(longest, mf_f(1))) != MF_OK);
    free(longest);
    CHECK_NEAR(mf_item_f64(mf_get(mf_load_npz(path), "b")), 7, 0); /* failed saves did not change the file */
    CHECK(mf_save_npz(path, mf_dict("a/b", mf_f(1), "a", mf_dict("b", mf_f(2)))) != MF_OK);
    mf_set_error_hook(NULL, NULL);
    CHECK_EQ_INT(entries(true), 1);
}

/* ------------------------------------------------------------------ claims */

TEST(an_archive_that_claims_too_much_is_refused_unless_asked_for)
{
    MF_SCOPE;
    const char *path = in_folder("bomb.npz"), *script = in_folder("bomb.py");
    FILE *f = fopen(script, "w");
    REQUIRE(f);
    fprintf(f, /* 300 MB of zeros in 300 KB */
            "import zipfile\n"
            "head = b\"{'descr': '|u1', 'fortran_order': False, 'shape': (300000000,), }\\n\"\n"
            "with zipfile.ZipFile('%s', 'w', zipfile.ZIP_DEFLATED) as z, z.open('a.npy', 'w') as m:\n"
            "    m.write(b'\\x93NUMPY\\x01\\x00' + len(head).to_bytes(2, 'little') + head)\n"
            "    for i in range(300): m.write(bytes(1000000))\n",
            path);
    fclose(f);
    char command[300];
    snprintf(command, sizeof command, "python3 %s", script);
    REQUIRE(system(command) == 0);
    CHECK_CONTAINS(mf_error(mf_load_npz(path)), "if they are meant, raise .max_bytes");
    CHECK_CONTAINS(mf_error(mf_load_tree(path, mf_dict("a", mf_f(1)))), "bomb.npz: its members claim 300000");
    mf_value meant = mf_load_npz(path, .max_bytes = 400000000);
    CHECK(!mf_is_error(meant));
    CHECK_EQ_INT(mf_size(mf_get(meant, "a")), 300000000);
    entries(true);
}
