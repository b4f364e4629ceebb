#!/usr/bin/env python3
"""Generates, from the prototypes of the public functions, the macros with which these take C numbers, C functions and named options.

lift.py OUT: writes one header to OUT for each header in include/manyfold, which includes it in its last line. So macros and prototypes cannot
disagree, and every function takes numbers as values. What a prototype results in:

    mf_value mf_add(mf_value a, mf_value b);                            mf_add(1, x): every mf_value is converted, from left to right
    mf_value mf_stack(mf_value parts, int axis MF_DEFAULT_(0));          mf_stack(x, .axis = 1): trailing arguments have defaults; {}: zero
    mf_value mf_sum_opt(mf_value x, const mf_reduce_options *o);         mf_sum(x, .axis = 0): options by name, or in their order
    mf_value mf_list_n(const mf_value *elements, int count);             mf_list(1, 2, x): any number of values
    mf_function mf_jit_opt(mf_function f, const mf_jit_options *o);      mf_jit(f): C functions and modules are functions

Fields of options may have defaults too; then the struct begins with `mf_reserved begin_`. A default in the prototype of the function without
_opt takes precedence over the default of the field of the same name. A macro that the header defines itself is not generated.
For C++, where numbers and functions convert implicitly, named options and any number of values become overloads. Options that begin with
`const char *a, *b;` may be given as just these, mf_psum(x, "rows", "cols"); those that begin with the axis as just the axis, mf_sum(x, 0).
"""
import os
import re
import sys

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
HEADERS = os.path.join(ROOT, "include", "manyfold")
PROTOTYPE = re.compile(r"^((?:const\s+)?\w+)\s+(\**)(mf_\w+)\(((?:[^{};]|\{\})*)\)\s*;", re.M)
STRUCT = re.compile(r"typedef struct (mf_\w+_options)\s*\{(.*?)\}\s*\1;", re.S)
WITHOUT = ("mf_same", "mf_fn_same", "mf_index_slice")  # mf_v and mf_fn are defined by them
LIFTS = {"mf_value": "MF_V_", "mf_function": "MF_FN_"}


class Parameter:
    def __init__(self, text):
        found = re.search(r"\s*MF_DEFAULT_\((.*)\)\s*$", text)
        self.default = found.group(1) if found else None
        text = text[: found.start()] if found else text
        pointer = re.search(r"\(\*(\w+)\)\(", text)
        self.type, self.name = (text, pointer.group(1)) if pointer else re.match(r"(.*?)(\w+|\.\.\.)\s*$", text.strip(), re.S).groups()
        self.type = " ".join(self.type.split())

    def given(self, by, function):
        """The argument, converted if necessary, with the name that errors use for it."""
        called = re.sub(r"_(opt|n)$", "", function)
        if self.type == "mf_shape":
            return f'MF_IS_SHAPE_({by}, "{called}: {self.name}")'
        return f'{LIFTS[self.type]}({by}, "{called}: {self.name}")' if self.type in LIFTS else by


class Function:
    def __init__(self, found):
        self.type = found.group(1) + (" " + found.group(2) if found.group(2) else "")
        self.name = found.group(3)
        self.parameters = [Parameter(p) for p in split(found.group(4))] if found.group(4).strip() != "void" else []

    @property
    def options(self):
        last = self.parameters[-1] if self.parameters else None
        found = last and re.match(r"const (mf_\w+_options) \*$", last.type)
        return found.group(1) if found and self.name.endswith("_opt") else None

    @property
    def takes_many(self):
        tail = [p.type for p in self.parameters[-2:]]
        return self.name.endswith("_n") and tail == ["const mf_value *", "int"]

    @property
    def is_lifted_alone(self):
        """Whether the macro is the name without _n although the function does not take any number of values."""
        return self.name.endswith("_n") and not self.takes_many and all("*" not in p.type for p in self.parameters)


def split(text):
    parts, depth, current = [], 0, ""
    for c in text:
        depth += (c == "(") - (c == ")")
        if c == "," and depth == 0:
            parts.append(current)
            current = ""
        else:
            current += c
    return parts + [current] if current.strip() else parts


def plain(text):
    """The header's text without comments, C++ and macros."""
    text = re.sub(r"/\*.*?\*/", " ", text, flags=re.S)
    text = re.sub(r"\\\n", " ", text)
    kept, cpp = [], []
    for line in text.split("\n"):
        if re.match(r"#\s*if", line):
            cpp.append(bool(re.match(r"#\s*ifdef\s+__cplusplus", line)))
        elif re.match(r"#\s*else", line) and cpp:
            cpp[-1] = False
        elif re.match(r"#\s*endif", line) and cpp:
            cpp.pop()
        elif not line.startswith("#") and True not in cpp:
            kept.append(line)
    return "\n".join(kept)


