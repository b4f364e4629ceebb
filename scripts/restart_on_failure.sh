#!/usr/bin/env bash
# restart_on_failure.sh [--wait SECONDS] TIMES COMMAND [ARGUMENT]...: runs the command, and again when it fails, TIMES times at most, SECONDS (1)
# apart. Made for jobs that go on from their last checkpoint when they are started again:
#
#     restart_on_failure.sh 5 mpirun -n 2 build/examples/data_parallel --devices 4 --checkpoint 100
#
# Its exit code is that of the last run, 128 + n where signal n ended it. A signal that asks this script to end (HUP, INT, TERM) goes on to the
# command, which is not started again; USR1 and USR2 go on, too. Exit code 2, and a word on how it is called: a mistake in calling it.
set -u
usage() { echo "usage: ${0##*/} [--wait SECONDS] TIMES COMMAND [ARGUMENT]..." >&2; exit 2; }

pause=1
if [ "${1:-}" = --wait ]; then
    pause=${2:-}
    [[ $pause =~ ^[0-9]+(\.[0-9]+)?$ ]] || usage
    shift 2
fi
[[ ${1:-} =~ ^[0-9]+$ ]] && [ $# -ge 2 ] || usage
times=$1
shift

child=
ended=
interrupted=
starting= # from before the command runs until its number is known, signals are kept for it
kept=
pass() {
    interrupted=yes
    [ -z "$child" ] || kill -"$1" "$child" 2>/dev/null
    [ -z "$starting" ] || kept+=" $1"
}
for signal in HUP INT TERM; do
    trap "ended=$signal; pass $signal" $signal
done
for signal in USR1 USR2; do
    trap "pass $signal" $signal
done

for ((run = 0; ; run++)); do
    starting=yes
    [ -z "$ended" ] || exit $((128 + $(kill -l "$ended")))
    # what a shell starts beside itself has neither its input nor a way to be interrupted, unless it is given them
    (trap - INT QUIT; exec "$@") <&0 &
    starting= child=$!
    for signal in $kept; do
        kill -"$signal" "$child" 2>/dev/null
    done
    kept=
    code=127
    until interrupted=; wait "$child"; now=$?; [ $now = 127 ] || code=$now; [ -z "$interrupted" ]; do :; done 2>/dev/null
    child=
    [ $code != 0 ] && [ -z "$ended" ] || exit $code
    if [ $run -ge "$times" ]; then
        [ "$times" = 0 ] || echo "${0##*/}: exit code $code, after $times restarts" >&2
        exit $code
    fi
    echo "${0##*/}: exit code $code; restart $((run + 1)) of $times" >&2
    sleep "$pause" & # a signal need not wait for it
    wait $!
done
