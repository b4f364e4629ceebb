/* Symbols: the name of a C function, a function by its name, and what a library does with one. */
#ifndef MF_BASE_TEXT_SYMBOL_H
#define MF_BASE_TEXT_SYMBOL_H

#include <stdbool.h>

/* "loss" for the function that starts at this address, static ones too where the program keeps its symbol table; else
 * "function at 0x…". Immortal. The first time it is slow: it reads the program's file when the dynamic symbols do not know. */
#define MF_SYMBOL_UNKNOWN "function at "
const char *mf_symbol_of(const void *function);
/* *slot, a function pointer, from a library that was opened; false and NULL where it has none of this name. */
bool mf_symbol_bind(void *library, const char *name, void *slot);
/* What a C++ library that was opened makes from now on lives as long as the process: its destructors are not registered. Of a library that
 * writes code or makes statics when it is first used, which is later than the handler of whoever closes it was registered, and so would be
 * pulled away from under those inside when the process ends. */
void mf_symbol_keep_statics(void *library);

#endif
