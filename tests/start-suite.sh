#!/bin/sh
# Starts a suite for tests/all.sh, as the runner of cargo, which would wait for one after the other.
#
# It returns at once, or as soon as fewer than $SUITES_AT_ONCE run. The output follows when the suite has ended.
set -eu

# Programs that a suite runs by cargo need no runner, nor do tests of documentation.
unset "$RUNNER"
case $1 in */deps/*) ;; *) exec "$@" ;; esac

suite="$CARGO_PKG_NAME ${1##*/}"
running="$SUITES/running/$suite"
output="$SUITES/$suite"
until [ "$(ls "$SUITES/running" | wc -l)" -lt "$SUITES_AT_ONCE" ]; do sleep 0.1; done
: > "$running"
{
    "$@" > "$output" 2>&1 &
    echo $! > "$running"
    status=0
    wait $! || status=$?
    until mkdir "$SUITES/printing" 2> /dev/null; do sleep 0.1; done
    printf '\n       Suite %s\n' "${suite%-*}"
    cat "$output"
    if [ "$status" -ne 0 ]; then
        touch "$SUITES/failed"
        echo "error: ${suite%-*} has ended with status $status"
    fi
    rmdir "$SUITES/printing"
    rm "$running"
} &
