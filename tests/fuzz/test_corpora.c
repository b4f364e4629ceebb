/* Replays the fuzzers' corpora without libFuzzer: each file unchanged, then with bytes changed, moved, lost and repeated. Invariant: a file
 * gives the same mutations on every machine. MF_FUZZ_COUNT: the number of mutations of a file. */
#include "check.h"
#include "fuzz/targets.h"

#include <dirent.h>

static uint64_t state;

static size_t pick(size_t n)
{
    state += 0x9e3779b97f4a7c15u;
    uint64_t z = (state ^ state >> 30) * 0xbf58476d1ce4e5b9u;
    z = (z ^ z >> 27) * 0x94d049bb133111ebu;
    return n ? (size_t)((z ^ z >> 31) % n) : 0;
}

/* Writes the bytes of a number at a limit of its type. */
static void write_edge(uint8_t *at, size_t room)
{
    static const uint64_t edges[] = { 0, 1, 0x7f, 0x80, 0xff, 0x7fff, 0xffff, 0x7fffffff, 0x80000000, 0xffffffff, INT64_MAX, UINT64_MAX };
    uint64_t x = edges[pick(12)];
    size_t size = (size_t)1 << pick(4);
    bool big = pick(2);
    for (size_t i = 0; i < size && i < room; i++)
        at[i] = (uint8_t)(x >> 8 * (big ? size - 1 - i : i));
}

static size_t mutate(uint8_t *data, size_t size, size_t room)
{
    size_t at = pick(size + 1), piece = 1 + pick(16), from = pick(size + 1);
    piece = piece < size - from ? piece : size - from;
    switch (pick(6)) {
    case 0:
        if (at < size)
            data[at] ^= (uint8_t)(1 << pick(8));
        return size;
    case 1: write_edge(data + at, size - at); return size;
    case 2: return pick(4) ? size : at; /* truncated */
    case 3: memmove(data + from, data + from + piece, size - from - piece); return size - piece;
    case 4:
        if (size + piece > room)
            return size;
        memmove(data + from + piece, data + from, size - from);
        return size + piece;
    default:
        piece = piece < size - at ? piece : size - at;
        memmove(data + at, data + from, piece < size - from ? piece : size - from);
        return size;
    }
}

static void replay(void (*target)(const uint8_t *, size_t), const uint8_t *bytes, size_t size, int slow)
{
    const char *wish = getenv("MF_FUZZ_COUNT"), *checked = getenv("MF_SANITIZE");
    long count = wish ? atol(wish) : (checked && *checked ? 200 : 2000) / slow;
    target(bytes, size);
    for (long n = 0; n < count; n++) {
        size_t room = size + 64, length = size;
        uint8_t *copy = calloc(room, 1);
        memcpy(copy, bytes, size);
        for (size_t k = 1 + pick(4); k > 0; k--)
            length = mutate(copy, length, room);
        uint8_t *exact = malloc(length ? length : 1); /* of exact size, so that a sanitizer detects an access beyond the end */
        memcpy(exact, copy, length);
        target(exact, length);
        free(exact);
        free(copy);
    }
}

static int replay_file(void (*target)(const uint8_t *, size_t), const char *folder, const char *name, int slow)
{
    static uint8_t bytes[1 << 16];
    char path[4096];
    if (!CHECK(snprintf(path, sizeof path, "%s/%s", folder, name) < (int)sizeof path))
        return 0;
    FILE *f = fopen(path, "rb");
    if (!CHECK(f))
        return 0;
    size_t size = fread(bytes, 1, sizeof bytes, f);
    fclose(f);
    state = size;
    for (const char *c = name; *c; c++)
        state = state * 31 + (unsigned char)*c;
    replay(target, bytes, size, slow);
    return 1;
}

/* slow: how many times slower the target is than a simple parser. */
static void replay_all(const char *corpus, void (*target)(const uint8_t *, size_t), int slow)
{
    char folder[4000];
    int files = 0;
    snprintf(folder, sizeof folder, "%s/fuzz/corpus/%s", MF_TESTS_DIR, corpus);
    DIR *d = opendir(folder);
    REQUIRE(d);
    for (const struct dirent *e; (e = readdir(d));)
        if (e->d_name[0] != '.')
            files += replay_file(target, folder, e->d_name, slow);
    closedir(d);
    CHECK(files > 3);
}

TEST(programs) { replay_all("program", fuzz_program, 1); }
TEST(plans) { replay_all("plan", fuzz_plan, 1); }
TEST(npy) { replay_all("npy", fuzz_npy, 1); }
TEST(npz) { replay_all("npz", fuzz_npz, 1); }
TEST(safetensors) { replay_all("safetensors", fuzz_safetensors, 1); }
TEST(idx) { replay_all("idx", fuzz_idx, 1); }
TEST(cifar) { replay_all("cifar", fuzz_cifar, 100); }
TEST(subscripts) { replay_all("subscripts", fuzz_subscripts, 10); }
TEST(messages) { replay_all("messages", fuzz_messages, 40); }
TEST(watch) { replay_all("watch", fuzz_watch, 40); }
TEST(settings) { replay_all("settings", fuzz_settings, 1); }
