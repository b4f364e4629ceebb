/* Logbooks: lines, TensorBoard's records (parsed by the test itself), curves as images, the table, and errors. */
#include "check.h"

#include <manyfold.h>

#include <dirent.h>
#include <sys/stat.h>
#include <unistd.h>

static char folder[64];

static void remove_folder(void)
{
    char command[128];
    snprintf(command, sizeof command, "rm -rf '%s'", folder);
    if (strncmp(folder, "/tmp/mf_logbook_", 16) == 0)
        CHECK_EQ_INT(system(command), 0);
}

static const char *in_folder(const char *name)
{
    static char path[4][192];
    static int next;
    char *at = path[next++ % 4];
    if (!folder[0]) {
        snprintf(folder, sizeof folder, "/tmp/mf_logbook_XXXXXX");
        if (!mkdtemp(folder))
            abort();
        atexit(remove_folder);
    }
    snprintf(at, sizeof path[0], "%s/%s", folder, name);
    return at;
}

static size_t read_file(const char *path, char *out, size_t room)
{
    FILE *f = fopen(path, "rb");
    size_t n = f ? fread(out, 1, room - 1, f) : 0;
    if (f)
        fclose(f);
    out[n] = 0;
    return n;
}

/* The first file of a folder whose name begins with `prefix`. */
static const char *find_file(const char *in, const char *prefix)
{
    static char path[512];
    DIR *d = opendir(in);
    *path = 0;
    for (const struct dirent *e; d && (e = readdir(d));)
        if (strncmp(e->d_name, prefix, strlen(prefix)) == 0)
            snprintf(path, sizeof path, "%s/%s", in, e->d_name);
    if (d)
        closedir(d);
    return path;
}

static void ignore(mf_status status, const char *message, void *context) { (void)status, (void)message, (void)context; }

static const char *said(void)
{
    const char *words = NULL;
    (void)mf_first_error(&words);
    return words;
}

/* ------------------------------------------------------------------ a run */

static double loss_at(int step) { return 2.0 / (1 + 0.1 * step); }

static mf_value metrics_at(int step)
{
    mf_value train = mf_dict("loss", mf_scalar(loss_at(step), MF_F32), "accuracy", mf_scalar(1 - 0.3 * loss_at(step), MF_F32));
    return step % 10 ? mf_dict("train", train, "rate", 0.5)
                     : mf_dict("train", train, "rate", 0.5, "test", mf_dict("loss", loss_at(step) + 0.1));
}

static void write_run(const char *name)
{
    mf_logbook *b = mf_logbook_open(in_folder(name));
    for (int i = 0; i <= 100; i++) {
        MF_SCOPE;
        CHECK_EQ_INT(mf_logbook_write(b, i, metrics_at(i)), MF_OK);
    }
    const char *table = mf_logbook_table(b);
    CHECK_CONTAINS(table, "Metric               First        Last       Least    at step    Greatest    at step\n");
    CHECK_CONTAINS(table, "test/loss              2.1    0.281818    0.281818        100         2.1          0\n");
    CHECK_CONTAINS(table, "train/accuracy         0.4    0.945455");
    CHECK_EQ_INT(mf_logbook_close(b), MF_OK);
}

/* ------------------------------------------------------------------ lines */

TEST(lines_are_json_of_every_step)
{
    static char text[1 << 16];
    write_run("lines");
    size_t n = read_file(in_folder("lines/metrics.jsonl"), text, sizeof text);
    int count = 0;
    CHECK(n > 0 && text[n - 1] == '\n');
    for (char *line = strtok(text, "\n"); line; line = strtok(NULL, "\n"), count++) {
        char expected[160];
        long long step;
        double time;
        int read = 0;
        CHECK_EQ_INT(sscanf(line, "{\"step\": %lld, \"time\": %lf, %n", &step, &time, &read), 2);
        CHECK_EQ_INT(step, count);
        CHECK(time > 1.6e9);
        snprintf(expected, sizeof expected, "\"train/accuracy\": %.9g, \"train/loss\": %.9g}", (double)(float)(1 - 0.3 * loss_at(count)),
                 (double)(float)loss_at(count));
        CHECK_CONTAINS(line + read, expected);
        CHECK_EQ_INT(strstr(line, "test/loss") != NULL, count % 10 == 0);
    }
    CHECK_EQ_INT(count, 101);
}

