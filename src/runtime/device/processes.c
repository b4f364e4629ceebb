/* Which processes there are, and which devices each of them has. Invariant: the devices are numbered process by process. */
#include "runtime/comm.h"

#include "base/string.h"

#include <manyfold/device.h>

static _Thread_local mf_comm *of_thread;

mf_comm *mf_comm_current(void) { return of_thread; }

void mf_comm_set(mf_comm *c) { of_thread = c; }

int mf_process_index(void) { return of_thread ? of_thread->rank : 0; }

int mf_process_count(void) { return of_thread ? of_thread->size : 1; }

int mf_comm_owner(const mf_comm *c, int device)
{
    int low = 0, high = c->size; /* first_device[low] <= device < first_device[high] */
    if (device < c->first_device[0] || device >= c->first_device[c->size])
        return -1;
    while (high - low > 1) {
        int middle = low + (high - low) / 2;
        *(device < c->first_device[middle] ? &high : &low) = middle;
    }
    return low;
}

void mf_comm_abort(mf_comm *c, uint64_t call, mf_error_object *why)
{
    const char *place = mf_error_place_text(why);
    mf_text t = { 0 };
    mf_text_add(&t, "%s%s%s%s", why->message, place ? " (" : "", place ? place : "", place ? ")" : "");
    c->abort(c, call, t.at && !t.failed ? t.at : why->message);
    mf_text_free(&t);
}
