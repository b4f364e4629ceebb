#!/usr/bin/env python3
"""Checks the comments of the public headers.

Each declaration that takes or returns an mf_value must have a signature of shapes, `(m, k), (k, n) -> (m, n): ...`, with as many shapes on
the left as the function takes values. The signature opens the comment at the end of the line; or the comment above the declaration or its
group, which ends at a blank line; or the comment that opens its section (`/* ---- ...`). Each header must open with a comment of at least five
lines about shapes, threads and errors. Prints a line for each violation and then exits with 1.
"""
import os
import re
import sys

import lift

TOKEN = re.compile(r"/\*(?P<comment>.*?)\*/|(?P<struct>^typedef [^;{]*\{.*?^\}[^;]*;)|(?P<declaration>^[a-z][^;{}/]*\(.*?\)\s*;)|(?P<blank>\n\s*\n)", re.S | re.M)
WORDS = ("shape", "thread", "Errors:")
FOR_NOBODY = "Nothing here is for users"
LEAST_LINES = 5
LEAST_FOUND = 300


def signature(comment):
    """The text before the first arrow of a comment, from the end of the previous sentence on; None if there is no arrow."""
    text = " ".join(re.sub(r"\n\s*\*", "\n", comment).split())
    found = re.search(r"(?:^|\s)->\s\S", text)
    return re.split(r"(?<!\.)[.:] ", " " + text[: found.start()] + " ")[-1].strip() if found else None


def values_of(function):
    return sum(p.type in ("mf_value", "const mf_value *") for p in function.parameters)


def breaches_in(header, text):
    section = group = None
    for found in TOKEN.finditer(text):
        line = text.count("\n", 0, found.start()) + 1
        own_line = not text[text.rfind("\n", 0, found.start()) + 1 : found.start()].strip()
        if found["blank"] is not None:
            group = None
        elif found["comment"] is not None and own_line:
            if found["comment"].startswith(" ----"):
                section, group = signature(found["comment"]), None
            else:
                group = signature(found["comment"])
        elif found["declaration"] is not None:
            for one in lift.PROTOTYPE.finditer(re.sub(r",\s*\.\.\.", "", found["declaration"])):
                f = lift.Function(one)
                if f.name.endswith("_") or (f.type != "mf_value" and not values_of(f)):
                    continue
                trailing = re.match(r"[ \t]*/\*(.*?)\*/", text[found.end() :], re.S)
                said = [s for s in (trailing and signature(trailing.group(1)), group, section) if s is not None]
                count = len(lift.split(said[0])) if said else 0
                yield None if said and count == values_of(f) else f"include/manyfold/{header}:{line}: {f.name}: " + (
                    f"takes {values_of(f)} values, and its comment's shapes say {count}: {said[0]} ->" if said else "no comment says its shapes: `(m, n) -> (n): ...`")


def introduction(header, text):
    first = re.match(r"/\*.*?\*/", text, re.S).group(0)
    if FOR_NOBODY in " ".join(first.replace("*", " ").split()):
        return
    if first.count("\n") + 1 < LEAST_LINES:
        yield f"include/manyfold/{header}:1: an introduction of {LEAST_LINES} lines says what is here"
    for word in WORDS:
        if word.lower() not in first.lower():
            yield f"include/manyfold/{header}:1: the introduction says nothing of {word.rstrip(':').lower()}"


def without_macros(text):
    """Blanks the lines of macros and of C++. They become comments, because empty lines would end a group."""
    text = re.sub(r"^#define(?:.*\\\n)*.*$", lambda m: "//" + "\n//" * m.group(0).count("\n"), text, flags=re.M)
    text = re.sub(r"^#ifdef __cplusplus\n.*?^#(?:else|endif).*?$", lambda m: "//" + "\n//" * m.group(0).count("\n"), text, flags=re.S | re.M)
    return text


def main():
    breaches, found = [], 0
    for header in sorted(os.listdir(lift.HEADERS)):
        if not header.endswith(".h"):
            continue
        with open(os.path.join(lift.HEADERS, header), encoding="utf-8") as file:
            text = file.read()
        breaches += introduction(header, text)
        for one in breaches_in(header, without_macros(text)):
            found += 1
            breaches += [one] if one else []
    print("\n".join(breaches), end="\n" if breaches else "")
    if found < LEAST_FOUND:
        print(f"only {found} declarations were found")
    return 1 if breaches or found < LEAST_FOUND else 0


if __name__ == "__main__":
    sys.exit(main())
