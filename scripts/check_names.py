#!/usr/bin/env python3
"""Checks that names are unique in src/: no two files have the same name, no type is defined twice, no folder holds many more than a dozen
sources; that include guards are the paths of their headers; and that the files named in comments and documents exist, so that a renaming
includes them.

Drivers of one interface (the folders below backend/ and comm/) may use the same names.
Prints a line for each violation and then exits with 1.
"""
import collections
import os
import re
import sys

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
DRIVERS = ("backend", "comm")
MOST_SOURCES = 13
TYPE = re.compile(r"^typedef\s+(?:struct|enum|union)\s*\w*\s*\{(?:[^\n]*\}|.*?^\})\s*(\w+)\s*;|^typedef\s[^\n;{]*\(\*(\w+)\)", re.M | re.S)


GUARD = re.compile(r"^#ifndef (\w+)\n#define \1$", re.M)
COMMENT = re.compile(r"/\*.*?\*/|//[^\n]*", re.S)
QUOTED = re.compile(r"`[^`\n]*`")
FILE = re.compile(r"(?<![\w./<*$-])(?:\w+/)*\w+\.(?:c|h|inc|def|cpp|py|sh)(?![\w(])")
ELSEWHERE = {"complex.h", "pjrt_c_api.h", "jax/_src/random.py", "jax/_src/prng.py", "ndtr.c", "ndtri.c"}  # files of other projects
INVENTED = {"a.c", "b.c", "_hlo.c", "_avx2.c", "_avx512.c", "_neon.c", "example.c"}  # invented example names, and suffixes


def named_files():
    """(file, line, name) for each file name in a comment of the sources, or in backquotes in a document."""
    for top, ends, parts in (("src", (".c", ".h", ".inc", ".def"), COMMENT), ("include", (".h",), COMMENT), ("examples", (".c", ".cpp", ".h"), COMMENT),
                             ("bench", (".c", ".h"), COMMENT), ("tests", (".c", ".h", ".cpp"), COMMENT), ("docs", (".md",), QUOTED)):
        for folder, _, names in os.walk(os.path.join(ROOT, top)):
            for name in names:
                if name.endswith(ends):
                    path = os.path.join(folder, name)
                    with open(path, encoding="utf-8") as file:
                        text = file.read()
                    for part in parts.finditer(text):
                        for found in FILE.finditer(part.group(0)):
                            yield os.path.relpath(path, ROOT), text.count("\n", 0, part.start() + found.start()) + 1, found.group(0)


def missing_files():
    there = set()
    for top in ("src", "include", "examples", "bench", "tests", "scripts"):
        for folder, _, names in os.walk(os.path.join(ROOT, top)):
            for name in names:
                parts = os.path.relpath(os.path.join(folder, name), ROOT).split("/")
                there.update("/".join(parts[i:]) for i in range(len(parts)))
    return [f"{path}:{line}: names {name}, and there is no such file" for path, line, name in named_files()
            if name not in there and name not in ELSEWHERE and name not in INVENTED]


def guards():
    for folder, _, names in os.walk(os.path.join(ROOT, "src")):
        for name in names:
            path = os.path.relpath(os.path.join(folder, name), os.path.join(ROOT, "src"))
            if name.endswith(".h"):
                with open(os.path.join(folder, name), encoding="utf-8") as file:
                    found = GUARD.search(file.read())
                wanted = "MF_" + re.sub(r"[/.]", "_", path).upper()
                if not found or found.group(1) != wanted:
                    yield f"src/{path}: the include guard is {found.group(1) if found else 'missing'}, not {wanted}"


def driver_of(path):
    parts = path.split("/")
    return parts[1] + "/" + parts[2] if parts[1] in DRIVERS and len(parts) > 3 else None


def may_share(places):
    drivers = [driver_of(place) for place in places]
    return None not in drivers and len(set(drivers)) == len(drivers)


def main():
    files, types, sources = (collections.defaultdict(list) for _ in range(3))
    for top in ("src", "include"):
        for folder, _, names in sorted(os.walk(os.path.join(ROOT, top))):
            for name in sorted(names):
                path = os.path.relpath(os.path.join(folder, name), ROOT)
                if top == "src" and name.endswith((".c", ".h")):
                    files[name].append(path)
                if name.endswith(".c"):
                    sources[os.path.dirname(path)].append(path)
                if name.endswith((".c", ".h", ".inc")):
                    with open(os.path.join(ROOT, path), encoding="utf-8") as file:
                        for found in TYPE.finditer(file.read()):
                            types[found.group(1) or found.group(2)].append(path)
    breaches = [f"{name}: a file's name twice: {' '.join(places)}" for name, places in files.items() if len(places) > 1 and not may_share(places)]
    breaches += [f"{name}: a type defined twice: {' '.join(places)}" for name, places in types.items() if len(places) > 1]
    breaches += [f"{folder}: {len(places)} sources, more than {MOST_SOURCES}" for folder, places in sources.items()
                 if len(places) > MOST_SOURCES and "kernels" not in folder]
    breaches += guards()
    breaches += missing_files()
    for line in breaches:
        print(line)
    return 1 if breaches else 0


sys.exit(main())
