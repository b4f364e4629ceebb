/* The opt-in checks of what programs compute: MF_CHECK in the environment, or mf_set_checks. */
#ifndef MF_TRACE_CHECKS_CHECK_LIST_H
#define MF_TRACE_CHECKS_CHECK_LIST_H

#include <stdatomic.h>
#include <stdbool.h>

typedef enum mf_check_kind { MF_CHECK_NAN, MF_CHECK_KEYS, MF_CHECK_REPLICATED, MF_CHECK_COUNT } mf_check_kind;
#define MF_CHECKS_UNREAD (1u << MF_CHECK_COUNT) /* the environment has not been read yet */
extern _Atomic unsigned mf_checks_on;           /* one bit per check */
bool mf_check_read(mf_check_kind kind);         /* after reading the environment, if that has not happened */
/* Every call asks this; it costs one load. */
static inline bool mf_check_is_on(mf_check_kind kind)
{
    unsigned on = atomic_load_explicit(&mf_checks_on, memory_order_relaxed);
    return __builtin_expect(on & (MF_CHECKS_UNREAD | 1u << kind), 0) && mf_check_read(kind);
}

#endif
