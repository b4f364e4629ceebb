/* Calls into third-party C++ that no exception leaves: without memory, oneDNN and LLVM throw or would end the process. */
#ifndef MF_BASE_GUARD_H
#define MF_BASE_GUARD_H

#include <stdbool.h>

/* Calls fn(context). False: an exception left it; whatever the frames in between held (locks, memory) stays held. */
bool mf_guarded(void (*fn)(void *context), void *context);
/* Call before the first call into a library that was opened: finds the C++ runtime's exception functions, which came with the library. */
void mf_guard_learn(void *library);
/* For a place where the library would end the process: returns control to the innermost mf_guarded of this thread. Returns only if that is
 * impossible. One thread at a time may call it. */
void mf_guard_leave(void);

#endif
