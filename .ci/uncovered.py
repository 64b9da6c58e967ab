"""Prints the coverage of each file of the codec and the cores from a report of lcov, and the lines that were not run,
then that of each part."""

import pathlib
import re
import sys

COVERED = re.compile(
    r"crates/(zk-proto/src/[^/]+\.rs"
    r"|zk-session/src/(session|dispatch)/.*"
    r"|zk-session/src/(chroot|connect_string|end|error|growth|time|sasl/mod|sasl/digest_md5)\.rs"
    r"|zk-recipes/src/(?!bin|client)\w+/(?!recipe).*)$"
)
PARTS = {
    "crates/zk-proto/": "zk-proto",
    "crates/zk-session/src/session/": "the session core",
    "crates/zk-session/src/dispatch/": "the dispatcher",
    "crates/zk-session/": "the rest of zk-session",
    "crates/zk-recipes/": "the machines",
}


def read(report):
    """Returns the count of each line of each file."""
    files = {}
    for line in report.splitlines():
        kind, _, rest = line.partition(":")
        if kind == "SF":
            lines = files.setdefault(rest, {})
        elif kind == "DA":
            number, count = rest.split(",")[:2]
            lines[int(number)] = max(lines.get(int(number), 0), int(count))
    return files


def ranges(numbers):
    """Returns numbers as in 3, 5-7."""
    found = []
    for number in numbers:
        if found and found[-1][1] == number - 1:
            found[-1][1] = number
        else:
            found.append([number, number])
    return ", ".join(str(a) if a == b else f"{a}-{b}" for a, b in found)


def share(missed, lines):
    return f"{100 * (1 - missed / max(lines, 1)):6.2f} %"


def main():
    report, least = sys.argv[1], float(sys.argv[2])
    root = pathlib.Path.cwd()
    # The lines that were not run, and all lines.
    parts = {part: [0, 0] for part in PARTS}
    for path, lines in sorted(read(pathlib.Path(report).read_text()).items()):
        name = str(pathlib.Path(path).relative_to(root)) if path.startswith(str(root)) else path
        if not COVERED.match(name) or "/tests" in name:
            continue
        missed = [number for number, count in sorted(lines.items()) if count == 0]
        part = parts[next(part for part in PARTS if name.startswith(part))]
        part[0] += len(missed)
        part[1] += len(lines)
        print(f"{share(len(missed), len(lines))}  {name}  {ranges(missed)}".rstrip())
    print()
    for part, (missed, lines) in parts.items():
        print(f"{share(missed, lines)}  of {lines:5} lines of {PARTS[part]}")
    missed, lines = (sum(column) for column in zip(*parts.values()))
    print(f"{share(missed, lines)}  of {lines:5} lines; at least {least} % of each part are required")
    sys.exit(any(lines == 0 or 100 * missed > (100 - least) * lines for missed, lines in parts.values()))


main()
