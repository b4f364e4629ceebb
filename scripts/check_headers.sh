#!/usr/bin/env bash
# Checks that every public header compiles by itself without warnings, as C11 and as C++17, with each installed compiler.
set -uo pipefail
cd "$(dirname "$0")/.."
build=${MF_BUILD_DIR:-build}
status=0

compiles() { # compiler language standard header
    command -v "$1" >/dev/null || return 0
    output=$(echo "#include <$4>" | "$1" -x "$2" -std="$3" -pedantic -Wall -Wextra -Werror -fsyntax-only -DMF_CHECK_HEADERS_ -Iinclude -I"$build/include" - 2>&1) && return
    echo "<$4> as $3 with $1:"
    head -n 8 <<<"$output"
    status=1
}

for header in $(cd include && find . -name '*.h' | sed 's,^\./,,' | sort); do
    compiles gcc c c11 "$header"
    compiles clang c c11 "$header"
    compiles g++ c++ c++17 "$header"
    compiles clang++ c++ c++17 "$header"
done
exit $status
