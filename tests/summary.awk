# Summarizes what tests/all.sh prints. The lines that begin with SKIPPED are those of zk_testkit::skipped.
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
/^test .* \.\.\. ignored/ {
    reason = $0
    sub(/.* \.\.\. ignored(, )?/, "", reason)
    reasons[reason == "" ? "ignored" : reason]++
}
/^test .* \.\.\. FAILED$/ {
    name = $0
    sub(/^test /, "", name)
    sub(/ \.\.\. FAILED$/, "", name)
    failures[++failing] = suite ": " name
}
/^error(\[E[0-9]+\])?: / { failures[++failing] = $0 }
/^test result: / { passed += $4; failed += $6; ignored += $8 }
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
