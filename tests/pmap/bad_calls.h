/* Invalid calls, each with a part of the error message that a user needs: every row of the reference of pmap about invalid input, every
 * error of sizes and collectives, and those of the compositions of maps. For eight devices. */
#ifndef MF_TESTS_BAD_CALLS_H
#define MF_TESTS_BAD_CALLS_H

#include <manyfold.h>

typedef struct bad_call {
    const char *name;
    mf_value (*call)(void); /* returns an error, at once or when it is waited for; may be called repeatedly */
    const char *says;
} bad_call;

extern const bad_call bad_calls[];
extern const int bad_call_count;

#endif
