/* That steady steps take no array memory from the system. How many devices are at work at once, and so how much the caches need, is up to
 * the scheduler: windows of ten steps are tried until one of them takes nothing. Steps that take memory each time never come to that. A
 * device that is not the CPU may let go of what it has read a moment after it has answered, so there what is live is not compared. */
#ifndef TESTS_STEADY_H
#define TESTS_STEADY_H

#include "check.h"

#include <manyfold.h>

#include <stdlib.h>

#if defined(__SANITIZE_ADDRESS__) /* there the allocator keeps nothing, so that every block is watched */
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
