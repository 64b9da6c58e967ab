#!/usr/bin/env python3
"""Lists the branches of a program that end in a panic: panics.py <image>. Needs llvm-objdump."""

import collections
import re
import subprocess
import sys

PANIC = re.compile(r"panic|expect_failed|unwrap_failed|slice_\w*fail|handle_error|handle_alloc")
command = ["llvm-objdump", "--disassemble", "--demangle", "--no-show-raw-insn", sys.argv[1]]
function, branches = "", collections.Counter()
for line in subprocess.run(command, capture_output=True, text=True, check=True).stdout.splitlines():
    if start := re.match(r"[0-9a-f]+ <(.*)>:$", line):
        function = start[1]
    elif branch := re.search(r"\tb[lx.w]*\s.*<(.*?)(\+0x[0-9a-f]+)?>", line):
        if PANIC.search(branch[1]) and not PANIC.search(function.rsplit("::", 1)[-1]):
            branches[function, branch[1]] += 1
for (function, target), count in sorted(branches.items()):
    print(count, function, "->", target)
print(branches.total(), "branches")
