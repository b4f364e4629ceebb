/* Bad calls, each with a part of the error's text that a user needs: every row of the reference of pmap that says what bad input gets,
 * every error of sizes and collectives, and those of what maps are composed with. For eight devices. */
#ifndef MF_TESTS_BAD_CALLS_H
#define MF_TESTS_BAD_CALLS_H

#include <manyfold.h>

typedef struct bad_call {
    const char *name;
    mf_value (*call)(void); /* gives an error, at once or when it is waited for; may be made any number of times */
    const char *says;
} bad_call;

extern const bad_call bad_calls[];
extern const int bad_call_count;

#endif
