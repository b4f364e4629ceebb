#!/usr/bin/env bash
# How much of the CNN's exchange hides behind its backward pass on a slow link: two processes of four devices, a core each, once in two network
# namespaces that are joined by 1 Gbit/s and 0.1 ms, over TCP, and once by the memory that they share, where an exchange costs next to nothing.
#
#     bench/slow_link.sh [BUILD] [ROUNDS]
#
# What the slow link adds to a step, by what it adds to the same exchange alone, is the part that does not hide. Figures are medians over rounds,
# in turns. It takes root (or CAP_NET_ADMIN and CAP_SYS_ADMIN), Open MPI and two cores; where they are not to be had it says so and ends with 77.
# A kernel without netem's delay still has its rate, by tbf.
set -u
build=${1:-build} rounds=${2:-9} name=mf$$
here=$(cd "$(dirname "$0")" && pwd)
program=$(cd "$build" && pwd)/bench/workloads
skip() { echo "skipped: $1"; exit 77; }
launcher=$(command -v mpirun.openmpi || command -v mpirun) || skip "there is no mpirun"
[ "$(nproc)" -ge 2 ] || skip "there is one core"
folder=$(mktemp -d)
ends() {
    ip netns del "$name"a 2>/dev/null
    ip netns del "$name"b 2>/dev/null
    rm -rf "$folder"
}
trap ends EXIT

side() { # a or b, and its address
    ip -n "$name$1" link set lo up && ip -n "$name$1" link set "$name$1" up && ip -n "$name$1" addr add "$2/24" dev "$name$1" || return 1
    tc -n "$name$1" qdisc add dev "$name$1" root netem delay 0.1ms rate 1gbit 2>/dev/null && return
    link="1 Gbit/s (tbf; the kernel has no netem, so nothing is delayed)"
    tc -n "$name$1" qdisc add dev "$name$1" root tbf rate 1gbit burst 32kb latency 50ms 2>/dev/null
}
link="1 Gbit/s and 0.1 ms (netem)"
ip netns add "$name"a 2>/dev/null && ip netns add "$name"b 2>/dev/null || skip "network namespaces are not permitted"
ip link add "$name"a netns "$name"a type veth peer name "$name"b netns "$name"b 2>/dev/null || skip "veth is not permitted"
side a 10.99.7.1 && side b 10.99.7.2 || skip "tc has neither netem nor tbf, or is not permitted"

# The second process is started in the other namespace by what mpirun takes for ssh.
printf '#!/bin/sh\nshift\nexec ip netns exec %sb sh -c "$*"\n' "$name" >"$folder/shell"
chmod +x "$folder/shell"
own=(--allow-run-as-root --bind-to none)
[ "$(id -u)" = 0 ] || own=(--bind-to none)
cores=($(taskset -cp $$ | sed 's/.*: //' | tr ',' '\n' | while IFS=- read -r from to; do seq "$from" "${to:-$from}"; done))
job() { # how it is launched; the workloads
    local -n how=$1
    shift
    "${how[@]}" -n 1 taskset -c "${cores[0]}" "$program" --devices 4 --repeat 1 --only "$@" : \
        -n 1 taskset -c "${cores[1]}" "$program" --devices 4 --repeat 1 --only "$@" 2>>"$folder/errors"
}
fast=("$launcher" "${own[@]}" --oversubscribe)
slow=(ip netns exec "$name"a "$launcher" "${own[@]}" --host 10.99.7.1:1,10.99.7.2:1 --mca plm_rsh_agent "$folder/shell"
    --mca oob_tcp_if_include 10.99.7.0/24 --mca btl tcp,self --mca btl_tcp_if_include 10.99.7.0/24 -x MF_SHARED_MEMORY=off)
step=cnn_step_float32_128
for ((i = 0; i < rounds; i++)); do
    job fast cnn_exchange $step $step $step cnn_exchange >>"$folder/fast" && job slow cnn_exchange $step $step $step cnn_exchange >>"$folder/slow" || {
        tail -5 "$folder/errors"
        exit 1
    }
done
python3 - "$folder" "$link" <<'END'
import json, statistics, sys
folder, link = sys.argv[1:]
def rounds(job, name):
    """The median of each round."""
    found = [[]]
    for row in (json.loads(line) for line in open(f"{folder}/{job}") if line.startswith("{")):
        if row["name"] == name:
            found[-1].append(row["seconds"] * 1e3)
            if len(found[-1]) == per_round[name]:
                found.append([])
    return [statistics.median(times) for times in found if times]
per_round = {"cnn_step_float32_128": 3, "cnn_exchange": 2}
added = {}
print(f"link: {link}")
for name, words in (("cnn_step_float32_128", "step:          "), ("cnn_exchange", "exchange alone:")):
    fast, slow = rounds("fast", name), rounds("slow", name)
    added[name] = statistics.median(b - a for a, b in zip(fast, slow))
    print(f"{words} {statistics.median(fast):.2f} ms by shared memory, {statistics.median(slow):.2f} ms by the link, which adds {added[name]:.2f} ms")
print(f"hidden: {100 * (1 - added['cnn_step_float32_128'] / added['cnn_exchange']):.0f} %")
END
