#!/usr/bin/env bash
# Runs all tests, and ends with a summary: what failed, what was skipped and why, and how many passed.
#
#     tests/all.sh                               # all that this machine can run
#     ZK_REAL=skip tests/all.sh                  # without a real ZooKeeper
#     tests/all.sh --package zk-proto            # with options of `cargo test`
set -euo pipefail
cd "$(dirname "$0")/.."

case ${1-} in -h | --help) sed -n '2,6s/^# \{0,1\}//p' "$0"; exit ;; esac

# Incremental builds take twice the time and the space at first, and save time only after a change.
export CARGO_INCREMENTAL=0
# Many tests wait most of the time, so more of them run at once than there are processors.
export RUST_TEST_THREADS="${RUST_TEST_THREADS:-$(($(getconf _NPROCESSORS_ONLN) * 2))}"
# The summary reads what cargo prints.
export CARGO_TERM_COLOR=never

suites=$(mktemp -d "${TMPDIR:-/tmp}/all-tests.XXXXXX")
at_end() {
    for running in "$suites"/running/*; do
        kill -- "-$(cat "$running" 2> /dev/null)" 2> /dev/null || true
    done
    rm -rf "$suites"
}
trap at_end EXIT
# Several suites at once, for the same reason. Whoever reads a line of a pipe has a slot, or may print.
mkdir "$suites/running"
mkfifo "$suites/slots" "$suites/printing"
exec 3<> "$suites/slots" 4<> "$suites/printing"
printf '\n\n\n' >&3
echo >&4
# The name of the runner may have no blank, but that of this folder may.
ln -s "$PWD/tests/start-suite.sh" "$suites/start"
host=$(rustc --version --verbose | sed -n 's/^host: //p' | tr 'a-z-' 'A-Z_')
export SUITES="$suites" RUNNER="CARGO_TARGET_${host}_RUNNER"
export "$RUNNER=$suites/start"

status=0
[ $# -gt 0 ] || set -- --workspace
# Ends with the last suite, which writes to the same pipe.
cargo test --no-fail-fast "$@" < /dev/null 2>&1 3>&- 4>&- | tee "$suites/log" || status=$?
[ ! -e "$suites/failed" ] || status=101

awk -f tests/summary.awk "$suites/log"
exit "$status"
