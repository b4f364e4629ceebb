/* Arbitrary bytes on the connections that report deaths, to process 0 from others and from strangers, and from process 0 to another
 * process: only processes of the job can be reported dead, and all connections end. The bytes are commands. */
#include "fuzz/targets.h"

#include "comm/watch.h"

#include <netinet/in.h>
#include <poll.h>
#include <pthread.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

enum { SIZE = 4, CONNECTIONS = 6, HELLO = 0x6d664849 };

typedef struct input {
    const uint8_t *at;
    size_t count;
} input;

static int own_rank;

static uint32_t take(input *in, size_t bytes)
{
    uint32_t x = 0;
    for (; bytes && in->count; bytes--, in->count--)
        x = x << 8 | *in->at++;
    return x;
}

static void died(void *context, int process)
{
    (void)context;
    fuzz_must(process >= 0 && process < SIZE && process != own_rank);
}

static int connect_to(const mf_watch_invitation *i)
{
    struct sockaddr_in at = { .sin_family = AF_INET, .sin_addr.s_addr = i->at[0], .sin_port = htons((uint16_t)i->port) };
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd >= 0 && connect(fd, (struct sockaddr *)&at, sizeof at) == 0)
        return fd;
    if (fd >= 0)
        close(fd);
    return -1;
}

/* Sends a greeting, a message, or arbitrary bytes. */
static void say(int fd, const unsigned char *secret, input *in)
{
    struct {
        uint32_t magic, rank;
        unsigned char secret[16];
    } hello = { .magic = HELLO };
    unsigned char bytes[32];
    size_t count = 0;
    switch (take(in, 1) % 4) {
    case 0:
        hello.rank = take(in, 1) % (SIZE + 1);
        memcpy(hello.secret, secret, sizeof hello.secret);
        memcpy(bytes, &hello, count = sizeof hello);
        break;
    case 1: {
        uint32_t word[2] = { take(in, 1) % 5, take(in, 1) % (SIZE + 1) };
        memcpy(bytes, word, count = sizeof word);
        break;
    }
    default:
        for (size_t n = take(in, 1) % sizeof bytes; count < n; count++)
            bytes[count] = (unsigned char)take(in, 1);
    }
    send(fd, bytes, count, MSG_NOSIGNAL | MSG_DONTWAIT);
}

/* Waits until the other side has read everything and closed the connection. */
static void finish(int fd)
{
    unsigned char bytes[64];
    struct pollfd p = { .fd = fd, .events = POLLIN };
    shutdown(fd, SHUT_WR);
    while (poll(&p, 1, 2000) == 1 && recv(fd, bytes, sizeof bytes, 0) > 0) {
    }
    close(fd);
}

static void to_process_0(input *in)
{
    mf_watch_invitation invitation;
    int fds[CONNECTIONS];
    own_rank = 0;
    memset(fds, -1, sizeof fds);
    if (!mf_watch_invite(true, &invitation) || !mf_watch_begin(0, SIZE, &invitation, died, NULL))
        return;
    while (in->count) {
        uint32_t how = take(in, 1);
        int *fd = &fds[how / 8 % CONNECTIONS];
        if (*fd < 0)
            *fd = connect_to(&invitation);
        else if (how % 8 == 7) {
            finish(*fd);
            *fd = -1;
        } else {
            say(*fd, invitation.secret, in);
        }
    }
    for (int i = 0; i < CONNECTIONS; i++)
        if (fds[i] >= 0)
            finish(fds[i]);
    mf_watch_end(true);
}

/* Process 0, which mostly accepts the process that connects. */
typedef struct door {
    int listening, fd;
    uint32_t kind, rank;
} door;

static void *open_the_door(void *context)
{
    door *d = context;
    const uint32_t word[2] = { d->kind, d->rank };
    struct pollfd p = { .fd = d->listening, .events = POLLIN };
    if (poll(&p, 1, 2000) != 1)
        return NULL;
    d->fd = accept(d->listening, NULL, NULL);
    send(d->fd, word, sizeof word, MSG_NOSIGNAL);
    return NULL;
}

static void from_process_0(input *in)
{
    mf_watch_invitation invitation = { .at = { htonl(INADDR_LOOPBACK) } };
    struct sockaddr_in at = { .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
    socklen_t length = sizeof at;
    int listening = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    own_rank = 2;
    if (listening < 0 || bind(listening, (struct sockaddr *)&at, sizeof at) || listen(listening, 1) ||
        getsockname(listening, (struct sockaddr *)&at, &length)) {
        close(listening);
        return;
    }
    invitation.port = ntohs(at.sin_port);
    uint32_t how = take(in, 1);
    door d = { listening, -1, how % 8 ? 3 : how / 8 % 5, how % 64 ? 2 : 1 };
    pthread_t thread;
    if (pthread_create(&thread, NULL, open_the_door, &d) == 0) {
        bool begun = mf_watch_begin(own_rank, SIZE, &invitation, died, NULL);
        pthread_join(thread, NULL);
        while (begun && in->count)
            say(d.fd, invitation.secret, in);
        if (d.fd >= 0)
            finish(d.fd);
        mf_watch_end(true);
    }
    close(listening);
}

void fuzz_watch(const uint8_t *data, size_t size)
{
    input in = { data, size };
    if (take(&in, 1) % 4)
        to_process_0(&in);
    else
        from_process_0(&in);
}