TEST(odd_names_and_numbers)
{
    static char text[1 << 12];
    MF_SCOPE;
    mf_logbook *b = mf_logbook_open(in_folder("odd"), .no_tensorboard = true);
    mf_value nan = mf_div(mf_zeros(MF_SHAPE(1, 1), MF_F32), 0.0);
    CHECK_EQ_INT(mf_logbook_write(b, -3, mf_dict("a \"b\"\\\n", nan, "c<&>", mf_tuple(mf_i(7), mf_f(1e300 * 1e10), mf_b(true)))), MF_OK);
    CHECK_EQ_INT(mf_logbook_write(b, -2, 4.5), MF_OK);
    CHECK_EQ_INT(mf_logbook_close(b), MF_OK);
    read_file(in_folder("odd/metrics.jsonl"), text, sizeof text);
    CHECK_CONTAINS(text, "{\"step\": -3, ");
    CHECK_CONTAINS(text, "\"a \\\"b\\\"\\\\\\u000a\": \"NaN\", \"c<&>/0\": 7, \"c<&>/1\": \"Infinity\", \"c<&>/2\": 1}\n");
    CHECK_CONTAINS(text, "\"value\": 4.5}\n");
    CHECK_STR(find_file(in_folder("odd"), "events"), "");
    read_file(in_folder("odd/curves.svg"), text, sizeof text);
    CHECK(text[0] == '<' && !strstr(text, "c<"));
}

/* ------------------------------------------------------------------ records */

static uint32_t table[256];

static uint32_t crc32c(const unsigned char *bytes, size_t size)
{
    uint32_t crc = UINT32_MAX;
    for (uint32_t i = 0; i < 256 && !table[255]; i++) {
        uint32_t c = i;
        for (int k = 0; k < 8; k++)
            c = c & 1 ? 0x82f63b78u ^ c >> 1 : c >> 1;
        table[i] = c;
    }
    for (uint32_t i = 0; i < 256 && !table[255]; i++)
        abort();
    for (size_t i = 0; i < size; i++)
        crc = table[(crc ^ bytes[i]) & 255] ^ crc >> 8;
    return ~crc;
}

static uint32_t unmask(uint32_t x)
{
    x -= 0xa282ead8u;
    return x << 15 | x >> 17;
}

static uint64_t le(const unsigned char *at, int size)
{
    uint64_t x = 0;
    for (int i = 0; i < size; i++)
        x |= (uint64_t)at[i] << 8 * i;
    return x;
}

typedef struct field {
    int number, wire;
    uint64_t x;                 /* the value of a number, or the length */
    const unsigned char *bytes; /* the bytes, if the field has a length */
} field;

static const unsigned char *varint(const unsigned char *at, const unsigned char *end, uint64_t *x)
{
    *x = 0;
    for (int shift = 0; at < end && shift < 64; shift += 7) {
        *x |= (uint64_t)(*at & 127) << shift;
        if (!(*at++ & 128))
            return at;
    }
    return NULL;
}

/* Reads the field at `at` and returns where the next one begins; NULL if there is none. */
static const unsigned char *next_field(const unsigned char *at, const unsigned char *end, field *f)
{
    uint64_t key;
    if (at >= end || !(at = varint(at, end, &key)))
        return NULL;
    f->number = (int)(key >> 3);
    f->wire = (int)(key & 7);
    if (f->wire == 0)
        return varint(at, end, &f->x);
    int size = f->wire == 1 ? 8 : f->wire == 5 ? 4 : 0;
    if (size && end - at >= size) {
        f->x = le(at, size);
        return at + size;
    }
    if (f->wire != 2 || !(at = varint(at, end, &f->x)) || f->x > (uint64_t)(end - at))
        return NULL;
    f->bytes = at;
    return at + f->x;
}

typedef struct scalars {
    int count;
    double last_loss;
} scalars;

