/* The functions that control the fake PJRT plugin (fake_plugin.c), which tests look up by name. */
#ifndef TESTS_FAKE_PLUGIN_H
#define TESTS_FAKE_PLUGIN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* FAKE_ALIAS: transfers from the host that copied nothing. FAKE_IN_SIGHT: reads where the host got the address instead of a copy. */
enum fake_way { FAKE_FROM_HOST, FAKE_ALIAS, FAKE_TO_HOST, FAKE_TO_DEVICE, FAKE_IN_SIGHT, FAKE_WAYS };
enum fake_kind { FAKE_ERROR, FAKE_EVENT, FAKE_BUFFER, FAKE_EXECUTABLE, FAKE_CLIENT, FAKE_KINDS };

/* From now on, call number `call` fails and event number `event_number` ends with an error; 0: none. Restarts the counts. */
void fake_plugin_fail(int call, int event_number);
int fake_plugin_calls(void); /* the number of calls, and of events, so far */
int fake_plugin_events(void);
int fake_plugin_awaits(void); /* events that were waited for */
int fake_plugin_compiles(void);
const char *fake_plugin_options(void); /* the create options of the last client: "name kind value, " each */
int fake_plugin_living(int kind);      /* objects that are not destroyed yet */
int fake_plugin_most(int kind);        /* the most at one time since the last call */
/* Delays the events of calls by this time, with a thread; 0: they end at once. */
void fake_plugin_be_late(int nanoseconds);
int fake_plugin_copies(int way); /* since the last call */
/* The key-value store that its last client was given. The functions return the error's code, 0 for none. *count: the room for the value,
 * then its size, of which no more than fits is copied; after an error the value is the error's message. milliseconds < 0: uses try_get. */
bool fake_plugin_has_store(void);
int fake_plugin_put(const void *key, size_t key_size, const void *value, size_t count);
int fake_plugin_get(const void *key, size_t key_size, int milliseconds, void *value, size_t *count);
/* What its function table reports: the version, the table's size (0: the real one), and a function that is missing (-1: none). */
void fake_plugin_version(int major, int minor, size_t table_size, int lacking);
void fake_plugin_platform(const char *platform); /* of clients that are opened from now on; default "fake"; not copied */
bool fake_plugin_has(int function);              /* in its table now */
/* Its attributes: the current and the minimum StableHLO version, three numbers each; by default 1.13.3 and 0.9.0. */
void fake_plugin_stablehlo(const int64_t *current, const int64_t *minimum);

#endif
