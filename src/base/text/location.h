/* Where a code address is, in words. */
#ifndef MF_BASE_TEXT_LOCATION_H
#define MF_BASE_TEXT_LOCATION_H

#include "base/text/string.h"

/* "file:line" by addr2line where that is installed and knows, else "symbol+0x12" or "program+0x12"; NULL when nothing is known.
 * Immortal and remembered, so an address is looked up once. Slow the first time: only for text that is about to be read. */
const char *mf_location_of(const void *return_address);

/* A location that goes to another process, in a text: where that runs the same build it finds the line when the text is read, and else says
 * "program+0x12". Costs no look-up here. Where nothing is known nothing is added, not even what comes before and after it. */
void mf_location_encode(mf_text *t, const char *before, const void *return_address, const char *after);
void mf_location_decode(mf_text *t, const char *text, size_t count); /* any text: each encoded location in words, the rest as it is */

#endif
