/* Whether the calling thread's stack has room: for the arrays that kernels keep there, for more nesting. */
#ifndef MF_BASE_ROOM_H
#define MF_BASE_ROOM_H

#include <stdbool.h>
#include <stddef.h>

#define MF_KERNEL_STACK ((size_t)8 << 20) /* of the library's own threads, which have room always */

/* False also on a stack that is not the thread's own (a coroutine's). Measured at a thread's first call, then one comparison. */
bool mf_stack_has_room(void);
/* Whether so little is left of the thread's own stack that functions may not call one another deeper. */
bool mf_stack_ends(void);

#endif
