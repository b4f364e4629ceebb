#!/usr/bin/env bash
# restart_on_failure.sh [--wait SECONDS] TIMES COMMAND [ARGUMENT]...: runs the command and, if it fails, restarts it, at most TIMES times, after
# SECONDS (1). For jobs that resume from their last checkpoint when they are restarted:
#
#     restart_on_failure.sh 5 mpirun -n 2 build/examples/data_parallel --devices 4 --checkpoint 100
#
# The exit code is that of the last run, or 128 + n if signal n ended it; 2, with a usage message, for wrong arguments. HUP, INT and TERM are
# forwarded to the command, which is then not restarted; USR1 and USR2 are forwarded, too.
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
starting= # nonempty from before the command is started until its process id is known; signals in between are kept for it
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
    # the shell gives a background process no standard input and ignores INT and QUIT in it; restore both
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
    sleep "$pause" & # in the background, so that a signal is handled at once
    wait $!
done
