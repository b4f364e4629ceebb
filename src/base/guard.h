/* Calls into other people's C++, out of which no exception may come: when memory is out, oneDNN and LLVM throw one, or would end the
 * process. */
#ifndef MF_BASE_GUARD_H
#define MF_BASE_GUARD_H

#include <stdbool.h>

/* fn(context). False: an exception came out of it; what was held between here and there is held for good. */
bool mf_guarded(void (*fn)(void *context), void *context);
/* Before the first call into a library that was opened: what exceptions are is taken from the C++ that came with it. */
void mf_guard_learn(void *library);
/* From where the library would end the process, within mf_guarded on this thread: back to it. Returns only where that cannot be done. By
 * one thread at a time. */
void mf_guard_leave(void);

#endif
