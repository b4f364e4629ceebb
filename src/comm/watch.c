/* The TCP connections between process 0 and all others, and the thread that sleeps on them. Invariants: process 0 listens only until all
 * have connected, and accepts only peers that know the job's secret; messages are of fixed size, and a wrong one closes its connection. */
#include "comm/watch.h"

#include "base/memory/alloc.h"
#include "base/thread/stack.h"

#include <errno.h>
#include <ifaddrs.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <pthread.h>
#include <sys/eventfd.h>
#include <sys/random.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#define CONNECT_MS 5000
#define WELCOME_MS 20000 /* process 0 may share its cores with many */
#define HELLO      0x6d664849u

typedef enum message_kind { GOODBYE = 1, DEATH, WELCOME } message_kind;

typedef struct message { /* every message after the hello */
    uint32_t kind, process;
} message;

typedef struct hello {
    uint32_t magic, rank;
    unsigned char secret[16];
} hello;

typedef struct connection {
    int fd, rank; /* rank -1: has not said hello */
    bool left;    /* it said goodbye: the end of the connection is no death */
    unsigned char received[sizeof(hello)];
    size_t count;
} connection;

static struct {
    int rank, size, listening, stop; /* listening, stop: descriptors; -1: none */
    int count, missing;
    connection *all;
    struct pollfd *polls;
    unsigned char secret[16];
    void (*died)(void *context, int process);
    void *context;
    pthread_t thread;
    bool begun;
} watch = { .listening = -1, .stop = -1 };

/* ------------------------------------------------------------------ sockets */

static void close_socket(int *fd)
{
    if (*fd >= 0)
        close(*fd);
    *fd = -1;
}

/* Detects that the other end's machine has vanished without closing the connection. */
static void keep_alive(int fd)
{
    int on = 1, idle = 10, interval = 5, times = 3;
    setsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, &on, sizeof on);
    setsockopt(fd, IPPROTO_TCP, TCP_KEEPIDLE, &idle, sizeof idle);
    setsockopt(fd, IPPROTO_TCP, TCP_KEEPINTVL, &interval, sizeof interval);
    setsockopt(fd, IPPROTO_TCP, TCP_KEEPCNT, &times, sizeof times);
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
}

static void list_addresses(mf_watch_invitation *i)
{
    struct ifaddrs *all = NULL;
    int count = 0;
    if (getifaddrs(&all))
        return;
    for (const struct ifaddrs *a = all; a && count < MF_WATCH_ADDRESSES; a = a->ifa_next) {
        struct sockaddr_in at;
        if (!a->ifa_addr || a->ifa_addr->sa_family != AF_INET)
            continue;
        memcpy(&at, a->ifa_addr, sizeof at);
        if (at.sin_addr.s_addr != htonl(INADDR_LOOPBACK))
            i->at[count++] = at.sin_addr.s_addr;
    }
    freeifaddrs(all);
}

bool mf_watch_invite(bool one_host, mf_watch_invitation *i)
{
    struct sockaddr_in at = { .sin_family = AF_INET, .sin_addr.s_addr = htonl(one_host ? INADDR_LOOPBACK : INADDR_ANY) };
    socklen_t size = sizeof at;
    memset(i, 0, sizeof *i);
    watch.listening = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    bool ok = watch.listening >= 0 && getrandom(i->secret, sizeof i->secret, 0) == (ssize_t)sizeof i->secret &&
              bind(watch.listening, (struct sockaddr *)&at, sizeof at) == 0 && listen(watch.listening, SOMAXCONN) == 0 &&
              getsockname(watch.listening, (struct sockaddr *)&at, &size) == 0;
    if (!ok) {
        close_socket(&watch.listening);
        return false;
    }
    i->port = ntohs(at.sin_port);
    if (one_host)
        i->at[0] = htonl(INADDR_LOOPBACK);
    else
        list_addresses(i);
    return true;
}

