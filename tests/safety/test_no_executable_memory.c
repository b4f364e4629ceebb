/* A process that may not make memory executable (systemd's MemoryDenyWriteExecute, SELinux without execmem) computes the same numbers. */
#include "check.h"

#include <errno.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <manyfold.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#define ARGUMENT(i) (offsetof(struct seccomp_data, args) + 8 * (i))

/* Installs systemd's filter: mprotect must not add the right to execute, mmap must not give it together with the right to write. */
static bool deny_executable_memory(void)
{
    struct sock_filter code[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_mprotect, 0, 3),
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, ARGUMENT(2)),
        BPF_JUMP(BPF_JMP | BPF_JSET | BPF_K, PROT_EXEC, 5, 0),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_mmap, 0, 4),
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, ARGUMENT(2)),
        BPF_STMT(BPF_ALU | BPF_AND | BPF_K, PROT_WRITE | PROT_EXEC),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, PROT_WRITE | PROT_EXEC, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    struct sock_fprog program = { sizeof code / sizeof *code, code };
    return !prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) && !prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program);
}

static mf_value chain(mf_value x)
{
    for (int i = 0; i < 6; i++)
        x = mf_add(mf_mul(mf_sin(x), 1.1), mf_exp(mf_neg(x)));
    return mf_sum(x);
}

TEST(everything_works_on_the_precompiled_tier)
{
    CHECK(deny_executable_memory());
    void *code = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    CHECK(code != MAP_FAILED && mprotect(code, 4096, PROT_READ | PROT_EXEC) != 0);
    mf_value x = mf_ones(MF_SHAPE(500, 500), MF_F32);
    mf_function f = mf_jit(chain);
    double first = mf_item_f64(mf_call(f, x));
    for (int i = 0; i < 60; i++) { /* hot enough to be compiled */
        MF_SCOPE;
        CHECK_NEAR(mf_item_f64(mf_call(f, x)), first, 0);
    }
    CHECK_EQ_INT(mf_compiler_read().loops, 0);
    CHECK_NEAR(mf_item_f64(mf_get(mf_matmul(x, x), 0, 0)), 500, 0);
    mf_value image = mf_ones(MF_SHAPE(4, 32, 32, 16), MF_F32), kernel = mf_ones(MF_SHAPE(3, 3, 16, 16), MF_F32);
    CHECK_NEAR(mf_item_f64(mf_get(mf_conv_general_dilated(image, kernel), 0, 5, 5, 0)), 9 * 16, 0);
    CHECK_EQ_INT(mf_exit_status(), EXIT_SUCCESS);
}
