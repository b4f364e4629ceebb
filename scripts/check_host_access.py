#!/usr/bin/env python3
"""Checks that the bytes of an array are accessed only by the client that owns them, or through the accessors of array/array.h and literals.

Exempt are array/ itself, the execution on the CPU (runtime/execute, runtime/collectives) and the CPU's backends. Prints a line for each
violation and then exits with 1.
"""
import os
import re
import sys

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
MAY = ("src/array/", "src/runtime/execute/", "src/runtime/collectives/", "src/backend/")
BYTES = re.compile(r"\bmf_array_data\b|\binline_data\b|\bbuffer->data\b|\bmf_array_contiguous\b")

breaches = []
for folder, _, names in sorted(os.walk(os.path.join(ROOT, "src"))):
    for name in sorted(names):
        path = os.path.relpath(os.path.join(folder, name), ROOT)
        if path.startswith(MAY) or not name.endswith((".c", ".h", ".inc")):
            continue
        with open(os.path.join(ROOT, path), encoding="utf-8") as file:
            for number, text in enumerate(file, 1):
                found = BYTES.search(text)
                if found:
                    breaches.append(f"{path}:{number}: {found.group()}: ask for a literal (array/literal.h) or copy the elements out")
for line in breaches:
    print(line)
sys.exit(1 if breaches else 0)