/* -1: nothing listens there. */
static int connect_to(uint32_t address, uint32_t port)
{
    struct sockaddr_in at = { .sin_family = AF_INET, .sin_addr.s_addr = address, .sin_port = htons((uint16_t)port) };
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0), error = 0;
    socklen_t size = sizeof error;
    struct pollfd p = { .fd = fd, .events = POLLOUT };
    bool there = fd >= 0 && (connect(fd, (struct sockaddr *)&at, sizeof at) == 0 || errno == EINPROGRESS) && poll(&p, 1, CONNECT_MS) == 1 &&
                 getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &size) == 0 && !error;
    if (!there)
        close_socket(&fd);
    return fd;
}

/* Messages are few and small: a socket that does not take one at once has a dead peer. */
static bool send_message(int fd, const void *bytes, size_t count) { return send(fd, bytes, count, MSG_NOSIGNAL) == (ssize_t)count; }

/* ------------------------------------------------------------------ the thread */

static void report_death(int process)
{
    message m = { DEATH, (uint32_t)process };
    for (int i = 0; i < watch.count && !watch.rank; i++)
        if (watch.all[i].fd >= 0 && watch.all[i].rank > 0)
            send_message(watch.all[i].fd, &m, sizeof m);
    watch.died(watch.context, process);
}

static void end_connection(connection *c)
{
    bool dead = c->rank >= 0 && !c->left;
    close_socket(&c->fd);
    if (dead)
        report_death(c->rank);
    c->rank = dead ? -1 : c->rank;
}

static bool take_hello(connection *c)
{
    hello h;
    memcpy(&h, c->received, sizeof h);
    unsigned char differ = 0;
    for (size_t i = 0; i < sizeof h.secret; i++)
        differ |= h.secret[i] ^ watch.secret[i];
    bool ours = !differ && h.magic == HELLO && h.rank > 0 && h.rank < (uint32_t)watch.size;
    for (int i = 0; ours && i < watch.count; i++)
        ours = watch.all[i].rank != (int)h.rank;
    message m = { WELCOME, h.rank };
    if (!ours || !send_message(c->fd, &m, sizeof m))
        return false;
    c->rank = (int)h.rank;
    if (--watch.missing)
        return true;
    close_socket(&watch.listening);
    for (int i = 0; i < watch.count; i++)
        if (watch.all[i].rank < 0)
            close_socket(&watch.all[i].fd);
    return true;
}

static bool take_message(connection *c)
{
    message m;
    memcpy(&m, c->received, sizeof m);
    bool is_death = m.kind == DEATH && watch.rank && m.process < (uint32_t)watch.size && (int)m.process != watch.rank;
    if (is_death)
        report_death((int)m.process);
    else if (m.kind == GOODBYE)
        c->left = true;
    else
        return false;
    return true;
}

/* Receives from a connection; false: it has ended, or its peer does not belong to the job. */
static bool receive(connection *c)
{
    size_t wanted = c->rank < 0 ? sizeof(hello) : sizeof(message);
    ssize_t n = recv(c->fd, c->received + c->count, wanted - c->count, 0);
    if (n < 0 && (errno == EAGAIN || errno == EINTR))
        return true;
    if (n <= 0)
        return false;
    c->count += (size_t)n;
    if (c->count < wanted)
        return true;
    c->count = 0;
    return c->rank < 0 ? take_hello(c) : take_message(c);
}

/* Connections from strangers, of any number, get only the places that are left. */
static void accept_connection(void)
{
    int fd = accept4(watch.listening, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK), i = 0;
    while (i < watch.count && (watch.all[i].fd >= 0 || watch.all[i].rank >= 0))
        i++;
    if (fd < 0)
        return;
    if (i == watch.count) {
        close(fd);
        return;
    }
    keep_alive(fd);
    watch.all[i] = (connection){ .fd = fd, .rank = -1 };
}

static void *sleep_on_connections(void *unused)
{
    for (bool stopping = false; !stopping;) {
        for (int i = 0; i < watch.count; i++)
            watch.polls[i] = (struct pollfd){ .fd = watch.all[i].fd, .events = POLLIN };
        watch.polls[watch.count] = (struct pollfd){ .fd = watch.stop, .events = POLLIN };
        watch.polls[watch.count + 1] = (struct pollfd){ .fd = watch.listening, .events = POLLIN };
        poll(watch.polls, (nfds_t)watch.count + 2, -1);
        stopping = watch.polls[watch.count].revents;
        for (int i = 0; i < watch.count && !stopping; i++)
            if (watch.polls[i].revents && !receive(&watch.all[i]))
                end_connection(&watch.all[i]);
        if (watch.listening >= 0 && watch.polls[watch.count + 1].revents)
            accept_connection();
    }
    return unused;
}

