#!/usr/bin/env bash
# Every function that the public headers declare returns an error in the child of a fork: see forks/children.c. New functions are included
# automatically.
set -euo pipefail
command -v gcc >/dev/null || { echo "SKIP: there is no gcc, which lists prototypes"; exit 0; }
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
here=$MF_SOURCE_DIR/tests/safety/forks
echo '#include <manyfold.h>' > "$work/all.c"
gcc -std=gnu11 -I"$MF_SOURCE_DIR/include" -I"$MF_BUILD_DIR/include" -aux-info "$work/prototypes" -fsyntax-only "$work/all.c"
case "${MF_SANITIZE:-}" in
    thread) checked=-DMF_SANITIZED_THREADS ;;
    *address*) # in a child the library gives nothing back
        checked=-DMF_SANITIZED_ADDRESS
        export ASAN_OPTIONS=${ASAN_OPTIONS:+$ASAN_OPTIONS:}detect_leaks=0
        ;;
    *) checked= ;;
esac
"$here/functions.py" < "$work/prototypes" > "$work/functions.def"
"$MF_CC" -std=gnu11 -D_GNU_SOURCE -w -g ${MF_SANITIZE:+"-fsanitize=$MF_SANITIZE"} $checked \
    -I"$MF_SOURCE_DIR/include" -I"$MF_BUILD_DIR/include" -I"$work" "$here/children.c" -o "$work/children" \
    -L"$MF_BUILD_DIR" -lmanyfold -Wl,-rpath,"$MF_BUILD_DIR" -lm -lpthread -ldl
for backend in ${MF_TEST_BACKENDS:-native reference}; do
    [ "$backend" = reference ] || ! grep -q '^MF_NATIVE:.*=OFF' "$MF_BUILD_DIR/CMakeCache.txt" || continue
    echo "$backend"
    (cd "$work" && MF_BACKEND=$backend ./children)
done
