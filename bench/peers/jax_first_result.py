"""bench/first_result.c in JAX: prints x * 2, computed on 8 devices, then the process's peak memory."""
import os
import sys

devices = int(sys.argv[1]) if len(sys.argv) > 1 else 8
os.environ["XLA_FLAGS"] = f"{os.environ.get('XLA_FLAGS', '')} --xla_force_host_platform_device_count={devices}".strip()
os.environ["JAX_PLATFORMS"] = "cpu"

import jax  # noqa: E402
import jax.numpy as jnp  # noqa: E402

print(jax.pmap(lambda x: x * 2)(jnp.arange(float(devices))), flush=True)
with open("/proc/self/status") as status:
    print(next(line for line in status if line.startswith("VmHWM:")), end="")
