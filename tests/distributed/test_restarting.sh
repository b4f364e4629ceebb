#!/usr/bin/env bash
# scripts/restart_on_failure.sh: how often it runs a command, its exit code, and the signals that it forwards.
set -uo pipefail
restart=$MF_SOURCE_DIR/scripts/restart_on_failure.sh
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work" || exit 1
ulimit -c 0
status=0

# runs NAME CODE RUNS ARGUMENT...: the script with these arguments ends with CODE, after so many lines in the file "ran"
runs() {
    local name=$1 code=$2 count=$3
    shift 3
    rm -f ran
    touch ran
    bash "$restart" "$@" >said 2>&1
    local got=$?
    [ $got = "$code" ] || { echo "$name: ends with $got, not $code"; cat said; status=1; }
    [ "$(wc -l <ran)" = "$count" ] || { echo "$name: ran $(wc -l <ran) times, not $count"; cat said; status=1; }
}

runs "what succeeds" 0 1 3 bash -c 'echo >>ran'
runs "what always fails" 7 3 --wait 0 2 bash -c 'echo >>ran; exit 7'
runs "what fails twice" 0 3 --wait 0 5 bash -c 'echo >>ran; [ $(wc -l <ran) = 3 ]'
runs "no restarts" 7 1 0 bash -c 'echo >>ran; exit 7'
runs "what is killed" 137 2 --wait 0 1 bash -c 'echo >>ran; kill -9 $$'
runs "arguments as they are" 0 1 1 bash -c '[ "$1" = "a  b" ] && [ -z "$2" ] && [ $# = 2 ] && echo >>ran' name "a  b" ""
runs "no number" 2 0 many true
runs "no command" 2 0 3
runs "no pause" 2 0 --wait long 3 true
echo in | bash "$restart" 1 cat | grep -qx in || { echo "the command has another input"; status=1; }

# signal NAME CODE SIGNAL COMMAND: a run that has written to "ran" gets the signal through the script
signal() {
    rm -f ran
    env --default-signal=INT bash "$restart" --wait 0 3 bash -c "$4" >said 2>&1 &
    local script=$! got
    for _ in $(seq 500); do
        [ ! -s ran ] || break
        sleep 0.02
    done
    kill -"$3" $script
    wait $script
    got=$?
    [ $got = "$2" ] || { echo "$1: ends with $got, not $2"; cat said; status=1; }
    [ "$(wc -l <ran)" = 1 ] || { echo "$1: was started again"; cat said; status=1; }
}
signal "a command that ends well on TERM" 0 TERM 'trap "exit 0" TERM; echo >>ran; while :; do sleep 0.05; done'
signal "a command with its own code" 5 INT 'trap "exit 5" INT; echo >>ran; while :; do sleep 0.05; done'
signal "a command that knows nothing of it" 129 HUP 'echo >>ran; exec sleep 20'
signal "a command that goes on" 0 USR1 'trap "touch told" USR1; echo >>ran; until [ -e told ]; do sleep 0.05; done'
exit $status
