#!/usr/bin/env bash
# Measures how much code the client adds to small programs: bytes of `.text` above a program that only connects, writes
# and reads. Fails if a program has grown by more than 3 % since the figures below were written.
set -euo pipefail
cd "$(dirname "$0")/.."

declare -A expected=(
    [get]=244352
    [mutex]=392800
    [blocking-get]=251865
    [blocking-mutex]=397721
)

build() {
    cargo build --quiet --manifest-path tests/sizes/Cargo.toml --profile sizes --target-dir target/sizes --features "$1"
}

text() {
    size -A "target/sizes/sizes/$1" | awk '$1 == ".text" { print $2 }'
}

status=0
compare() {
    local floor=$1 program size
    floor=$(text "$floor")
    shift
    for program in "$@"; do
        size=$(($(text "$program") - floor))
        awk -v program="$program" -v size="$size" -v expected="${expected[$program]}" 'BEGIN {
            change = 100 * (size - expected) / expected
            printf "%-15s %d bytes above the floor, %+.1f %% from %d\n", program, size, change, expected
            exit change > 3
        }' || status=1
    done
}

build tokio
compare floor get mutex
build blocking
compare blocking-floor blocking-get blocking-mutex
exit $status
