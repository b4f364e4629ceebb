#!/usr/bin/env python3
"""Every name in src/ leads to one place: no file's name occurs twice, no type is defined twice, no folder holds more than a dozen sources or so.

Drivers of one interface (the folders below backend/ and comm/) may give equal things equal names.
Prints a line for each breach and exits with 1.
"""
import collections
import os
import re
import sys

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
DRIVERS = ("backend", "comm")
MOST_SOURCES = 13
TYPE = re.compile(r"^typedef\s+(?:struct|enum|union)\s*\w*\s*\{(?:[^\n]*\}|.*?^\})\s*(\w+)\s*;|^typedef\s[^\n;{]*\(\*(\w+)\)", re.M | re.S)


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
    for line in breaches:
        print(line)
    return 1 if breaches else 0


sys.exit(main())
