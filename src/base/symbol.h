/* The name of a C function. */
#ifndef MF_BASE_SYMBOL_H
#define MF_BASE_SYMBOL_H

/* "loss" for the function that starts at this address, static ones too where the program keeps its symbol table; else
 * "function at 0x…". Immortal. Slow (reads the program's file when the dynamic symbols do not know): once a function. */
const char *mf_symbol_of(const void *function);

#endif
