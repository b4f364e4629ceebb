#!/usr/bin/env bash
# check_symbols.sh BUILD: checks that libmanyfold.so exports exactly what the public headers declare, and libmanyfold.a defines only mf_ names.
set -euo pipefail
cd "$(dirname "$0")/.."
library=$1/libmanyfold.so
status=0
declared=$(cat include/*.h include/manyfold/*.h | grep -oE '\bmf_[A-Za-z0-9_]+' | sort -u)
exported=$(nm -D --defined-only "$library" | awk '$2 ~ /[A-Zu]/ { print $3 }' | grep -vE '^(__asan|__ubsan|__tsan|__odr_asan|_init|_fini)' | sort -u)
stray=$(comm -13 <(echo "$declared") <(echo "$exported"))
[ -z "$stray" ] || { echo "exported by $library, but in no public header:"; echo "$stray"; status=1; }
foreign=$(nm --defined-only "$1/libmanyfold.a" 2>/dev/null | awk 'NF == 3 && $2 ~ /[A-Z]/ { print $3 }' | grep -vE '^(mf_|__asan|__ubsan|__tsan|__odr_asan|DW\.ref)' | sort -u || true)
[ -z "$foreign" ] || { echo "global names of $1/libmanyfold.a without the prefix mf_:"; echo "$foreign"; status=1; }
exit $status
