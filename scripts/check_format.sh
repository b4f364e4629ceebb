#!/usr/bin/env bash
# Checks the formatting: lists the files that differ from .clang-format; with --apply, formats them.
set -euo pipefail
cd "$(dirname "$0")/.."
sources() { find src include examples tests bench \( -name '*.c' -o -name '*.h' -o -name '*.cpp' \) -print0 2>/dev/null || true; }
if [ "${1:-}" = --apply ]; then
    sources | xargs -0 -r -n 16 -P "$(nproc)" clang-format -i
    exit
fi
different=$(sources | xargs -0 -r -n 16 -P "$(nproc)" clang-format --dry-run 2>&1 | sed -n 's/^\([^: ]*\):[0-9]*:[0-9]*: warning: .*/\1/p' | sort -u)
if [ -n "$different" ]; then
    echo "check_format: these differ from .clang-format; run \`make format\`:" >&2
    echo "$different" >&2
    exit 1
fi
