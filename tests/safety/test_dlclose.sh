#!/usr/bin/env bash
# dlclose does not unload the library, with its threads and queued work, and dlopen finds it again: see dlclose/host.c.
set -euo pipefail
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
"$MF_CC" -std=gnu11 -D_GNU_SOURCE -Wall -g ${MF_SANITIZE:+"-fsanitize=$MF_SANITIZE"} -I"$MF_SOURCE_DIR/include" -I"$MF_BUILD_DIR/include" \
    "$MF_SOURCE_DIR/tests/safety/dlclose/host.c" -o "$work/host" -lpthread -ldl
# All libraries that are loaded at run time share about 1.5 KiB of static thread-local memory.
if [ -z "${MF_SANITIZE:-}" ] && command -v readelf > /dev/null; then
    bytes=$(($(readelf -lW "$MF_BUILD_DIR/libmanyfold.so" | awk '$1 == "TLS" { print $6 }')))
    [ "$bytes" -le 512 ] || { echo "$bytes bytes of thread-local memory: keep large things behind a pointer"; exit 1; }
fi
for settings in MF_COMPILE_TIER=background MF_COMPILE_TIER=2 MF_CPU_ISA=avx2; do
    for way in unused idle queued thread; do
        env $settings "$work/host" "$MF_BUILD_DIR/libmanyfold.so" "$way" > "$work/said" 2>&1 && [ ! -s "$work/said" ] ||
            { echo "$way, $settings: status $?"; cat "$work/said"; exit 1; }
    done
done
