/* A client of devices that the host cannot see into: its memory is unreadable but within the client's own calls, so code of the host that
 * touches it crashes. It has as many devices as the CPU, and loads programs: they run on the CPU, on copies. */
#ifndef TESTS_FAKE_CLIENT_H
#define TESTS_FAKE_CLIENT_H

#include "array/client.h"

extern const mf_client fake_client;
extern _Atomic int fake_buffers; /* that live */
void fake_client_register(void); /* as often as one likes */
/* With MF_TEST_CLIENT=fake in its environment, a program that holds fake_client.c has it as its default client. */

#endif
