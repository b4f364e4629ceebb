#!/usr/bin/env python3
"""Prints a C program in which every public function gets C numbers for its values, by the prototypes that scripts/lift.py reads. It is compiled, not run."""
import os
import re
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "scripts"))
import lift  # noqa: E402

# What other macros are made of. Functions whose names end in _n take arrays, which the macros of the plain names make.
EXCEPTED = {"mf_same", "mf_index_slice", "mf_no_value_"}
BY_HAND = {"mf_take_opt": "mf_take"}


def argument(p, k):
    if p.type == "mf_value":
        return str((2.0, 3, "1u", "2.5f", "true")[k % 5])
    if p.type == "mf_function":
        return "mf_neg"
    return None


def main():
    lines = ["#include <manyfold.h>", "void numbers(void);", "void numbers(void)", "{"]
    count = 0
    for header in sorted(os.listdir(lift.HEADERS)):
        with open(os.path.join(lift.HEADERS, header), encoding="utf-8") as file:
            text = lift.plain(file.read())
        functions = [lift.Function(f) for f in lift.PROTOTYPE.finditer(text) if "..." not in f.group(4)]
        for f in functions:
            if f.name in EXCEPTED or not any(p.type == "mf_value" for p in f.parameters) or (f.name.endswith("_n") and not f.is_lifted_alone):
                continue
            name = BY_HAND.get(f.name) or (f.name[: -len("_opt")] if f.options else f.name[: -len("_n")] if f.is_lifted_alone else f.name)
            given, before = [], []
            for k, p in enumerate(f.parameters[:-1] if f.options else f.parameters):
                made = argument(p, k + count)
                if not made:
                    made = f"a{k}"
                    before.append(f"static {p.type.replace('const ', '')} {made};" if "(*" not in p.type else f"static {re.sub(r'[(][*]' + p.name, '(*' + made, p.type)};")
                given.append(made)
            lines.append(f"    {{ {' '.join(before)} (void){name}({', '.join(given)}); }}" if f.type != "void" else f"    {{ {' '.join(before)} {name}({', '.join(given)}); }}")
            count += 1
            if any(p.default for p in f.parameters) and name not in BY_HAND.values() and not f.options:
                named = [f".{p.name} = {g}" if p.default else g for p, g in zip(f.parameters, given)]
                lines.append(f"    {{ {' '.join(before)} (void){name}({', '.join(named)}); }}")
    lines += ["    static mf_value v;", "    mf_unpack(2.0, &v);", "    (void)mf_switch(1, 2.0, mf_neg, mf_exp);", "    (void)mf_call(mf_add, 1, 2.0f);", "    (void)mf_get(1, 0);", "}"]
    print("\n".join(lines))
    print(f"{count} functions", file=sys.stderr)
    return 0 if count > 250 else 1


if __name__ == "__main__":
    sys.exit(main())
