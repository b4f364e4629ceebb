/* The opt-in checks of what programs compute: MF_CHECK in the environment, or mf_set_checks. */
#ifndef MF_TRACE_CHECK_LIST_H
#define MF_TRACE_CHECK_LIST_H

#include <stdbool.h>

typedef enum mf_check_kind { MF_CHECK_NAN, MF_CHECK_KEYS, MF_CHECK_REPLICATED, MF_CHECK_COUNT } mf_check_kind;
bool mf_check_is_on(mf_check_kind kind);

#endif
