/* Arbitrary bytes as the text of a plan. A plan that parses must survive a round trip as the same text, and the verifier must not crash on
 * it. */
#include "fuzz/targets.h"

#include "runtime/plan/plan.h"

#include <stdlib.h>
#include <string.h>

static void round_trip(const mf_plan *plan)
{
    mf_text once = { 0 }, again = { 0 };
    mf_error_object *error = NULL;
    mf_plan_print(&once, plan);
    mf_plan *read = mf_plan_parse(once.at, &error);
    fuzz_must(read);
    mf_plan_print(&again, read);
    fuzz_must(!strcmp(once.at, again.at));
    mf_error_ignore(mf_plan_verify(plan));
    mf_plan_free(read);
    mf_text_free(&once);
    mf_text_free(&again);
}

void fuzz_plan(const uint8_t *data, size_t size)
{
    char *text = calloc(size + 1, 1);
    if (!text)
        return;
    memcpy(text, data, size);
    mf_error_object *error = NULL;
    mf_plan *plan = mf_plan_parse(text, &error);
    fuzz_must(!plan != !error);
    mf_error_ignore(error);
    if (plan)
        round_trip(plan);
    mf_plan_free(plan);
    free(text);
}
