#!/usr/bin/env bash
# How much of the CNN's gradient exchange overlaps with its backward pass on a slow link: two processes of four devices, one core each, over TCP
# in two network namespaces joined by a link of 1 Gbit/s and 0.1 ms, and in two others joined by an unlimited link.
#
#     bench/slow_link.sh [BUILD] [ROUNDS]
#
# The part that does not overlap is what the slow link adds to a step, divided by what it adds to the exchange alone. It is computed from the
# wall clock, and from the time in which no device computes, according to a trace, because the processor's work for the link cannot overlap.
# Figures are lower quartiles over interleaved rounds: on a shared machine, medians of the same link differ by more than the exchange takes.
# Needs root (or CAP_NET_ADMIN and CAP_SYS_ADMIN), Open MPI and two cores; without them it says so and exits with 77.
# On a kernel without netem, tbf limits the rate, without a delay. tbf splits what is larger than its bucket into frames, which with a network
# card is not the processor's work, so packets are made no larger than that.
set -u
build=${1:-build} rounds=${2:-9} name=mf$$
here=$(cd "$(dirname "$0")" && pwd)
program=$(cd "$build" && pwd)/bench/workloads
skip() { echo "skipped: $1"; exit 77; }
launcher=$(command -v mpirun.openmpi || command -v mpirun) || skip "there is no mpirun"
[ "$(nproc)" -ge 2 ] || skip "there is one core"
folder=$(mktemp -d)
ends() {
    for side in a b c d; do
        ip netns del "$name$side" 2>/dev/null
    done
    rm -rf "$folder"
}
trap ends EXIT

slow_down() { # one end of the slow link
    tc -n "$1" qdisc add dev "$1" root netem delay 0.1ms rate 1gbit 2>/dev/null && return
    link="1 Gbit/s (tbf; the kernel has no netem, so nothing is delayed)"
    ip -n "$1" link set "$1" gso_max_size 16000 2>/dev/null
    tc -n "$1" qdisc add dev "$1" root tbf rate 1gbit burst 32kb latency 50ms 2>/dev/null
}
side() { # one end of a link, and its address
    ip -n "$1" link set lo up && ip -n "$1" link set "$1" up && ip -n "$1" addr add "$2/24" dev "$1"
}
connect() { # two ends, and their network; mpirun starts the second process in the other namespace by a replacement for ssh
    ip netns add "$1" 2>/dev/null && ip netns add "$2" 2>/dev/null || skip "network namespaces are not permitted"
    ip link add "$1" netns "$1" type veth peer name "$2" netns "$2" 2>/dev/null || skip "veth is not permitted"
    side "$1" "$3.1" && side "$2" "$3.2" || skip "addresses are not permitted"
    printf '#!/bin/sh\nshift\nexec ip netns exec %s sh -c "$*"\n' "$2" >"$folder/shell.$1"
    chmod +x "$folder/shell.$1"
}
link="1 Gbit/s and 0.1 ms (netem)"
connect "$name"a "$name"b 10.99.7
connect "$name"c "$name"d 10.99.8
slow_down "$name"c && slow_down "$name"d || skip "tc has neither netem nor tbf, or is not permitted"

own=(--allow-run-as-root --bind-to none)
[ "$(id -u)" = 0 ] || own=(--bind-to none)
cores=($(taskset -cp $$ | sed 's/.*: //' | tr ',' '\n' | while IFS=- read -r from to; do seq "$from" "${to:-$from}"; done))
job() { # the name of the array with the launch command; the workloads
    local -n how=$1
    shift
    "${how[@]}" -n 1 env ${trace:+MF_PROFILE="$trace.0"} taskset -c "${cores[0]}" "$program" --devices 4 --repeat "$repeat" --only "$@" : \
        -n 1 env ${trace:+MF_PROFILE="$trace.1"} taskset -c "${cores[1]}" "$program" --devices 4 --repeat "$repeat" --only "$@" 2>>"$folder/errors"
}
over=() # launch_over END NETWORK sets it to a launch command
launch_over() {
    over=(ip netns exec "$1" "$launcher" "${own[@]}" --host "$2.1:1,$2.2:1" --mca plm_rsh_agent "$folder/shell.$1"
        --mca oob_tcp_if_include "$2.0/24" --mca btl tcp,self --mca btl_tcp_if_include "$2.0/24" -x MF_SHARED_MEMORY=off)
}
launch_over "$name"a 10.99.7
fast=("${over[@]}")
launch_over "$name"c 10.99.8
slow=("${over[@]}")
step=cnn_step_float32_128 repeat=1 trace=
for ((i = 0; i < rounds; i++)); do
    job fast cnn_exchange $step $step $step cnn_exchange >>"$folder/fast" && job slow cnn_exchange $step $step $step cnn_exchange >>"$folder/slow" || {
        tail -5 "$folder/errors"
        exit 1
    }
done
repeat=20
for how in fast slow fast slow; do
    trace=$folder/trace.$how job "$how" $step >/dev/null && python3 - "$folder/trace.$how" >>"$folder/waits.$how" <<'END' || exit 1
import json, statistics, sys
def waits(path):
    """For each step except the first ones: the milliseconds, from the first device's start to the last one's end, in which no device computed."""
    with open(path) as f:
        events = [e for e in json.load(f)["traceEvents"] if e["ph"] == "X" and e["cat"] in ("device", "uniform")]
    events = sorted((e for e in events if e["dur"] > 50), key=lambda e: e["ts"])
    first, steps = next(e["name"] for e in events if e["name"].startswith("conv")), []
    for k, e in enumerate(events):
        if e["name"] == first and (not k or events[k - 1]["name"] != first):
            steps.append([])
        if steps:
            steps[-1].append(e)
    return [(s[-1]["ts"] + s[-1]["dur"] - s[0]["ts"] - sum(e["dur"] for e in s)) / 1e3 for s in steps[5:-1]]
print(statistics.median(waits(sys.argv[1] + ".0") + waits(sys.argv[1] + ".1")))
END
done
python3 - "$folder" "$link" <<'END'
import json, statistics, sys
folder, link = sys.argv[1:]
def low(job, name):
    """The lower quartile."""
    rows = (json.loads(line) for line in open(f"{folder}/{job}") if line.startswith("{"))
    return statistics.quantiles((row["seconds"] * 1e3 for row in rows if row["name"] == name), n=4)[0]
def waited(job):
    return statistics.mean(float(line) for line in open(f"{folder}/waits.{job}"))
print(f"link: {link}")
added = {}
for words, figure in (("exchange alone:", lambda job: low(job, "cnn_exchange")), ("step:", lambda job: low(job, "cnn_step_float32_128")),
                      ("waits in a step:", waited)):
    fast, slow = figure("fast"), figure("slow")
    added[words] = slow - fast
    print(f"{words:16} {fast:.2f} ms by the fast link, {slow:.2f} ms by the slow one, which adds {added[words]:.2f} ms")
hidden = [100 * (1 - added[words] / added["exchange alone:"]) for words in ("step:", "waits in a step:")]
print(f"hidden: {hidden[0]:.0f} % by the clock, {hidden[1]:.0f} % of the waiting")
END
