/* A client of devices that the host cannot see into: each has memory of its own, unreadable but within the client's own calls, so code
 * of the host that touches it crashes. It has as many devices as the CPU, and loads programs: they run on the CPU, on copies. A call
 * returns when it is queued; a thread brings the results, device by device, so what reads one without waiting stops the process. */
#ifndef TESTS_FAKE_CLIENT_H
#define TESTS_FAKE_CLIENT_H

#include "array/client.h"

extern const mf_client fake_client;
extern _Atomic int fake_buffers;   /* that live */
extern _Atomic int fake_reads;     /* of memory to the host, but for what a run computes with */
void fake_client_register(void);   /* as often as one likes */
void fake_hold_device(int device); /* what it is to get waits, and what comes after that, until another one is named (-1: none) */
/* With MF_TEST_CLIENT=fake in its environment, a program that holds fake_client.c has it as its default client; with another name, the
 * backend of that name. */

#endif
