# Summarizes what tests/all.sh prints: what failed, and each kind of skipped tests, with the command for those that
# cargo ignores. The lines that begin with SKIPPED are those of zk_testkit::skipped.
/^ *(Suite|Doc-tests) / {
    suite = $0
    sub(/^ *(Suite |Doc-tests )/, "", suite)
}
# A test may report several reasons, and counts once. With one thread, its name is not known.
/^SKIPPED / {
    split(substr($0, 9), part, ": ")
    if (part[1] == "main" || !seen[suite, part[1]]++) {
        skipped++
        reasons[substr($0, 9 + length(part[1]) + 2)]++
    }
}
# Parts of other tests are not skipped: those run them.
/^test .* \.\.\. ignored/ && !/ignored, part of / {
    ignored++
    reasons["ignored: " command(suite, $2)]++
}
/^test .* \.\.\. FAILED$/ {
    name = $0
    sub(/^test /, "", name)
    sub(/ \.\.\. FAILED$/, "", name)
    failures[++failing] = suite ": " name
}
/^error(\[E[0-9]+\])?: / { failures[++failing] = $0 }
/^test result: / { passed += $4; failed += $6 }
# The command for an ignored test, and for all like it. `long` is the module of those that take hours.
function command(suite, test, part, library) {
    if (split(suite, part, " ") < 2) return "cargo test --doc -- --ignored"
    library = part[1]
    gsub(/-/, "_", library)
    if (part[2] != library) return "cargo test -p " part[1] " --test " part[2] " -- --ignored"
    return "cargo test --release -p " part[1] " --lib -- --ignored " (test ~ /::long::/ ? "long::" : "--skip long::")
}
END {
    print "\n==== Summary ===="
    if (failing) print "failed:"
    for (number = 1; number <= failing; number++) print "    " failures[number]
    if (skipped + ignored) print "skipped:"
    sorted = "LC_ALL=C sort -k 1,1nr -k 2"
    fflush()
    for (reason in reasons) printf "%8d  %s\n", reasons[reason], reason | sorted
    close(sorted)
    if (skipped) print "sh tests/setup-real.sh installs what tests need; with ZK_REAL=require its absence is a failure"
    printf "%d passed, %d failed, %d skipped\n", passed - skipped, failed, skipped + ignored
}
