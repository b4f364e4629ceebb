#!/bin/bash
# CONFORMANCE.md: 196 rows, no name twice in a section, and every counterpart that it names exists.
set -euo pipefail
cd "$(dirname "$0")"
awk -F'|' '
    /^## / { section = $0 }
    /^\| *test/ {
        rows++
        gsub(/ /, "", $2)
        if (seen[section $2]++) { print "twice: " $2; bad = 1 }
        n = split($3, tests, ",")
        for (i = 1; i <= n; i++) {
            gsub(/^ +| +$/, "", tests[i])
            split(tests[i], part, ":")
            found = 0
            while ((getline line < part[1]) > 0)
                found = found || index(line, "TEST(" part[2] ")") == 1
            close(part[1])
            if (!found) { print $2 " names " tests[i] ", which does not exist"; bad = 1 }
        }
    }
    END {
        if (rows != 196) { print rows " rows, 196 are expected"; bad = 1 }
        exit bad
    }' CONFORMANCE.md
