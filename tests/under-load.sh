#!/usr/bin/env bash
# Repeats test suites while all CPUs are busy, and reports how often each failed:
#
#     tests/under-load.sh                       # ten times lock, recipes, session, client and blocking
#     tests/under-load.sh -n 3 lock             # three times one suite
#     tests/under-load.sh -n 20 -l 0 real       # twenty times on a real ZooKeeper, without load
#     tests/under-load.sh -n 1 -l 0 -t lock     # the twenty tests that take longest
#     tests/under-load.sh -n 5 -l 0 -s 1 lock   # five times, while all processes stop for up to 1 s, again and again
#
# -l sets the number of busy loops per CPU. -s needs Linux and root. Logs of failed runs are kept.
set -euo pipefail
cd "$(dirname "$0")/.."

repeats=10
loops=2
times=
longest_stop=
while getopts 'n:l:ts:' option; do
    case $option in
        n) repeats=$OPTARG ;;
        l) loops=$OPTARG ;;
        t) times=yes ;;
        s) longest_stop=$OPTARG ;;
        *) sed -n '2,10s/^# \{0,1\}//p' "$0" >&2; exit 2 ;;
    esac
done
shift $((OPTIND - 1))
[ $# -gt 0 ] || set -- lock recipes session client blocking

# Suite, folder to run it in, and program, line by line.
programs() {
    local folder options suite wanted=" $* "
    for folder in crates/zk-session crates/zk-recipes tests; do
        # What the suites in `tests` need are no features of their own.
        case $folder in tests) options= ;; *) options=--all-features ;; esac
        # shellcheck disable=SC2086
        cargo test --manifest-path "$folder/Cargo.toml" $options --tests --no-run 2>&1 |
            sed -n 's/^ *Executable .* (\(.*\))$/\1/p' |
            while read -r program; do
                suite=$(basename "${program%-*}")
                case $wanted in *" $suite "*) echo "$suite $folder $(realpath "$program")" ;; esac
            done
    done
}

if ! list=$(programs "$@") || [ -z "$list" ]; then
    echo "no such suite, or something does not compile: $*" >&2
    exit 2
fi

logs=$(mktemp -d "${TMPDIR:-/tmp}/under-load.XXXXXX")
busy=()
group=
stop() {
    [ ${#busy[@]} -eq 0 ] || kill "${busy[@]}" 2>/dev/null || true
    busy=()
    [ -z "$group" ] || echo "$thaw" > "$group/$freezer"
    [ -z "$group" ] || rmdir "$group" || true
    group=
}
trap stop EXIT
trap 'exit 130' INT TERM
for ((loop = 0; loop < loops * $(nproc); loop++)); do
    (while :; do :; done) &
    busy+=($!)
done

# A random number of seconds, up to a limit.
random() {
    awk -v seed="$RANDOM" -v limit="$1" 'BEGIN { srand(seed); print rand() * limit }'
}
if [ -n "$longest_stop" ]; then
    # A control group, of version 1 or 2.
    if [ -d /sys/fs/cgroup/freezer ]; then
        parent=/sys/fs/cgroup/freezer freezer=freezer.state freeze=FROZEN thaw=THAWED
    else
        parent=/sys/fs/cgroup freezer=cgroup.freeze freeze=1 thaw=0
    fi
    mkdir "$parent/under-load-$$"
    group=$parent/under-load-$$
    while sleep "$(random 5)"; do
        echo $freeze > "$group/$freezer"
        sleep "$(random "$longest_stop")"
        echo $thaw > "$group/$freezer"
    done &
    busy+=($!)
fi

failures=0
for ((run = 1; run <= repeats; run++)); do
    while read -r suite folder program; do
        log=$logs/$run-$suite-$(basename "$folder")
        begun=$SECONDS
        # It reports times only to those who ask for what is not stable.
        if (
            cd "$folder" && { [ -z "$group" ] || echo "$BASHPID" > "$group/cgroup.procs"; } &&
                RUSTC_BOOTSTRAP=1 "$program" -Zunstable-options --report-time
        ) < /dev/null > "$log" 2>&1; then
            verdict=ok
        else
            verdict=FAILED
            failures=$((failures + 1))
        fi
        printf '%s of %s: %-8s in %-16s %s, %s s\n' \
            "$run" "$repeats" "$suite" "$folder" "$verdict" "$((SECONDS - begun))"
    done <<< "$list"
done
stop

if [ -n "$times" ]; then
    echo
    sed -n 's/^test \(.*\) \.\.\. .*<\([0-9.]*\)s>$/\2 s  \1/p' "$logs"/* | sort -rn | awk '!seen[$3]++ && ++shown <= 20'
fi
echo
if [ "$failures" -gt 0 ]; then
    echo "$failures runs failed. How often each test did; logs are in $logs:"
    sed -n 's/^test \(.*\) \.\.\. FAILED.*/\1/p' "$logs"/* | sort | uniq -c | sort -rn
    exit 1
fi
rm -rf "$logs"
echo "no failure in $repeats runs of $(wc -l <<< "$list") suites, with $loops busy loops for each of $(nproc) processors${longest_stop:+ and stops of up to $longest_stop s}"
