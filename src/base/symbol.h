/* Symbols: the name of a C function, a function by its name, and what a library means by one. */
#ifndef MF_BASE_SYMBOL_H
#define MF_BASE_SYMBOL_H

#include <stdbool.h>

/* "loss" for the function that starts at this address, static ones too where the program keeps its symbol table; else
 * "function at 0x…". Immortal. Slow (reads the program's file when the dynamic symbols do not know): once a function. */
const char *mf_symbol_of(const void *function);
/* *slot, a function pointer, from a library that was opened; false and NULL where it has none of this name. */
bool mf_symbol_bind(void *library, const char *name, void *slot);
/* What a library that was opened means by this C function is another one from now on. False: it does not call it, or it cannot be done. */
bool mf_symbol_rebind(void *library, const char *name, const void *function);

#endif
