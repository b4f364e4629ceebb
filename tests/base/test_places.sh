#!/usr/bin/env bash
# Errors name the user's line, also where the library's function is written on other public ones, and where the compiler has made the call
# a jump; with the shared library and with the archive.
set -euo pipefail
command -v addr2line >/dev/null || { echo "SKIP: there is no addr2line"; exit 0; }
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cat > "$work/places.c" <<'C'
#include <manyfold.h>
#include <stdio.h>
#include <string.h>

static int failures;

static void expect(mf_value v, int line)
{
    char wanted[32];
    snprintf(wanted, sizeof wanted, "places.c:%d", line);
    const char *place = mf_error_place(v);
    if (mf_is_error(v) && place && strstr(place, wanted))
        return;
    printf("expected %s, not %s (%s)\n", wanted, place ? place : "no place", mf_error(v));
    failures++;
}

enum { BAD = __LINE__ + 4, JUMPS = __LINE__ + 6, INSIDE = __LINE__ + 10 };

static mf_value bad(mf_value x)
{
    return mf_mean(x, .axis = 7);
}
static mf_value jumps(mf_value x) { return mf_add(x, mf_ones(MF_SHAPE(3), MF_F32)); }

static mf_value inside(mf_value x)
{
    mf_value y = mf_mean(x, .axis = 9);
    return mf_tuple(y, y);
}

int main(void)
{
    mf_value x = mf_ones(MF_SHAPE(2, 2), MF_F32);
    expect(mf_mean(x, .axis = 5), __LINE__);
    expect(mf_sum(x, .axis = 5), __LINE__);
    expect(mf_call(mf_jit(inside), x), INSIDE);
    expect(mf_call(mf_jit(jumps), x), JUMPS);
    expect(mf_call(mf_jit(bad), x), BAD);
    return failures != 0;
}
C
sanitize=${MF_SANITIZE:+-fsanitize=$MF_SANITIZE}
for level in -O0 -O2; do
    "$MF_CC" -std=c11 -g $level $sanitize -I"$MF_SOURCE_DIR/include" "$work/places.c" -o "$work/shared" "$MF_BUILD_DIR/libmanyfold.so" -Wl,-rpath,"$MF_BUILD_DIR"
    "$work/shared" || { echo "failed: shared, $level"; exit 1; }
    "$MF_CC" -std=c11 -g $level $sanitize -I"$MF_SOURCE_DIR/include" "$work/places.c" -o "$work/static" "$MF_BUILD_DIR/libmanyfold.a" -lz -lzip -lm -ldl -pthread
    "$work/static" || { echo "failed: static, $level"; exit 1; }
done
