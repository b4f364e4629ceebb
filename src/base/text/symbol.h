/* Symbols: the name of a C function, a function of a given name in a library, and which function a library's symbol refers to. */
#ifndef MF_BASE_TEXT_SYMBOL_H
#define MF_BASE_TEXT_SYMBOL_H

#include <stdbool.h>

/* The name of the function that starts at this address, for instance "loss"; of static functions too, if the program has a symbol table.
 * Else "function at 0x…". Immortal. Slow the first time if the dynamic symbols do not have it: the program's file is read. */
#define MF_SYMBOL_UNKNOWN "function at "
const char *mf_symbol_of(const void *function);
/* Stores the library's function of this name in *slot, a function pointer. False, and NULL is stored: it has none. */
bool mf_symbol_bind(void *library, const char *name, void *slot);
/* From now on the static objects of an opened C++ library are never destroyed: their destructors are not registered. This is for libraries
 * that generate code or create statics on first use: registered that late, their destructors would run before the exit handlers of the code
 * that closes the library, while other threads are still inside it. */
void mf_symbol_keep_statics(void *library);

#endif
