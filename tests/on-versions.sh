#!/usr/bin/env bash
# Runs the suites that need a real ZooKeeper on one version after another, and counts what passes:
#
#     tests/on-versions.sh                              # all versions of tests/setup-real.sh --all
#     ZK_VERSIONS=3.6.3,3.9.5 tests/on-versions.sh      # these versions
#     tests/on-versions.sh interop conformance          # only tests with these names
#
# The log of a version that fails is kept.
set -euo pipefail
cd "$(dirname "$0")/.."

case ${1-} in -h | --help) sed -n '2,8s/^# \{0,1\}//p' "$0"; exit ;; esac

IFS=, read -r -a versions <<< "${ZK_VERSIONS:-3.6.3,3.8.0,3.9.5}"
logs=$(mktemp -d "${TMPDIR:-/tmp}/on-versions.XXXXXX")
failures=0
cargo test --package zk-testkit --features gssapi --test real --no-run
for version in "${versions[@]}"; do
    log=$logs/$version
    begun=$SECONDS
    if ZK_LONG=1 ZK_REAL=require ZK_VERSIONS=$version \
        cargo test --package zk-testkit --features gssapi --test real -- "$@" < /dev/null > "$log" 2>&1; then
        verdict=passed
    else
        verdict=FAILED
        failures=$((failures + 1))
    fi
    # Jars that read the handshake in another way than those of Debian.
    if [ "${version%.*}" = 3.9 ] && ! ZK_REAL=require ZK_CLASSPATH="$PWD/target/zookeeper-$version/*" \
        cargo test --package zk-proto --features proptest --test java_records < /dev/null >> "$log" 2>&1; then
        verdict=FAILED
        failures=$((failures + 1))
    fi
    printf '\n%s %s in %s s: %s\n' "$version" "$verdict" "$((SECONDS - begun))" \
        "$(sed -n 's/^test result: [A-Za-z]*\. \(.* ignored\);.*/\1/p' "$log")"
    # Passed and all tests of each suite.
    awk '/^test [a-z_]+::.* (ok|FAILED)$/ {
             split($2, name, "::"); all[name[1]]++; if ($NF == "ok") ok[name[1]]++
         }
         END { for (suite in all) printf "    %-12s %d of %d\n", suite, ok[suite], all[suite] }' "$log" | sort
    grep -E '^test .* FAILED$' "$log" || true
done

if [ "$failures" -gt 0 ]; then
    printf '\nLogs are in %s.\n' "$logs"
    exit 1
fi
rm -rf "$logs"