static void read_value(const field *v, int64_t step, scalars *s)
{
    field f;
    char tag[64] = "";
    float x = NAN;
    for (const unsigned char *at = v->bytes, *end = at + v->x; (at = next_field(at, end, &f));)
        if (f.number == 1 && f.wire == 2) {
            snprintf(tag, sizeof tag, "%.*s", (int)f.x, (const char *)f.bytes);
        } else if (f.number == 2 && f.wire == 5) {
            uint32_t bits = (uint32_t)f.x;
            memcpy(&x, &bits, 4);
        }
    s->count++;
    if (strcmp(tag, "train/loss") == 0)
        CHECK_EQ_INT(x == (float)loss_at((int)step), 1);
    else
        CHECK(strcmp(tag, "train/accuracy") == 0 || strcmp(tag, "test/loss") == 0 || strcmp(tag, "rate") == 0);
}

static void read_event(const unsigned char *at, const unsigned char *end, int number, scalars *s)
{
    field f;
    int64_t step = 0;
    double time = 0;
    bool version = false;
    while ((at = next_field(at, end, &f))) {
        field v;
        if (f.number == 1 && f.wire == 1)
            memcpy(&time, &f.x, 8);
        else if (f.number == 2 && f.wire == 0)
            step = (int64_t)f.x;
        else if (f.number == 3 && f.wire == 2)
            version = f.x == 13 && memcmp(f.bytes, "brain.Event:2", 13) == 0;
        else if (CHECK(f.number == 5 && f.wire == 2))
            for (const unsigned char *in = f.bytes, *stop = in + f.x; (in = next_field(in, stop, &v));)
                if (CHECK(v.number == 1 && v.wire == 2))
                    read_value(&v, step, s);
    }
    CHECK(time > 1.6e9);
    CHECK_EQ_INT(version, number == 0);
    CHECK_EQ_INT(step, number ? number - 1 : 0);
}

TEST(records_have_their_checksums)
{
    static char bytes[1 << 16];
    scalars s = { 0 };
    int count = 0;
    CHECK_EQ_UINT(crc32c((const unsigned char *)"123456789", 9), 0xe3069283u); /* RFC 3720 */
    write_run("records");
    size_t n = read_file(find_file(in_folder("records"), "events.out.tfevents."), bytes, sizeof bytes), at = 0;
    for (; at + 12 <= n; count++) {
        const unsigned char *head = (const unsigned char *)bytes + at;
        uint64_t size = le(head, 8);
        CHECK_EQ_UINT(unmask((uint32_t)le(head + 8, 4)), crc32c(head, 8));
        REQUIRE(CHECK(size <= n - at - 16));
        CHECK_EQ_UINT(unmask((uint32_t)le(head + 12 + size, 4)), crc32c(head + 12, size));
        read_event(head + 12, head + 12 + size, count, &s);
        at += 16 + size;
    }
    CHECK_EQ_UINT(at, n);
    CHECK_EQ_INT(count, 102);
    CHECK_EQ_INT(s.count, 101 * 3 + 11);
}

/* ------------------------------------------------------------------ curves */

static int64_t pixels_of(mf_value image, int r, int g, int b)
{
    mf_value colour = mf_array(MF_U8, MF_SHAPE(3), r, g, b);
    return mf_item_i64(mf_sum(mf_astype(mf_all(mf_equal(image, colour), -1), MF_I32)));
}

