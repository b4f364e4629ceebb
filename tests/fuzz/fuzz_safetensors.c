/* The target `safetensors` (see targets.h) as libFuzzer wants it: make fuzz. */
#include "fuzz/targets.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    fuzz_safetensors(data, size);
    return 0;
}