def in_order(function, arguments):
    """A call whose converted arguments are evaluated from left to right."""
    lifted = [a for a in arguments if a[0].type in LIFTS]
    if len(lifted) < 2:
        return f"{function}({', '.join(p.given(by, function) for p, by in arguments)})"
    letters = {id(a): f"mf_{chr(ord('a') + i)}_" for i, a in enumerate(lifted)}
    before = " ".join(f"{a[0].type} {letters[id(a)]} = {a[0].given(a[1], function)};" for a in lifted)
    return f"__extension__ ({{ {before} {function}({', '.join(letters.get(id(a), a[1]) for a in arguments)}); }})"


def of_plain(f):
    """The macro of a function with converted values and trailing defaults."""
    name = f.name[: -len("_n")] if f.is_lifted_alone else f.name
    required = [p for p in f.parameters if p.default is None]
    optional = f.parameters[len(required):]
    if not optional and not any(p.type in LIFTS for p in required):
        return None
    if not optional:
        last = max(i for i, p in enumerate(required) if p.type in LIFTS)
        tail = required[last + 1:]  # as written: a compound literal may contain commas
        head = required[: last + 1]
        arguments = [(p, p.name) for p in head] + ([(Parameter("int rest"), "__VA_ARGS__")] if tail else [])
        return f"{name}({', '.join([p.name for p in head] + ['...'] * bool(tail))})", in_order(f.name, arguments)
    if not required:
        return None
    fields = " ".join(f"{p.type} {p.name};" for p in optional)
    before = "".join(f".{p.name} = {p.default}, " for p in optional if p.default != "{}")  # which an initialiser need not name
    options = f"struct {{ {fields} mf_reserved reserved_; }} mf_o_ = {{ MF_REST_(__VA_ARGS__, .reserved_ = 0) }};"
    if before:
        options = f"struct {{ mf_reserved begin_; {fields} }} mf_o_ = {{ {before}.begin_ = 0, MF_REST_(__VA_ARGS__, .begin_ = 0) }};"
    values = [f"{p.type} mf_{chr(ord('a') + i)}_ = {p.given(by, f.name)};" for i, (p, by) in enumerate(
        [(p, p.name) for p in required[:-1]] + [(required[-1], "MF_FIRST_(__VA_ARGS__, 0)")])]
    call = ", ".join([f"mf_{chr(ord('a') + i)}_" for i in range(len(required))] + [f"mf_o_.{p.name}" for p in optional])
    body = f"__extension__ ({{ {' '.join(values)} {options} {f.name}({call}); }})"
    return f"{name}({', '.join([p.name for p in required[:-1]] + ['...'])})", f"MF_QUIET_({f.type}, {body})" if before else body


def of_options(f, structs, functions):
    name, struct = f.name[: -len("_opt")], f.options
    fields, leading = structs[struct][:2]
    parameters = f.parameters[:-1]
    if not parameters:
        if not leading:  # all arguments are options, of which at least one must be given
            return f"{name}(...)", f"{f.name}(&({struct}){{ __VA_ARGS__, .reserved_ = 0 }})"
        before = "".join(f".{k} = {v}, " for k, v in fields.items())
        call = f"{f.name}(&({struct}){{ {before}.begin_ = 0, __VA_ARGS__ }})"
        return f"{name}(...)", f"MF_QUIET_({f.type}, {call})" if before else call
    own = {p.name: p.default for p in functions[name].parameters if p.default is not None} if name in functions else {}
    defaults = {**fields, **{k: v for k, v in own.items() if k in fields}}
    rest = "MF_REST_(__VA_ARGS__, .reserved_ = 0)"
    options = f"&({struct}){{ {rest} }}"
    if leading:
        options = f"&({struct}){{ {''.join(f'.{k} = {v}, ' for k, v in defaults.items())}.begin_ = 0, {rest} }}"
    arguments = [(p, p.name) for p in parameters[:-1]] + [(parameters[-1], "MF_FIRST_(__VA_ARGS__, 0)"), (Parameter("int o"), options)]
    call = in_order(f.name, arguments)
    return f"{name}({', '.join([p.name for p in parameters[:-1]] + ['...'])})", f"MF_QUIET_({f.type}, {call})" if leading else call


def of_many(f):
    name, before = f.name[: -len("_n")], f.parameters[:-2]
    if len(before) == 1:  # so that zero values are possible: no trailing comma
        return f"{name}(...)", f"{f.name}({before[0].given('MF_FIRST_(__VA_ARGS__, 0)', f.name)}, MF_OTHER_VALUES_(__VA_ARGS__))"
    arguments = [(p, p.name) for p in before] + [(Parameter("int values"), "MF_VALUES_(__VA_ARGS__)")]
    return f"{name}({', '.join([p.name for p in before] + ['...'])})", in_order(f.name, arguments)


def macro(head, body):
    return f"#define {head} \\\n    {body}"


