#!/usr/bin/env bash
# readme_snippets.sh PAGE.md…: compiles and runs every ```c or ```cpp block that contains `int main`, and compares its output with the ```text
# block that directly follows it. If there is no such block, the program must exit with 0.
# The library is the one in MF_BUILD_DIR (default: build).
set -uo pipefail
root=$(cd "$(dirname "$0")/.." && pwd)
build=${MF_BUILD_DIR:-$root/build}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
status=0
count=0
sanitize=${MF_SANITIZE:+-fsanitize=$MF_SANITIZE}

for page in "$@"; do
    rm -f "$work"/*
    # block i becomes $work/i.c or i.cpp; i.line has its line number, i.text the expected output
    awk -v work="$work" '
        !inside && /^```/ {
            inside = 1; kind = substr($0, 4); body = ""; start = NR + 1
            next
        }
        inside && /^```/ {
            inside = 0
            if ((kind == "c" || kind == "cpp") && body ~ /int main\(/) {
                n++; printf "%s", body > (work "/" n "." kind); print start > (work "/" n ".line"); fresh = 1
            } else {
                if (kind == "text" && fresh) printf "%s", body > (work "/" n ".text")
                fresh = 0
            }
            next
        }
        inside { body = body $0 "\n"; next }
        /[^ \t]/ && fresh { fresh = /:$/ }    # a lead-in such as "prints:" may stand between, other prose may not
    ' "$page"
    for source in "$work"/*.c "$work"/*.cpp; do
        [ -f "$source" ] || continue
        name=${source%.*}
        compiler="${MF_CC:-cc} -std=c11"
        if [[ "$source" = *.cpp ]]; then
            command -v c++ >/dev/null || continue
            compiler="c++ -std=c++17"
        fi
        place=$page:$(cat "$name.line")
        count=$((count + 1))
        if ! $compiler -pedantic -Wall -Wextra -Werror $sanitize -I"$root/include" -I"$build/include" "$source" -o "$name" -L"$build" -lmanyfold -lm -Wl,-rpath,"$build"; then
            echo "$place: does not compile"
            status=1
        elif ! (cd "$work" && timeout 120 "$name" >"$name.printed" </dev/null); then
            echo "$place: fails; it printed:"
            cat "$name.printed"
            status=1
        elif [ -f "$name.text" ] && ! diff -u --label expected --label printed "$name.text" "$name.printed"; then
            echo "$place: prints something else"
            status=1
        fi
    done
done
echo "$count snippets"
exit $status
