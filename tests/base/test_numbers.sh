#!/usr/bin/env bash
# Every public function accepts C numbers as values: a program that calls each of them with numbers compiles without a warning.
set -uo pipefail
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
python3 "$MF_SOURCE_DIR/tests/base/numbers.py" > "$work/numbers.c" || exit 1
status=0
for compiler in gcc clang; do
    command -v "$compiler" >/dev/null || continue
    "$compiler" -std=gnu11 -Wall -Wextra -Werror -I"$MF_SOURCE_DIR/include" -I"$MF_BUILD_DIR/include" -fsyntax-only "$work/numbers.c" || status=1
done
exit $status