def in_cpp(f, name, plain_one, structs):
    """The C++ overloads. Numbers and functions convert implicitly, and the prototype has the defaults: only named options and any number of values
    need overloads."""
    given = f.parameters[:-1] if f.options else f.parameters[:-2] if f.takes_many else f.parameters
    head, call = [f"{p.type} {p.name}".replace("* ", "*") for p in given], [p.name for p in given]
    if f.takes_many:
        body = f"const mf_value values[] = {{ mf_value(v)..., mf_value() }};\n    return {f.name}({', '.join(call + ['values', '(int)sizeof...(V)'])});"
        return ["template <class... V> " + inline_function(f.type, name, head + ["V... v"], body)]
    if f.options:
        made, names = [], structs[f.options][2]
        if names:  # just the first options: one or more; two or more if the plain function takes one
            least = 2 if plain_one and len(plain_one.parameters) > len(given) else 1
            named = [f"const char *{n}" + (" = nullptr" if k >= least else "") for k, n in enumerate(names)]
            body = "\n    ".join([f"{f.options} o = {{}};"] + [f"o.{n} = {n};" for n in names] + [f"return {f.name}({', '.join(call + ['&o'])});"])
            made = [inline_function(f.type, name, head + named, body)]
        first = structs[f.options][3]
        if first and not (plain_one and len(plain_one.parameters) > len(given)): # just the axis
            body = f"{f.options} o = {{}};\n    o.{first[1]} = {first[1]};\n    return {f.name}({', '.join(call + ['&o'])});"
            made.append(inline_function(f.type, name, head + [" ".join(first)], body))
        empty = "" if plain_one else " = {}"
        body = f"return {f.name}({', '.join(call + ['&o'])});"
        return made + [inline_function(f.type, name, head + [f"const {f.options} &o{empty}"], body)]
    if f.is_lifted_alone and any(p.type == "mf_function" for p in given):
        return [inline_function(f.type, name, head, f"return {f.name}({', '.join(call)});")]
    return []


def inline_function(result, name, parameters, body):
    return f"inline {result} {name}({', '.join(parameters)})\n{{\n    {body}\n}}"


def lifted(header, functions, structs, by_hand, cpp_by_hand):
    c, cpp = [], []
    with_options = {f.name for f in functions if f.options or f.name.endswith("_n")}
    all_functions = {f.name: f for f in functions}
    for f in functions:
        name = re.sub(r"_(opt|n)$", "", f.name) if f.options or f.takes_many or f.is_lifted_alone else f.name
        if name in by_hand or name in WITHOUT or (name == f.name and (name + "_opt" in with_options or name.endswith("_n") or name + "_n" in with_options)):
            continue
        made = of_options(f, structs, all_functions) if f.options else of_many(f) if f.takes_many else of_plain(f)
        if made:
            c.append(macro(*made))
        if name not in cpp_by_hand:
            cpp += in_cpp(f, name, all_functions.get(name), structs)
    text = f"/* {header}: what takes numbers for values, options by name and any number of arguments. Written by scripts/lift.py. */\n"
    text += "#pragma GCC system_header\n" if c or cpp else ""
    return text + "#ifndef __cplusplus\n" + "\n".join(c) + "\n#else\n" + "\n".join(cpp) + "\n#endif\n"


def main():
    out = sys.argv[1]
    os.makedirs(out, exist_ok=True)
    texts = {h: open(os.path.join(HEADERS, h), encoding="utf-8").read() for h in sorted(os.listdir(HEADERS)) if h.endswith(".h")}
    structs = {}
    for text in texts.values():
        for found in STRUCT.finditer(plain(text)):
            fields = re.findall(r"(\w+)\s+MF_DEFAULT_\(((?:[^()]|\([^()]*\))*)\)", found.group(2))
            body = re.sub(r"mf_reserved begin_;", "", found.group(2))
            names = re.match(r"\s*const char (\*\w+(?:, \*\w+)*);", body)
            first = re.match(r"\s*mf_reserved begin_;\s*(\w+) (axis)\b", found.group(2))
            structs[found.group(1)] = dict(fields), "begin_" in found.group(2), names and re.findall(r"\w+", names.group(1)), first and first.groups()
    cpp_by_hand = {name for text in texts.values() for name in re.findall(r"\binline\s+\w+\s+\**(mf_\w+)\(", text)}
    for header, text in texts.items():
        by_hand = set(re.findall(r"^#define (mf_\w+)\(", text, re.M))
        functions = [Function(found) for found in PROTOTYPE.finditer(plain(text)) if "..." not in found.group(4)]
        made = lifted(header, functions, structs, by_hand, cpp_by_hand)
        path = os.path.join(out, header)
        if not os.path.exists(path) or open(path, encoding="utf-8").read() != made:
            with open(path, "w", encoding="utf-8") as file:
                file.write(made)
    return 0


if __name__ == "__main__":
    sys.exit(main())
