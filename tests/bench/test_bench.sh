#!/usr/bin/env bash
# The benchmark still runs: every small workload answers once without a peer, both sides have the same names, the rows use existing names, and a
# table is written. No time is asserted.
set -euo pipefail
programs=$MF_BUILD_DIR/bench
bench=$MF_SOURCE_DIR/bench
out=$(mktemp -d)
trap 'rm -rf "$out"' EXIT
fail() {
    echo "$*" >&2
    exit 1
}

"$programs/workloads" --list | sort >"$out/names"
"$programs/workloads" --small >"$out/small"
[ "$(wc -l <"$out/small")" -ge 10 ] || fail "few small workloads: $(cat "$out/small")"

"$programs/workloads" --devices 4 <"$out/small" >"$out/answers"
while read -r name; do
    grep -q "\"name\": \"$name\", \"seconds\": [0-9]" "$out/answers" || fail "no figure for $name: $(grep "$name" "$out/answers")"
done <"$out/small"
[ "$(wc -l <"$out/answers")" -eq $(($(wc -l <"$out/small") + 1)) ] || fail "not one answer a question"

printf 'no_such_workload\nfirst_call_dispatch_psum\n' | "$programs/workloads" >"$out/answers"
grep -q '"no_such_workload", "error": "unknown workload"' "$out/answers" || fail "an unknown name passed"
grep -q '"first_call_dispatch_psum", "seconds": ' "$out/answers" || fail "no first call"

"$programs/limits" fma_f32_1 copy_65536_2 >"$out/answers"
[ "$(grep -c '"rate": [1-9]' "$out/answers")" -eq 2 ] || fail "limits: $(cat "$out/answers")"
[ "$("$programs/first_result" 4 | head -1)" = "[0. 2. 4. 6.]" ] || fail "first_result"

command -v python3 >/dev/null || exit 0
python3 "$bench/peers/jax_bench.py" --list | grep -v -e '^startup$' -e '^first_call_' | sort >"$out/theirs"
diff "$out/names" "$out/theirs" || fail "the two sides know different workloads"
python3 "$bench/compare.py" --build "$MF_BUILD_DIR" --out "$out" --workloads | sed 's/^first_call_//' | sort -u >"$out/asked"
unknown=$(grep -vxF -f "$out/names" "$out/asked" || true)
[ -z "$unknown" ] || fail "rows ask for unknown workloads: $unknown"
python3 "$bench/peers/torch_bench.py" --list | grep -v '^startup$' | sed 's/^first_call_//' | sort -u >"$out/torch"
unknown=$(comm -13 "$out/names" "$out/torch")
[ -z "$unknown" ] && [ -s "$out/torch" ] || fail "torch_bench.py has workloads that we have not: $unknown"
python3 "$bench/compare.py" --build "$MF_BUILD_DIR" --out "$out" --repeat 1 --only dispatch_psum psum_1KiB psum_4KiB 'first_result*'
grep -q '^| tiny call with psum, warm |' "$out/table.md" || fail "no table: $(cat "$out/table.md")"
grep -q '<polyline' "$out/all_reduce.svg" || fail "no curve"
python3 -c 'import json, sys; rows = json.load(open(sys.argv[1]))["rows"]; assert len(rows) == 5 and all("median" in r["sides"][0] for r in rows), rows' \
    "$out/table.json"

"$programs/simulate" --check >"$out/bounds" || fail "the simulated schedules leave their bounds: $(head -5 "$out/bounds")"
[ "$("$programs/simulate" 10000 1048576 | grep -c "^ *10000 .*parts")" -eq 1 ] || fail "no simulated row"
