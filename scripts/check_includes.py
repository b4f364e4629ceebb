#!/usr/bin/env python3
"""Checks the layering of src/. A room is a folder directly below src/; rooms are ordered from the most basic one to the top of the library.

A file may include headers of its own room, of the rooms before it in that order, and the interfaces named below, through which lower layers
call higher ones; the headers of a vendor may be included in one folder only.
Prints "file:line: rule" for each violation and then exits with 1; with --list prints which room includes which.
"""
import os
import re
import sys

# ---------------------------------------------------------------- the rules

# In order. A room may include itself and the rooms before it. Rooms in one group may not include each other.
INSIDE = [["base"], ["array"], ["tree"], ["ir"], ["trace"], ["passes"], ["transform"], ["ops"], ["stablehlo"], ["lax"], ["runtime"], ["backend", "comm"], ["wire.c"]]

# After wire.c: rooms that use only the public headers and their own files.
ON_TOP = ["random", "state", "nn", "numpy", "optim", "data", "io", "train", "cli"]

# Interfaces: header -> the rooms that may include it although it belongs to a later room.
ABOVE_THE_OPS = ["trace", "passes", "transform"]  # ir/ and the rooms before it know ops only as a type
INTERFACES = {
    r"runtime/backend\.h|runtime/device\.h|runtime/comm\.h": sum(INSIDE, []),
    r"ir/[a-z_]+\.h": sum(INSIDE, []),
    r"ops/(ops|params|emit|control/custom)\.h": ABOVE_THE_OPS,
    r"runtime/profile/profiler\.h": ["trace"],
}

# After wire.c a room may use files of another room only if they are named here: file input belongs to io.
ON_TOP_TOO = {r"io/regular\.h": ["data"], r"io/json\.h": ["train"]}

# Files outside src/ that use internals: file -> the headers of src/ that it may include.
DRIVERS = {"bench/simulate.c": r"runtime/collectives/(collectives|schedule/relay_schedule)\.h"}

# Rooms whose subfolders are siblings: a file in one may not include headers of another.
SIBLINGS = ["backend", "comm"]

# A vendor's header -> the only places (path prefixes under src/) where it may appear.
VENDORS = [
    (r"unwind.h", ["base/guard"]),
    (r"llvm-c/.*", ["backend/native/llvm"]),
    (r"(oneapi/dnnl/|dnnl).*", ["backend/native/kernels/dnnl/"]),
    (r"xla/.*|pjrt.*", ["backend/pjrt/"]),
    (r"zlib\.h", ["io/", "data/"]),
    (r"zip\.h", ["io/"]),
    (r"png\.h|jpeglib\.h", ["data/images/"]),
    (r"mpi\.h", ["bench/peers/"]),
]

# The headers that count as the C library. Any other <header> is a violation, so that a new dependency is a deliberate decision.
SYSTEM = r"""assert complex ctype errno fenv float inttypes limits locale math setjmp signal spawn stdalign stdarg stdatomic stdbool stddef stdint stdio
stdlib stdnoreturn string strings tgmath threads time wchar dirent dlfcn execinfo fcntl glob link poll pthread sched semaphore unistd getopt termios
immintrin arm_neon cpuid elf malloc ifaddrs netinet/.* sys/.* linux/.*""".split()

# ---------------------------------------------------------------- the check

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
INCLUDE = re.compile(r'^\s*#\s*include\s*([<"])([^>"]+)[>"]')
LEVEL = {room: level for level, group in enumerate(INSIDE) for room in group}
breaches = []
edges = {}


def matches(patterns, name):
    return any(re.fullmatch(pattern, name) for pattern in patterns)


def room_of(path):  # path below src/
    return path.split("/")[0]


def breach(path, line, header, why):
    breaches.append(f"{path}:{line}: includes {header}: {why}")


def outside_header(path, line, header, quoted, place):
    """The violation, if there is one, of including a header that is not in the tree: the C library's or a vendor's."""
    for pattern, places in VENDORS:
        if re.fullmatch(pattern, header):
            if not any(place.startswith(prefix) for prefix in places):
                breach(path, line, header, "this vendor's header belongs in src/" + " and src/".join(places) + " only")
            return
    if quoted:
        breach(path, line, header, "no such file beside it, in src/ or in include/")
    elif not matches(SYSTEM, header[:-2] if header.endswith(".h") else header):
        breach(path, line, header, "neither the C library's nor a known vendor's (scripts/check_includes.py lists them)")