/* ------------------------------------------------------------------ beginning and end */

/* The copies in a forked child would keep the connections open after the parent's death. */
static void close_in_child(void)
{
    for (int i = 0; i < watch.count; i++)
        close_socket(&watch.all[i].fd);
    close_socket(&watch.listening);
    close_socket(&watch.stop);
    watch.begun = false;
}

/* After the welcome both sides notice each other's death. It also proves that this is process 0: at an address that process 0 has only
 * on its own machine, somebody else may listen here. */
static bool is_welcomed(int fd)
{
    message m;
    char *at = (char *)&m;
    size_t count = 0;
    struct pollfd p = { .fd = fd, .events = POLLIN };
    while (count < sizeof m && poll(&p, 1, WELCOME_MS) == 1) {
        ssize_t n = recv(fd, at + count, sizeof m - count, 0);
        if (n == 0 || (n < 0 && errno != EAGAIN && errno != EINTR))
            return false;
        count += n > 0 ? (size_t)n : 0;
    }
    return count == sizeof m && m.kind == WELCOME && m.process == (uint32_t)watch.rank;
}

static bool say_hello(const mf_watch_invitation *invitation)
{
    connection *c = watch.all;
    hello h = { .magic = HELLO, .rank = (uint32_t)watch.rank };
    memcpy(h.secret, invitation->secret, sizeof h.secret);
    for (int i = 0; i < MF_WATCH_ADDRESSES && invitation->at[i] && c->rank < 0; i++) {
        c->fd = connect_to(invitation->at[i], invitation->port);
        if (c->fd >= 0 && send_message(c->fd, &h, sizeof h) && is_welcomed(c->fd))
            c->rank = 0;
        else
            close_socket(&c->fd);
    }
    if (c->rank < 0)
        return false;
    keep_alive(c->fd);
    return true;
}

bool mf_watch_begin(int rank, int size, const mf_watch_invitation *invitation, void (*died)(void *context, int process), void *context)
{
    watch.rank = rank;
    watch.size = size;
    watch.missing = size - 1;
    watch.died = died;
    watch.context = context;
    memcpy(watch.secret, invitation->secret, sizeof watch.secret);
    int count = rank ? 1 : size + 8; /* some more for strangers */
    watch.all = mf_calloc((size_t)count, sizeof *watch.all);
    watch.polls = mf_calloc((size_t)count + 2, sizeof *watch.polls);
    if (!watch.all || !watch.polls || !invitation->port || size < 2)
        return size < 2;
    for (int i = 0; i < count; i++)
        watch.all[i] = (connection){ .fd = -1, .rank = -1 };
    watch.count = count;
    watch.stop = eventfd(0, EFD_CLOEXEC);
    static bool forks;
    forks = forks || pthread_atfork(NULL, NULL, close_in_child) == 0;
    watch.begun = watch.stop >= 0 && (!rank || say_hello(invitation)) && forks && mf_thread_make(&watch.thread, sleep_on_connections, NULL);
    return watch.begun;
}

/* Also after a beginning that failed halfway. */
static void free_connections(void)
{
    for (int i = 0; i < watch.count; i++)
        close_socket(&watch.all[i].fd);
    close_socket(&watch.listening);
    close_socket(&watch.stop);
    watch.count = 0;
    mf_free(watch.all);
    mf_free(watch.polls);
    watch.all = NULL;
    watch.polls = NULL;
}

void mf_watch_end(bool well)
{
    message m = { GOODBYE, (uint32_t)watch.rank };
    if (!watch.begun) {
        free_connections();
        return;
    }
    watch.begun = false;
    eventfd_write(watch.stop, 1);
    pthread_join(watch.thread, NULL);
    for (int i = 0; i < watch.count; i++)
        if (well && watch.all[i].fd >= 0)
            send_message(watch.all[i].fd, &m, sizeof m);
    free_connections();
}
