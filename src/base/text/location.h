/* Code addresses as text. */
#ifndef MF_BASE_TEXT_LOCATION_H
#define MF_BASE_TEXT_LOCATION_H

#include "base/text/string.h"

/* "file:line" if addr2line is installed and knows, else "symbol+0x12" or "program+0x12"; NULL when nothing is known. The text is immortal
 * and cached, so each address is looked up once. The first time is slow: call it only for text that is about to be read. */
const char *mf_location_of(const void *return_address);

/* Adds a location in a form that can be sent to another process. If that process runs the same build, it finds the line when the text is
 * read; else it shows "program+0x12". No look-up happens here. If nothing is known of the address, neither it nor `before` and `after` are
 * added. */
void mf_location_encode(mf_text *t, const char *before, const void *return_address, const char *after);
void mf_location_decode(mf_text *t, const char *text, size_t count); /* copies a text, replacing each encoded location by a readable one */

#endif
