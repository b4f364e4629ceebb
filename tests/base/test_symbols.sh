#!/usr/bin/env bash
# Every function that the public headers declare is exported by the shared library, so whatever compiles also links.
set -euo pipefail
command -v gcc >/dev/null || { echo "SKIP: there is no gcc, which lists prototypes"; exit 0; }
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
echo '#include <manyfold.h>' > "$work/all.c"
gcc -std=gnu11 -I"$MF_SOURCE_DIR/include" -I"$MF_BUILD_DIR/include" -aux-info "$work/prototypes" -fsyntax-only "$work/all.c"
# mf_no_value_ is what a wrong argument would call; a static assertion comes first
grep -F 'include/manyfold' "$work/prototypes" | grep -v '\*/ static' | grep -oE '\*?\(?mf_[A-Za-z0-9_]+\)? \(' | grep -oE 'mf_[A-Za-z0-9_]+' |
    grep -vx mf_no_value_ | sort -u > "$work/declared"
nm -D --defined-only "$MF_BUILD_DIR/libmanyfold.so" | awk '$2 ~ /[A-Zu]/ { print $3 }' | sort -u > "$work/exported"
[ "$(wc -l < "$work/declared")" -gt 300 ] || { echo "only $(wc -l < "$work/declared") declarations were found"; exit 1; }
missing=$(comm -23 "$work/declared" "$work/exported")
[ -z "$missing" ] || { echo "declared, but not in the library:"; echo "$missing"; exit 1; }
# and nothing in it tells where it was built
! strings -a "$MF_BUILD_DIR/libmanyfold.so" | grep -F "$MF_SOURCE_DIR/" || { echo "the library holds paths of the machine that built it"; exit 1; }
