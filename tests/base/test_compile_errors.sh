#!/usr/bin/env bash
# A wrong argument is told of in few lines that point at it: no trace through the header's macros, and the words say what is wanted.
set -uo pipefail
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
status=0

# wrong NAME WORDS CODE: each compiler refuses CODE, with WORDS (a regular expression) in its only error, at its line, in at most 20 lines
wrong() {
    printf '#include <manyfold.h>\n%s\n' "$3" > "$work/$1.c"
    for compiler in gcc clang; do
        command -v "$compiler" >/dev/null || continue
        said=$("$compiler" -std=gnu11 -Wall -Wextra -fdiagnostics-color=never -I"$MF_SOURCE_DIR/include" -I"$MF_BUILD_DIR/include" -c "$work/$1.c" -o "$work/$1.o" 2>&1)
        lines=$(wc -l <<<"$said")
        limit=20 most=1
        [ "$1" = missing ] && most=2 # the name without its macro is a function
        [ "$compiler" = clang ] && limit=28 # it shows macros of system headers too
        if [ ! -e "$work/$1.o" ] && [ "$(grep -c "error:" <<<"$said")" -le $most ] && grep -qE "$1\.c:2:[0-9]+: (fatal )?error: .*$2" <<<"$said" && [ "$lines" -le $limit ]; then
            continue
        fi
        echo "$1 with $compiler ($lines lines) should say: $2"
        head -n 12 <<<"$said"
        status=1
    done
}

wrong misspelt_option "axes" 'mf_value f(mf_value x) { return mf_sum(x, .axes = 0); }'
wrong pointer "this argument is no value, number, string or slice" 'mf_value f(double *p, mf_value x) { return mf_add(x, p); }'
wrong nested_pointer "this argument is no value, number, string or slice" 'mf_value f(double *p, mf_value x) { return mf_add(mf_mul(x, mf_sub(p, 1)), 2); }'
wrong function "this argument is no value, number, string or slice" 'static mf_value g(mf_value a) { return a; } mf_value f(void) { return mf_add(g, 1); }'
wrong too_many "more than 32 items" 'mf_value f(void) { return mf_dict("a",1,"b",1,"c",1,"d",1,"e",1,"f",1,"g",1,"h",1,"i",1,"j",1,"k",1,"l",1,"m",1,"n",1,"o",1,"p",1,"q",1); }'
wrong many_nested "more than 32 items" 'mf_value f(mf_value x) { return mf_add(mf_call(mf_neg, mf_tuple(0,1,2,3,4,5,6,7,8,9,0,1,2,3,4,5,6,7,8,9,0,1,2,3,4,5,6,7,8,9,0,1,2,3)), x); }'
wrong axis_list "(mf_ints|long int)" 'mf_value f(mf_value x) { return mf_mean(x, .axis = MF_INTS(0, 1)); }'
wrong signature "no C function that takes up to 16 mf_values" 'static double g(double x) { return x; } mf_value f(mf_value x) { return mf_call(mf_jit(g), x); }'
wrong transform "no C function that takes up to 16 mf_values" 'mf_value f(mf_value x) { return mf_call(mf_grad(mf_vmap(x)), x); }'
wrong closure "a closure.{1,2}s C function takes a void" 'static mf_value g(mf_value a, mf_value b) { return mf_add(a, b); } mf_value f(mf_value x) { int c = 1; return mf_call(mf_closure(g, &c), x); }'
wrong operator "invalid operands" 'mf_value f(mf_value a, mf_value b) { return a + b; }'
wrong missing "(requires 2 arguments|too few arguments)" 'mf_value f(mf_value x) { return mf_add(x); }'
exit $status
