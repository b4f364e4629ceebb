/* Where a code address is, in words. */
#ifndef MF_BASE_PLACE_H
#define MF_BASE_PLACE_H

/* "file:line" by addr2line where that is installed and knows, else "symbol+0x12" or "program+0x12"; NULL when nothing is known.
 * Immortal and remembered, so an address is looked up once. Slow the first time: only for text that is about to be read. */
const char *mf_place_of(const void *return_address);

#endif
