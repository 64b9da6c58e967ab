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

log=$(mktemp "${TMPDIR:-/tmp}/all-tests.XXXXXX")
trap 'rm -f "$log"' EXIT
status=0
[ $# -gt 0 ] || set -- --workspace
cargo test --no-fail-fast "$@" < /dev/null 2>&1 | tee "$log" || status=$?

awk -f tests/summary.awk "$log"
exit "$status"
