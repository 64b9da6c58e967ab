#!/usr/bin/env bash
# Cargo's runner for tests/all.sh: starts a suite in the background, so that cargo goes on to the next one.
#
# It returns once the suite has a slot. The output of the suite appears when it has ended. The suite has failed
# unless its file in $SUITES/running is gone, and $SUITES/failed does not exist.
set -euo pipefail

# Documentation tests run directly.
case $1 in */deps/*) ;; *) exec "$@" ;; esac

file=${1##*/}
suite="$CARGO_PKG_NAME ${file%-*}"
running="$SUITES/running/$CARGO_PKG_NAME $file"
log="$SUITES/logs/$CARGO_PKG_NAME $file"
exec 3<> "$SUITES/slots" 4<> "$SUITES/printing"
# These wait most of the time, so they take no slot.
case $suite in *' real' | *' cli') waits=yes ;; *) waits= && read -r _ <&3 ;; esac
printf '\n       Suite %s\n' "$suite" > "$log"
: > "$running"
# In its own process group: all.sh can end it as a whole, and bash would make other background processes ignore
# interrupts.
set -m
(
    sh -c 'echo $PPID' > "$running"
    status=0
    "$@" >> "$log" 2>&1 3>&- 4>&- 5>&- || status=$?
    if [ "$status" -ne 0 ]; then
        echo "error: $suite exited with status $status" >> "$log"
        touch "$SUITES/failed"
    fi
    read -r _ <&4
    # The summary counts what is skipped.
    grep -Ev '^SKIPPED |^test .* \.\.\. ignored' "$log" || true
    echo >&4
    rm "$running"
    [ -n "$waits" ] || echo >&3
) >&5 2>&1 &
while [ -e "$running" ] && [ ! -s "$running" ]; do sleep 0.01; done
