/* Arbitrary bytes as headers of messages and their payloads, over a link and shared memory, while this process sends and receives, fails
 * and ends calls: each operation ends exactly once, and nothing is written outside its buffer. The bytes are commands, each of which begins
 * with its kind. */
#include "fake_link.h"
#include "fuzz/targets.h"

typedef struct input {
    const uint8_t *at;
    size_t count;
} input;

enum { OPERATIONS = 64 };

typedef struct own_operation {
    int ends;
    unsigned char *bytes;
} own_operation;

static uint64_t take(input *in, size_t bytes)
{
    uint64_t x = 0;
    for (; bytes && in->count; bytes--, in->count--)
        x = x << 8 | *in->at++;
    return x;
}

/* Mostly small, or near the maximum. */
static uint64_t take_size(input *in)
{
    uint64_t x = take(in, 2);
    return x < 0xff00 ? x : x < 0xff80 ? x << 16 : UINT64_MAX - (0xffff - x);
}

static void ended(void *context, mf_error_object *error)
{
    own_operation *op = context;
    fuzz_must(__atomic_add_fetch(&op->ends, 1, __ATOMIC_SEQ_CST) == 1);
    mf_error_ignore(error);
    free(op->bytes); /* from now on a write there is a bug */
}

static void operate(mf_comm *c, own_operation *op, input *in)
{
    unsigned how = (unsigned)take(in, 1);
    size_t count = (size_t)take(in, 2);
    mf_message_tag tag = { .call = how & 3, .place = how >> 2 & 1, .check = how >> 3 & 1, .description = how & 16 ? "psum" : NULL };
    int other = 1 + (int)(how >> 5 & 3) % (PROCESSES - 1);
    op->bytes = malloc(count + 1);
    memset(op->bytes, 1, count + 1);
    if (how & 128)
        c->send(c, other, &tag, op->bytes, count, ended, op);
    else
        c->receive(c, other, &tag, op->bytes, count, ended, op);
}

static void deliver(input *in)
{
    static unsigned char bytes[SLOT + 256];
    unsigned how = (unsigned)take(in, 1);
    mf_message_header h = { .magic = how & 1 ? MAGIC : (uint32_t)take(in, 4) };
    h.kind = (uint32_t)take(in, 1) % (MESSAGE_KINDS + 1);
    h.from = 1 + (uint32_t)take(in, 1) % PROCESSES;
    h.text_bytes = (uint32_t)take(in, how & 2 ? 1 : 4);
    h.call = take(in, how & 4 ? 1 : 8);
    h.place = take(in, 1);
    h.check = take(in, 1);
    h.size = take_size(in);
    h.id = take(in, how & 4 ? 1 : 8);
    h.taken = take(in, how & 8 ? 1 : 8);
    h.at = how & 16 ? 0 : take(in, 4);
    bool small = h.kind == OFFER || h.kind == CLEAR_TO_SEND;
    size_t payload = how & 32 ? (size_t)take(in, 2) : (small ? 0 : (size_t)h.size) + (h.kind <= OFFER ? h.text_bytes : 0);
    payload = payload < SLOT - sizeof h ? payload : 0;
    memcpy(bytes, &h, sizeof h);
    memset(bytes + sizeof h, 0, payload);
    for (size_t i = 0; i < payload && in->count; i++)
        bytes[sizeof h + i] = (unsigned char)take(in, 1);
    size_t count = how & 64 ? (size_t)take(in, 1) : sizeof h + payload;
    int by = how & 128 ? 1 + (int)take(in, 1) % (NEAR - 1) : 0;
    if (!by || !fake.shared.at) {
        bring(bytes, count);
        return;
    }
    atomic_store(&mf_shared_offers(&fake.shared, by)[h.id % MF_OFFERS], h.id * OFFER_STATES + OFFERED);
    mf_ring_put(mf_shared_ring(&fake.shared, by, 0), (mf_ring_part[3]){ { bytes, count }, { "", 0 }, { "", 0 } });
}

static void command(mf_comm *c, own_operation *ops, int *count, input *in)
{
    char why[4] = "why";
    switch (take(in, 1) % 8) {
    case 0:
    case 1:
    case 2: deliver(in); return;
    case 3:
    case 4:
        if (*count < OPERATIONS)
            operate(c, &ops[(*count)++], in);
        return;
    case 5: c->end(c, take(in, 1) % 8); return;
    case 6: c->abort(c, take(in, 1) % 8, why); return;
    default:
        if (take(in, 1) % 64 == 0)
            mf_messages_died(c, 1 + (int)take(in, 1) % (PROCESSES - 1));
        c->poll(c);
    }
}

void fuzz_messages(const uint8_t *data, size_t size)
{
    own_operation ops[OPERATIONS] = { 0 };
    input in = { data, size };
    int count = 0;
    mf_comm *c = open_comm();
    fuzz_must(c);
    if (take(&in, 1) % 2)
        share(c);
    while (in.count) {
        command(c, ops, &count, &in);
        if (fake.shared.at)
            drain();
    }
    for (int i = 0; i < 20; i++) { /* until nothing waits for room */
        if (fake.shared.at)
            drain();
        c->poll(c);
    }
    leave(c);
    for (int i = 0; i < count; i++)
        fuzz_must(ops[i].ends == 1);
}
