#!/bin/sh
# Starts a suite for tests/all.sh, as the runner of cargo, which would wait for one after the other.
#
# It returns as soon as the suite has a slot. The output of the suite follows when it has ended.
set -eu

# Programs that a suite runs by cargo need no runner, nor do tests of documentation.
unset "$RUNNER"
case $1 in */deps/*) ;; *) exec "$@" ;; esac

name="$CARGO_PKG_NAME ${1##*/}"
running="$SUITES/running/$name"
output="$SUITES/$name"
exec 3<> "$SUITES/slots" 4<> "$SUITES/printing"
read -r _ <&3
{
    "$@" > "$output" 2>&1 3>&- 4>&- &
    echo $! > "$running"
    status=0
    wait $! || status=$?
    rm "$running"
    echo >&3
    read -r _ <&4
    printf '\n       Suite %s\n' "${name%-*}"
    cat "$output"
    if [ "$status" -ne 0 ]; then
        touch "$SUITES/failed"
        echo "error: ${name%-*} has ended with status $status"
    fi
    echo >&4
} &
