/* Checks that steady training steps take no array memory from the system. The scheduler determines how many devices run at the same time,
 * and so how much memory the caches need; therefore windows of ten steps are tried until one window takes no memory. Steps that take memory
 * every time never pass. A device other than the CPU may release its operands shortly after it has answered, so its live memory is not
 * compared. */
#ifndef TESTS_STEADY_H
#define TESTS_STEADY_H

#include "check.h"

#include <manyfold.h>

#include <stdlib.h>

#if defined(__SANITIZE_ADDRESS__) /* there the allocator caches nothing, so that the sanitizer sees every block */
enum { STEADY_WINDOWS = 1 };
#else
enum { STEADY_WINDOWS = 50 };
#endif

#define CHECK_STEADY(step)                                                                               \
    do {                                                                                                 \
        mf_memory_stats_t before_, after_ = mf_memory_stats();                                           \
        int window_ = 0;                                                                                 \
        do {                                                                                             \
            before_ = after_;                                                                            \
            for (int i_ = 0; i_ < 10; i_++)                                                              \
                step;                                                                                    \
            after_ = mf_memory_stats();                                                                  \
        } while (after_.system_allocations != before_.system_allocations && ++window_ < STEADY_WINDOWS); \
        CHECK(STEADY_WINDOWS == 1 || after_.system_allocations == before_.system_allocations);           \
        CHECK(getenv("MF_TEST_CLIENT") || after_.live_bytes == before_.live_bytes);                      \
    } while (0)

#endif
