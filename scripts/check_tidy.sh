#!/usr/bin/env bash
# check_tidy.sh BUILD [file…]: clang-tidy over the library, with BUILD's compile commands (made by clang).
# A file is checked again only if its preprocessed text or .clang-tidy has changed; a check takes at most MF_TIDY_SECONDS (120).
set -uo pipefail
cd "$(dirname "$0")/.."
build=$1
shift
export build stamps=$build/tidy limit=${MF_TIDY_SECONDS:-120}
mkdir -p "$stamps"

one() {
    command=$(python3 - "$build/compile_commands.json" "$PWD/$1" <<'PYTHON'
import json, re, sys
for entry in json.load(open(sys.argv[1])):
    if entry["file"] == sys.argv[2]:
        print("cd '%s' && %s" % (entry["directory"], re.sub(r" -o \S+| -c(?= )", "", entry["command"]).replace(" -g ", " ") + " -E -P"))
        break
PYTHON
    )
    [ -n "$command" ] || return 0 # not part of this build: for another instruction set
    sum=$( (cat .clang-tidy; bash -c "$command") 2>/dev/null | sha256sum | cut -c1-32)
    stamp=$stamps/$(tr / . <<<"$1")
    [ "$(cat "$stamp" 2>/dev/null)" != "$sum" ] || return 0
    output=$(timeout "$limit" clang-tidy --quiet -p "$build" "$1" 2>&1)
    status=$?
    if [ $status = 0 ]; then
        echo "$sum" >"$stamp"
    elif [ $status = 124 ]; then
        echo "check_tidy: $1: not finished after $limit s, left out" >&2
        return 0
    else
        grep -vE '^[0-9]+ warnings? (generated|treated)|^Suppressed|^Use -header' <<<"$output"
        return 1
    fi
}
export -f one
if [ $# -gt 0 ]; then printf '%s\0' "$@"; else find src -name '*.c' -print0; fi |
    xargs -0 -r -n 1 -P "$(nproc)" bash -c 'one "$1"' one || { echo "check_tidy: see above" >&2; exit 1; }
