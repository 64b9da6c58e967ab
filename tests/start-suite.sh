#!/usr/bin/env bash
# Starts a suite for tests/all.sh, as the runner of cargo, which would wait for one after the other.
#
# It returns as soon as the suite has a slot. The output of the suite follows when it has ended.
set -euo pipefail

# Programs that a suite runs by cargo need no runner, nor do tests of documentation.
unset "$RUNNER"
case $1 in */deps/*) ;; *) exec "$@" ;; esac

name="$CARGO_PKG_NAME ${1##*/}"
running="$SUITES/running/$name"
exec 3<> "$SUITES/slots" 4<> "$SUITES/printing"
read -r _ <&3
# A process group of its own: to end all of it, and because others in the background ignore interrupts.
set -m
{
    status=0
    "$@" > "$SUITES/$name" 2>&1 3>&- 4>&- || status=$?
    until [ -s "$running" ]; do sleep 0.01; done
    rm "$running"
    echo >&3
    read -r _ <&4
    printf '\n       Suite %s\n' "${name%-*}"
    cat "$SUITES/$name"
    if [ "$status" -ne 0 ]; then
        touch "$SUITES/failed"
        echo "error: ${name%-*} has ended with status $status"
    fi
    echo >&4
} &
echo $! > "$running"