TEST(curves_are_drawn_twice)
{
    static char text[1 << 18];
    MF_SCOPE;
    write_run("curves");
    read_file(in_folder("curves/curves.svg"), text, sizeof text);
    static const char *const parts[] = { ">loss<", ">accuracy<", ">rate<",  ">train<", ">test<",  ">step<",
                                         ">100<",  "#1f77b4",    "#ff7f0e", "<path ",  "</svg>\n" };
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++)
        CHECK_CONTAINS(text, parts[i]);
    CHECK_EQ_INT(mkdir(in_folder("picture"), 0777), 0);
    CHECK_EQ_INT(rename(in_folder("curves/curves.png"), in_folder("picture/curves.png")), 0);
    mf_loader *l = mf_loader_open_source(mf_source_images(in_folder("picture")), .batch_size = 1);
    mf_value batch;
    REQUIRE(CHECK(mf_loader_next(l, &batch)));
    mf_value image = mf_get(batch, "image", 0);
    if (!CHECK(!mf_is_error(batch)))
        CHECK_NOTE("%s", mf_error(batch));
    CHECK_STR(mf_str(mf_shape_of(image)), "(840, 1280, 3)");
    CHECK(pixels_of(image, 255, 255, 255) > 840 * 1280 / 2);
    CHECK(pixels_of(image, 0x1f, 0x77, 0xb4) > 1000); /* three first curves of some hundred pixels, and their legends */
    CHECK(pixels_of(image, 0xff, 0x7f, 0x0e) > 300);  /* the second curve of one picture */
    CHECK(pixels_of(image, 0x33, 0x33, 0x33) > 3000); /* letters */
    mf_loader_close(l);
}

TEST(many_points_and_few)
{
    static char text[1 << 18];
    MF_SCOPE;
    mf_logbook *b = mf_logbook_open(in_folder("many"), .no_jsonl = true, .no_tensorboard = true);
    for (int i = 0; i < 5000; i++) {
        MF_SCOPE;
        CHECK_EQ_INT(mf_logbook_write(b, i,
                                      mf_dict("peak",
                                              i == 3333 ? 9.0
                                              : i % 2   ? 1.0
                                                        : 2.0,
                                              "gap", i % 100 ? (double)NAN : 1.0)),
                     MF_OK);
    }
    CHECK_EQ_INT(mf_logbook_write(b, 5000, mf_dict("once", 3)), MF_OK);
    CHECK_EQ_INT(mf_logbook_close(b), MF_OK);
    size_t n = read_file(in_folder("many/curves.svg"), text, sizeof text);
    CHECK(n > 1000 && n < 100000);
    const char *peak = strstr(text, ">peak<"); /* the topmost point is drawn: at the upper end of its axis */
    CHECK(peak && strstr(text, " 68.00"));
    CHECK(access(in_folder("many/metrics.jsonl"), F_OK) != 0);
}

/* ------------------------------------------------------------------ errors, and files that are there */

TEST(lines_are_added_and_nothing_is_lost)
{
    static char text[1 << 12];
    for (int i = 0; i < 2; i++) {
        mf_logbook *b = mf_logbook_open(in_folder("again"));
        CHECK_EQ_INT(mf_logbook_write(b, i, mf_dict("x", i)), MF_OK);
        CHECK_EQ_INT(mf_logbook_close(b), MF_OK);
    }
    read_file(in_folder("again/metrics.jsonl"), text, sizeof text);
    CHECK_CONTAINS(text, "{\"step\": 0, ");
    CHECK_CONTAINS(text, "{\"step\": 1, ");
}

/* A run to step 3 is resumed from its last checkpoint at step 2, after a line that a killed process left incomplete. */
TEST(curves_go_on_where_a_run_is_resumed)
{
    static char text[1 << 14];
    static const struct {
        int from, to;
        double add;
        const char *row; /* first, last, least and where, greatest and where */
    } runs[] = { { 1, 3, 0, "loss             1           3           1          1           3          3" },
                 { 2, 5, 10, "loss             1          15           1          1          15          5" },
                 { 1, 1, 20, "loss            21          21          21          1          21          1" } };
    char lines[192];
    snprintf(lines, sizeof lines, "%s", in_folder("resumed/metrics.jsonl"));
    for (size_t r = 0; r < sizeof runs / sizeof *runs; r++) {
        mf_logbook *b = mf_logbook_open(in_folder("resumed"));
        for (int i = runs[r].from; i <= runs[r].to; i++)
            CHECK_EQ_INT(mf_logbook_write(b, i, mf_dict("loss", i + runs[r].add)), MF_OK);
        CHECK_CONTAINS(mf_logbook_table(b), runs[r].row);
        CHECK_EQ_INT(mf_logbook_close(b), MF_OK);
        FILE *f = fopen(lines, "a");
        CHECK(f && fputs("{\"step\": 9, \"loss\": \"Inf", f) > 0 && fclose(f) == 0);
        read_file(in_folder("resumed/curves.svg"), text, sizeof text);
        CHECK_CONTAINS(text, ">loss<");
    }
    read_file(lines, text, sizeof text);
    CHECK_CONTAINS(text, "\"Inf\n{\"step\": 2, ");
    mf_logbook *b = mf_logbook_open(in_folder("resumed"));
    CHECK_CONTAINS(mf_logbook_table(b), runs[2].row);
    CHECK_EQ_INT(mf_logbook_close(b), MF_OK);
}

