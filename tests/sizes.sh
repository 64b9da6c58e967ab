#!/usr/bin/env bash
# Measures how much code the client adds to small programs: bytes of `.text` above a program that only connects, writes
# and reads. First without the feature `full`, then with it. Fails if a program has grown by more than 3 % since the
# figures below were written. With `all`, also programs that read one node; what they lack, those with a mutex have.
set -euo pipefail
cd "$(dirname "$0")/.."

declare -A expected=(
    [get]=246271
    [mutex]=362239
    [blocking-get]=281071
    [blocking-mutex]=396927
    [get,full]=301311
    [mutex,full]=484767
    [blocking-get,full]=321525
    [blocking-mutex,full]=507093
)

build() {
    local features=$1 program programs=()
    shift
    for program in "$@"; do programs+=(--bin "$program"); done
    cargo build --quiet --manifest-path tests/sizes/Cargo.toml --profile sizes --target-dir target/sizes \
        --features "$features" "${programs[@]}"
}

text() {
    size -A "target/sizes/sizes/$1" | awk '$1 == ".text" { print $2 }'
}

status=0
compare() {
    local floor=$1 features=$2 program size
    floor=$(text "$floor")
    shift 2
    for program in "$@"; do
        size=$(($(text "$program") - floor))
        program+=$features
        awk -v program="$program" -v size="$size" -v expected="${expected[$program]}" 'BEGIN {
            change = 100 * (size - expected) / expected
            printf "%-19s %d bytes above the floor, %+.1f %% from %d\n", program, size, change, expected
            exit change > 3
        }' || status=1
    done
}

for client in '' blocking-; do
    programs=("${client}mutex")
    [ "${1-}" != all ] || programs+=("${client}get")
    features=${client%-}
    build "${features:=tokio}" "${client}floor" "${programs[@]}"
    compare "${client}floor" '' "${programs[@]}"
    build "$features,full" "${programs[@]}"
    compare "${client}floor" ,full "${programs[@]}"
done
exit $status
