/* Process 0's side of the connections that report deaths, including connections from strangers. */
#include "check.h"

#include "comm/watch.h"

#include <netinet/in.h>
#include <poll.h>
#include <pthread.h>
#include <sys/socket.h>
#include <unistd.h>

static _Atomic int dead[4], deaths;

static void died(void *context, int process)
{
    (void)context;
    dead[process]++;
    deaths++;
}

typedef struct greeting {
    uint32_t magic, rank;
    unsigned char secret[16];
} greeting;

static mf_watch_invitation invitation;

static int knock(void)
{
    struct sockaddr_in at = { .sin_family = AF_INET, .sin_addr.s_addr = invitation.at[0], .sin_port = htons((uint16_t)invitation.port) };
    int fd = socket(AF_INET, SOCK_STREAM, 0);
    if (connect(fd, (struct sockaddr *)&at, sizeof at) == 0)
        return fd;
    close(fd);
    return -1;
}

static int greet(uint32_t magic, uint32_t rank, unsigned char twist)
{
    greeting g = { .magic = magic, .rank = rank };
    int fd = knock();
    memcpy(g.secret, invitation.secret, sizeof g.secret);
    g.secret[15] ^= twist;
    CHECK(fd >= 0 && send(fd, &g, sizeof g, MSG_NOSIGNAL) == (ssize_t)sizeof g);
    return fd;
}

/* The kind of the next message; 0 if the connection is closed. */
static uint32_t hear(int fd)
{
    uint32_t w[2] = { 99, 0 };
    ssize_t n = recv(fd, w, sizeof w, MSG_WAITALL);
    return n > 0 ? w[0] : 0;
}

static void wait_for_deaths(int count)
{
    for (int i = 0; i < 5000 && deaths < count; i++)
        usleep(1000);
    CHECK_EQ_INT(deaths, count);
}

enum { HELLO = 0x6d664849, GOODBYE = 1, DEATH = 2, WELCOME = 3 };

TEST(only_its_own_job_is_heard)
{
    REQUIRE(mf_watch_invite(true, &invitation));
    CHECK_EQ_UINT(invitation.at[0], htonl(INADDR_LOOPBACK));
    REQUIRE(mf_watch_begin(0, 4, &invitation, died, NULL));

    /* strangers are disconnected */
    CHECK_EQ_INT(hear(greet(HELLO, 1, 1)), 0);
    CHECK_EQ_INT(hear(greet(HELLO + 1, 1, 0)), 0);
    CHECK_EQ_INT(hear(greet(HELLO, 0, 0)), 0);
    CHECK_EQ_INT(hear(greet(HELLO, 4, 0)), 0);
    int silent = knock();

    int first = greet(HELLO, 1, 0);
    CHECK_EQ_INT(hear(first), WELCOME);
    CHECK_EQ_INT(hear(greet(HELLO, 1, 0)), 0); /* only once */
    int second = greet(HELLO, 2, 0), third = greet(HELLO, 3, 0);
    CHECK_EQ_INT(hear(second), WELCOME);
    CHECK_EQ_INT(hear(third), WELCOME);

    /* now all processes are connected */
    CHECK_EQ_INT(hear(silent), 0);
    CHECK_EQ_INT(knock(), -1);
    CHECK_EQ_INT(deaths, 0);

    /* a goodbye is no death; a close without a goodbye, or nonsense, is one; the others are told */
    const uint32_t goodbye[2] = { GOODBYE, 1 }, nonsense[2] = { 77, 1 };
    CHECK(send(first, goodbye, sizeof goodbye, 0) == (ssize_t)sizeof goodbye);
    close(first);
    close(second);
    wait_for_deaths(1);
    CHECK_EQ_INT(dead[2], 1);
    CHECK_EQ_INT(hear(third), DEATH);
    CHECK(send(third, nonsense, sizeof nonsense, 0) == (ssize_t)sizeof nonsense);
    wait_for_deaths(2);
    CHECK_EQ_INT(dead[3], 1);
    mf_watch_end(true);
    CHECK_EQ_INT(deaths, 2);
}

/* Process 0 dies: a process that was welcomed, as all that have joined, is told; one that was not welcomed has not joined. */
typedef struct doorkeeper {
    int listening;
    bool welcomes;
} doorkeeper;

static void *dies_at_the_door(void *context)
{
    const doorkeeper *d = context;
    greeting g;
    const uint32_t welcome[2] = { WELCOME, 2 };
    int fd = accept(d->listening, NULL, NULL);
    CHECK_EQ_INT(recv(fd, &g, sizeof g, MSG_WAITALL), sizeof g);
    usleep(50000);
    if (d->welcomes)
        CHECK(send(fd, welcome, sizeof welcome, MSG_NOSIGNAL) == (ssize_t)sizeof welcome);
    close(fd);
    return NULL;
}

static void join_and_lose(bool welcomes)
{
    struct sockaddr_in at = { .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
    socklen_t length = sizeof at;
    doorkeeper d = { socket(AF_INET, SOCK_STREAM, 0), welcomes };
    pthread_t thread;
    REQUIRE(bind(d.listening, (struct sockaddr *)&at, sizeof at) == 0 && listen(d.listening, 1) == 0);
    REQUIRE(getsockname(d.listening, (struct sockaddr *)&at, &length) == 0);
    mf_watch_invitation i = { .at = { htonl(INADDR_LOOPBACK) }, .port = ntohs(at.sin_port) };
    REQUIRE(pthread_create(&thread, NULL, dies_at_the_door, &d) == 0);
    deaths = dead[0] = 0;
    CHECK_EQ_INT(mf_watch_begin(2, 4, &i, died, NULL), welcomes);
    wait_for_deaths(welcomes);
    CHECK_EQ_INT(dead[0], welcomes);
    pthread_join(thread, NULL);
    close(d.listening);
    mf_watch_end(true);
}

TEST(a_death_soon_after_the_welcome) { join_and_lose(true); }
TEST(a_death_before_the_welcome) { join_and_lose(false); }