def check_src(path, line, quoted, header):
    place = path[len("src/"):]
    room = room_of(place)
    if header == "manyfold.h" or header.startswith("manyfold/"):
        if not os.path.exists(os.path.join(ROOT, "include", header)):
            breach(path, line, header, "no such public header")
        return
    beside = os.path.normpath(os.path.join(os.path.dirname(place), header))
    if quoted and os.path.exists(os.path.join(ROOT, "src", beside)):
        target = beside
    elif quoted and os.path.exists(os.path.join(ROOT, "src", header)):
        target = header
    else:
        return outside_header(path, line, header, quoted, place)

    other = room_of(target)
    edges.setdefault(room, set()).add(other)
    if other == room:
        if room in SIBLINGS and target.count("/") >= 2 and place.count("/") >= 2 and target.split("/")[1] != place.split("/")[1]:
            breach(path, line, header, f"a sibling's inside ({'/'.join(target.split('/')[:2])}); go through runtime's interfaces")
        elif room in SIBLINGS and target.count("/") >= 2 and place.count("/") < 2:
            breach(path, line, header, "only wire.c names what is linked in")
    elif room in ON_TOP and any(re.fullmatch(header, target) and room in rooms for header, rooms in ON_TOP_TOO.items()):
        pass
    elif room in ON_TOP:
        breach(path, line, header, f"{room}/ stands below wire.c and is written on <manyfold.h> and <manyfold/*.h> only")
    elif other in ON_TOP:
        breach(path, line, header, f"{other}/ stands on the public header; nothing inside includes it")
    elif room not in LEVEL:
        breach(path, line, header, f"{room} is not a room of the house (scripts/check_includes.py lists them)")
    elif other not in LEVEL:
        breach(path, line, header, f"{other} is not a room of the house (scripts/check_includes.py lists them)")
    elif LEVEL[other] >= LEVEL[room] and not any(re.fullmatch(header, target) and room in rooms for header, rooms in INTERFACES.items()):
        why = "is a neighbour of" if LEVEL[other] == LEVEL[room] else "stands below"
        breach(path, line, header, f"{other} {why} {room}; interfaces sink, implementations rise")


def check_public(path, line, quoted, header):
    if header == "manyfold.h" or header.startswith("manyfold/") or os.path.exists(os.path.join(ROOT, os.path.dirname(path), header)):
        return
    if quoted or not matches(SYSTEM, header[:-2]):
        breach(path, line, header, "a public header includes public headers and the C library's only")


def check_example(path, line, quoted, header):
    if header == "manyfold.h" or header.startswith("manyfold/") or os.path.exists(os.path.join(ROOT, os.path.dirname(path), header)):
        return
    if path in DRIVERS and re.fullmatch(DRIVERS[path], header):
        return
    outside_header(path, line, header, quoted, path)


def main():
    for top, check in (("src", check_src), ("include", check_public), ("examples", check_example), ("bench", check_example)):
        for folder, _, names in sorted(os.walk(os.path.join(ROOT, top))):
            for name in sorted(names):
                if not name.endswith((".c", ".h", ".def", ".inc")):
                    continue
                path = os.path.relpath(os.path.join(folder, name), ROOT)
                if top == "src" and room_of(path[4:]) not in LEVEL and room_of(path[4:]) not in ON_TOP:
                    breaches.append(f"{path}:1: stands in no room of the house (scripts/check_includes.py lists them)")
                with open(os.path.join(ROOT, path), encoding="utf-8") as file:
                    for number, text in enumerate(file, 1):
                        found = INCLUDE.match(text)
                        if found:
                            check(path, number, found.group(1) == '"', found.group(2))
    if "--list" in sys.argv:
        for room, others in sorted(edges.items()):
            print(f"{room}: {' '.join(sorted(others - {room}))}")
    for line in breaches:
        print(line)
    if breaches:
        print(f"check_includes: {len(breaches)} breaches of the house's include rule")
    return 1 if breaches else 0


sys.exit(main())
