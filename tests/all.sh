#!/usr/bin/env bash
# Runs all tests, and ends with a summary: what failed, what was skipped and why, and how many passed.
#
#     tests/all.sh                               # all that this machine can run
#     ZK_LONG=1 tests/all.sh                     # also the tests that take long, as in CI
#     ZK_REAL=skip tests/all.sh                  # without a real ZooKeeper
#     tests/all.sh -p zk-proto --all-features    # with options of `cargo test`
#
# For one package, cargo leaves out suites whose features are off.
set -euo pipefail
shopt -s nullglob
cd "$(dirname "$0")/.."

case ${1-} in -h | --help) sed -n '2,9s/^# \{0,1\}//p' "$0"; exit ;; esac

# Incremental builds take twice the time and the space at first, and save time only after a change.
export CARGO_INCREMENTAL=0
# Backtraces without lines take half the space.
export CARGO_PROFILE_DEV_DEBUG=0
# Many tests wait most of the time, so more of them run at once than there are processors.
export RUST_TEST_THREADS="${RUST_TEST_THREADS:-$(($(getconf _NPROCESSORS_ONLN) * 2))}"
# The summary reads what cargo prints.
export CARGO_TERM_COLOR=never

suites=$(mktemp -d "${TMPDIR:-/tmp}/all-tests.XXXXXX")
export SUITES="$suites"
mkdir "$suites/running" "$suites/logs"

# Ends the suites that have not ended, and prints what they have printed.
end_suites() {
    for running in "$suites"/running/*; do
        status=101
        log=$suites/logs/${running##*/}
        echo "error: a suite did not end: ${running##*/}" >> "$log"
        cat "$log"
        kill -- "-$(cat "$running")" 2> /dev/null || true
        rm "$running"
    done
}
at_end() {
    end_suites
    rm -rf "$suites"
}
trap at_end EXIT

# Several suites at once, for the same reason. A process that has read a line of `slots` may run a suite; of
# `printing`, may print to descriptor 5.
mkfifo "$suites/slots" "$suites/printing"
exec 3<> "$suites/slots" 4<> "$suites/printing" 5>&1
printf '\n\n\n' >&3
echo >&4

status=0
[ $# -gt 0 ] || set -- --workspace
host=$(rustc --version --verbose | sed -n 's/^host: //p')
runner="target.$host.runner=['$PWD/tests/start-suite.sh']"
cargo test --config "$runner" --no-fail-fast "$@" < /dev/null 2>&1 3>&- 4>&- | tee "$suites/cargo" || status=$?
for running in "$suites"/running/*; do
    while kill -0 "$(cat "$running" 2> /dev/null)" 2> /dev/null; do sleep 0.1; done
done
end_suites
[ ! -e "$suites/failed" ] || status=101

# Apart, since cargo prints while suites do.
awk -f tests/summary.awk "$suites/cargo" "$suites"/logs/*
exit "$status"
