#!/usr/bin/env python3
"""Lists where a program can panic: panics.py <image>. Needs llvm-objdump and llvm-symbolizer.

Each line names the function of a library that panics, if it is not ours, and the function of ours
that it is part of, if it is. The image needs line tables.
"""

import re
import subprocess
import sys

PANIC = re.compile(r"panic|expect_failed|unwrap_failed|slice_\w*fail|handle_error|handle_alloc")
# Functions that only pass a panic on.
PASSED_ON = re.compile(r"panic|handle_\w*error|_error_handler|rt_error|^expect|^unwrap|closure")
CRATE = re.compile(r"/(?:library/|registry/src/[^/]*/)?([\w-]+?)(?:-\d[\w.]*)?/src/")


def run(*command, text=None):
    return subprocess.run(command, input=text, capture_output=True, text=True, check=True).stdout


def short(function):
    """Returns the name of a function without types and hashes."""
    function = re.sub(r"\$LT\$|\$u20\$|\$GT\$", lambda it: {"$LT$": "<", "$GT$": ">"}.get(it[0], " "), function)
    function = re.sub(r"(?<=OUTLINED_FUNCTION)_\d+", "", function)
    function = re.sub(r"::h[0-9a-f]{16}.*|(::_\$u7b.*)| \(\..*", "", function)
    while (without := re.sub(r"<[^<>]*>", "", function)) != function:
        function = without
    parts = [part for part in re.split(r"::|\.\.", function) if part.strip(" _")]
    return "::".join(parts[-2:] if parts[-1] == "assert_failed" else parts[-1:]).strip(" _")


def place(frame):
    """Returns the crate and the function of a frame."""
    function, position = frame
    crate = re.search(CRATE, position)
    return crate[1] if crate else "core", short(function)


function, branches = "", []
for line in run("llvm-objdump", "--disassemble", "--demangle", "--no-show-raw-insn", sys.argv[1]).splitlines():
    if start := re.match(r"[0-9a-f]+ <(.*)>:$", line):
        function = start[1]
    elif branch := re.match(r"\s*([0-9a-f]+):.*\tb[lx.w]*\s.*<(.*?)(?:\+0x[0-9a-f]+)?>", line):
        if PANIC.search(branch[2]) and not PANIC.search(function.rsplit("::", 1)[-1]):
            branches.append("0x" + branch[1])
stacks = run("llvm-symbolizer", "--obj=" + sys.argv[1], "--inlines", "--demangle", text="\n".join(branches))
found = set()
for stack in stacks.strip().split("\n\n"):
    lines = stack.split("\n")
    places = [place(frame) for frame in zip(lines[::2], lines[1::2])]
    library = next((it for it in places if not PASSED_ON.search(it[1])), places[-1])
    ours = next((it for it in places if it[0].startswith("zk-") or it[0] == "firmware"), None)
    names = [": ".join(it) for it in dict.fromkeys([library, ours]) if it]
    found.add(" in ".join(names))
print("\n".join(sorted(found)))