/* Numbers that JSON does not have, and lines that are not a logbook's. */
TEST(earlier_lines_are_read_as_they_were_written)
{
    CHECK_EQ_INT(mkdir(in_folder("earlier"), 0777), 0);
    FILE *f = fopen(in_folder("earlier/metrics.jsonl"), "w");
    CHECK(f &&
          fputs("\n[1]\n{\"loss\": 4}\n{\"step\": \"NaN\", \"loss\": 4}\n{\"step\": 1, \"loss\": true}\n"
                "{\"step\": 1, \"loss\": 0x4}\n{\"step\": 1, \"loss\": 4} 5\n"
                "{\"step\": 1, \"time\": 7.5, \"a/\\\"b\\\"\": -2.5e-3, \"up\": \"Infinity\"}\n"
                "{\"step\": 3, \"time\": 8, \"up\": \"NaN\"}\n",
                f) > 0 &&
          fclose(f) == 0);
    mf_logbook *b = mf_logbook_open(in_folder("earlier"));
    const char *table = mf_logbook_table(b);
    CHECK_CONTAINS(table, "a/\"b\"      -0.0025     -0.0025     -0.0025          1     -0.0025          1\n");
    CHECK_CONTAINS(table, "up             inf         nan");
    CHECK(!strstr(table, "loss"));
    CHECK_EQ_INT(mf_logbook_close(b), MF_OK);
}

TEST(errors_come_from_the_next_call)
{
    MF_SCOPE;
    mf_set_error_hook(ignore, NULL);
    mf_logbook *b = mf_logbook_open(in_folder("errors"));
    mf_status status = mf_logbook_write(b, 1, mf_dict("loss", mf_zeros(MF_SHAPE(3), MF_F32))); /* the thread may already have failed */
    (void)mf_logbook_table(b);
    CHECK_EQ_INT(status ? status : mf_logbook_write(b, 2, mf_dict("loss", 1)), MF_ERROR_TREE);
    CHECK_CONTAINS(said(), "loss: expected one number, found an array of shape (3,)");
    status = mf_logbook_write(b, 3, mf_make_error(MF_ERROR_SHAPE, "of before"));
    CHECK_EQ_INT(status ? status : mf_logbook_close(b), MF_ERROR_SHAPE);
    if (status)
        CHECK_EQ_INT(mf_logbook_close(b), MF_OK);
    CHECK_CONTAINS(said(), "of before");
    b = mf_logbook_open("/proc/nowhere/logs");
    CHECK_EQ_INT(mf_logbook_write(b, 1, 1.0), MF_ERROR_IO);
    CHECK_CONTAINS(said(), "/proc/nowhere/logs: cannot be made");
    CHECK(mf_logbook_close(b) != MF_OK);
    CHECK_CONTAINS(said(), "/proc/nowhere/logs/curves");
    b = mf_logbook_open(NULL);
    CHECK_EQ_INT(mf_logbook_write(b, 1, 1.0), MF_ERROR_IO);
    (void)mf_logbook_close(b);
    CHECK_EQ_INT(mf_logbook_close(NULL), MF_OK);
    while (said()) {
    }
    mf_set_error_hook(NULL, NULL);
}

/* A logbook for the script that reads one with TensorBoard. */
TEST(folder_for_tensorboard)
{
    const char *path = getenv("MF_TEST_LOGBOOK");
    if (!path)
        return;
    mf_logbook *b = mf_logbook_open(path);
    for (int i = 0; i <= 100; i++)
        CHECK_EQ_INT(mf_logbook_write(b, i, metrics_at(i)), MF_OK);
    CHECK_EQ_INT(mf_logbook_close(b), MF_OK);
}
