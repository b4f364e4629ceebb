/* A fake client whose devices have memory that the host cannot access: it is unreadable except during the client's own calls, so host code
 * that touches it crashes. It has as many devices as the CPU. Programs run on the CPU, on copies. A call returns when it is queued; a
 * thread delivers the results device by device, and code that reads a result without waiting aborts the process. */
#ifndef TESTS_FAKE_CLIENT_H
#define TESTS_FAKE_CLIENT_H

#include "array/client.h"

extern const mf_client fake_client;
extern _Atomic int fake_buffers;   /* live buffers */
extern _Atomic int fake_reads;     /* reads of device memory by the host, except for the operands of a run */
void fake_client_register(void);   /* may be called any number of times */
void fake_hold_device(int device); /* delays deliveries to this device, and all later ones, until another device is named (-1: none) */
/* In a program that contains fake_client.c, the environment variable MF_TEST_CLIENT=fake makes it the default client; another value makes
 * the backend of that name the default. */

#endif
