#!/usr/bin/env bash
# A wrong argument is told of in few lines that point at it: no trace through the header's macros, and the words say what is wanted.
set -uo pipefail
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
status=0

# refused NAME WORDS CODE COMPILER STANDARD SUFFIX LINES ERRORS: the compiler refuses CODE, with WORDS (a regular expression) in an error at
# its line, the first of so many at most, in so many lines at most
refused() {
    source="$work/$1.$6"
    printf '#include <manyfold.h>\n%s\n' "$3" > "$source"
    command -v "$4" >/dev/null || return
    said=$("$4" "-std=$5" -Wall -Wextra -fdiagnostics-color=never -I"$MF_SOURCE_DIR/include" -I"$MF_BUILD_DIR/include" -c "$source" -o "$source.o" 2>&1)
    lines=$(wc -l <<<"$said")
    if [ ! -e "$source.o" ] && [ "$(grep -c "error:" <<<"$said")" -le "$8" ] && grep -qE "$1\.$6:2:[0-9]+: (fatal )?error: .*$2" <<<"$said" && [ "$lines" -le "$7" ]; then
        return
    fi
    echo "$1 with $4 ($lines lines) should say: $2"
    head -n 12 <<<"$said"
    status=1
    rm -f "$source.o"
}

# In C. Clang shows macros of system headers too.
wrong() {
    most=1
    [ "$1" = missing ] && most=2 # the name without its macro is a function
    refused "$1" "$2" "$3" gcc gnu11 c 20 $most
    refused "$1" "$2" "$3" clang gnu11 c 28 $most
}

# In C++, by g++'s words and by clang's, which shows each overload. g++ tells of a pointer what each constructor says.
wrong_in_cpp() {
    most=1
    [[ "$2" = *double* ]] && most=4
    refused "$1" "$2" "$4" g++ c++17 cpp 30 $most
    refused "$1" "$3" "$4" clang++ c++17 cpp 30 1
}

wrong misspelt_option "axes" 'mf_value f(mf_value x) { return mf_sum(x, .axes = 0); }'
wrong misspelt_parameter "axs" 'mf_value f(mf_value x) { return mf_argmax(x, .axs = 0); }'
wrong pointer "mf_add: b is no value, number, string or slice" 'mf_value f(double *p, mf_value x) { return mf_add(x, p); }'
wrong nested_pointer "mf_sub: a is no value, number, string or slice" 'mf_value f(double *p, mf_value x) { return mf_add(mf_mul(x, mf_sub(p, 1)), 2); }'
wrong function "mf_add: a is no value, number, string or slice" 'static mf_value g(mf_value a) { return a; } mf_value f(void) { return mf_add(g, 1); }'
wrong in_options "mf_sum: x is no value, number, string or slice" 'mf_value f(float *p) { return mf_sum(p, .axis = 0); }'
wrong item "this argument is no value, number, string or slice" 'mf_value f(float *p, mf_value x) { return mf_tuple(x, p); }'
wrong too_many "more than 32 items" 'mf_value f(void) { return mf_dict("a",1,"b",1,"c",1,"d",1,"e",1,"f",1,"g",1,"h",1,"i",1,"j",1,"k",1,"l",1,"m",1,"n",1,"o",1,"p",1,"q",1); }'
wrong many_nested "more than 32 items" 'mf_value f(mf_value x) { return mf_add(mf_call(mf_neg, mf_tuple(0,1,2,3,4,5,6,7,8,9,0,1,2,3,4,5,6,7,8,9,0,1,2,3,4,5,6,7,8,9,0,1,2,3)), x); }'
wrong axis_list "(mf_ints|long int)" 'mf_value f(mf_value x) { return mf_mean(x, .axis = MF_INTS(0, 1)); }'
wrong shape "mf_zeros: shape is no mf_shape, such as" 'mf_value f(void) { return mf_zeros(3, MF_F32); }'
wrong shape_of_draws "mf_random_normal: shape is no mf_shape, such as" 'mf_value f(mf_value key) { return mf_random_normal(key, MF_F32); }'
wrong signature "mf_jit: f is no mf_function, no mf_module and no C function that takes up to 16 mf_values" 'static double g(double x) { return x; } mf_value f(mf_value x) { return mf_call(mf_jit(g), x); }'
wrong transform "mf_vmap: f is no mf_function, no mf_module and no C function that takes up to 16 mf_values" 'mf_value f(mf_value x) { return mf_call(mf_grad(mf_vmap(x)), x); }'
wrong call "mf_call: f is no mf_function" 'mf_value f(mf_value x) { return mf_call(x, 1); }'
wrong closure "a closure.{1,2}s C function takes a void" 'static mf_value g(mf_value a, mf_value b) { return mf_add(a, b); } mf_value f(mf_value x) { int c = 1; return mf_call(mf_closure(g, &c), x); }'
wrong context "point to it by its own type" 'static mf_value g(void *c, mf_value a) { return c ? a : mf_none(); } mf_value f(void *c, mf_value x) { return mf_call(mf_closure(g, c), x); }'
wrong decoration "point to it by its own type" 'mf_value f(mf_decorator d, void *c, mf_value x) { return mf_call(mf_decorate(mf_neg, "d", d, c), x); }'
wrong operator "invalid operands" 'mf_value f(mf_value a, mf_value b) { return a + b; }'
wrong missing "(requires 2 arguments|too few arguments)" 'mf_value f(mf_value x) { return mf_add(x); }'

wrong_in_cpp misspelt_option "no member named .axes.; did you mean .axis" "no member named 'axes' in 'mf_reduce_options'; did you mean 'axis'" 'mf_value f(mf_value x) { mf_reduce_options o = {}; o.axes = 0; return mf_sum(x, o); }'
wrong_in_cpp pointer "from .double ?\*. to .mf_value" "no matching function for call to 'mf_add'" 'mf_value f(double *p, mf_value x) { return mf_add(x, p); }'
wrong_in_cpp operand "from .double ?\*. to .mf_value" "invalid operands to binary expression \('mf_value' and 'double \*'\)" 'mf_value f(mf_value a, double *b) { return a + b; }'
wrong_in_cpp axis_list "mf_mean\(mf_value&, mf_ints\)" "no matching function for call to 'mf_mean'" 'mf_value f(mf_value x) { return mf_mean(x, MF_INTS(0, 1)); }'
wrong_in_cpp shape "from .int. to .mf_shape" "no matching function for call to 'mf_zeros'" 'mf_value f() { return mf_zeros(3, MF_F32); }'
wrong_in_cpp signature "could not convert .g. from .double \(\*\)\(double\). to .mf_function" "no matching function for call to 'mf_jit'" 'static double g(double x) { return x; } mf_function f() { return mf_jit(g); }'
wrong_in_cpp lambda "to .mf_function" "no matching function for call to 'mf_jit'" 'mf_function f() { return mf_jit([](mf_value x, int) { return x; }); }'
wrong_in_cpp transform "mf_vmap\(mf_value&\)" "no matching function for call to 'mf_vmap'" 'mf_function f(mf_value x) { return mf_grad(mf_vmap(x)); }'
wrong_in_cpp names "mf_psum\(mf_value&" "no matching function for call to 'mf_psum'" 'mf_value f(mf_value x) { return mf_psum(x, "a", "b", "c", "d", "e"); }'
wrong_in_cpp missing "too few arguments to function .mf_value mf_add\(mf_value, mf_value\)" "no matching function for call to 'mf_add'" 'mf_value f(mf_value x) { return mf_add(x); }'
exit $status
