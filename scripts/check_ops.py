#!/usr/bin/env python3
"""Checks that properties of ops are defined only in src/ops: no other file may list ops, in an array or in a chain of comparisons.

passes/simplify.c, whose rules are about particular ops, is exempt. Prints a line for each violation and then exits with 1.
"""
import os
import re
import sys

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
EXCEPTED = ("src/ops/", "src/passes/simplify.c")
PLACES = ("src", "tests/ops")
MOST_COMPARED = 2
ARRAY = re.compile(r"=\s*\{[^;]*?&mf_op_\w+[^;]*?&mf_op_\w+[^;]*?\}\s*;", re.S)
STATEMENT = re.compile(r"[^;{}]*[;{}]", re.S)
COMPARED = re.compile(r"[!=]= &mf_op_\w+")


def breaches_in(path, text):
    for found in ARRAY.finditer(text):
        yield f"{path}:{text.count(chr(10), 0, found.start()) + 1}: an array of ops; a field or flag of the definition says the same (ir/op.h)"
    for found in STATEMENT.finditer(text):
        if len(COMPARED.findall(found.group())) > MOST_COMPARED:
            line = text.count("\n", 0, found.start() + len(found.group()) - len(found.group().lstrip())) + 1
            yield f"{path}:{line}: a chain of comparisons with ops; a field or flag of the definition says the same (ir/op.h)"


def main():
    count = 0
    for place in PLACES:
        for folder, _, names in sorted(os.walk(os.path.join(ROOT, place))):
            for name in sorted(names):
                path = os.path.relpath(os.path.join(folder, name), ROOT)
                if not name.endswith((".c", ".h")) or path.startswith(EXCEPTED):
                    continue
                with open(os.path.join(ROOT, path), encoding="utf-8") as file:
                    for line in breaches_in(path, file.read()):
                        print(line)
                        count += 1
    return 1 if count else 0


sys.exit(main())
