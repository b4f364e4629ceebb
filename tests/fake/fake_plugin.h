/* What steers the fake PJRT plugin (fake_plugin.c), by the names of its functions. */
#ifndef TESTS_FAKE_PLUGIN_H
#define TESTS_FAKE_PLUGIN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* FAKE_ALIAS: of those from the host, the ones that copied nothing. FAKE_IN_SIGHT: where the host was told the address instead. */
enum fake_way { FAKE_FROM_HOST, FAKE_ALIAS, FAKE_TO_HOST, FAKE_TO_DEVICE, FAKE_IN_SIGHT, FAKE_WAYS };
enum fake_kind { FAKE_ERROR, FAKE_EVENT, FAKE_BUFFER, FAKE_EXECUTABLE, FAKE_CLIENT, FAKE_KINDS };

/* From now on the call of this number fails, and the event of that number brings an error; 0: none. The counts begin again. */
void fake_plugin_fail(int call, int event_number);
int fake_plugin_calls(void); /* and events: so far */
int fake_plugin_events(void);
int fake_plugin_awaits(void); /* of events that somebody waited for */
int fake_plugin_compiles(void);
const char *fake_plugin_options(void); /* of the last client: "name kind value, " each */
int fake_plugin_living(int kind);      /* what it gave and nobody has destroyed */
int fake_plugin_most(int kind);        /* that lived at a time, since it was asked last */
/* Events of calls come so much later, by a thread; 0: at once, when all have come. */
void fake_plugin_be_late(int nanoseconds);
int fake_plugin_copies(int way); /* since it was asked last */
/* The store of keys that its last client was given; each call gives its error's code, 0 where there is none. *count: the room for the value,
 * then its size, of which no more than fits is copied; where there is an error the value is its words. milliseconds < 0: by try_get. */
bool fake_plugin_has_store(void);
int fake_plugin_put(const void *key, size_t key_size, const void *value, size_t count);
int fake_plugin_get(const void *key, size_t key_size, int milliseconds, void *value, size_t *count);
/* What its table says: the version, its size (0: what it is), and a function that it lacks (-1: none). */
void fake_plugin_version(int major, int minor, size_t table_size, int lacking);
void fake_plugin_platform(const char *platform); /* of the clients that are opened from now on: "fake" at first; it is not copied */
bool fake_plugin_has(int function);              /* in its table, now */
/* Its attributes: the StableHLO that it has, and the oldest that it takes, three numbers each; 1.13.3 and 0.9.0 at first. */
void fake_plugin_stablehlo(const int64_t *current, const int64_t *minimum);

#endif
