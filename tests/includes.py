#!/usr/bin/python3
# SPDX-License-Identifier: GPL-2.0-or-later
"""Includes below daemon/ go the way that daemon/README.md draws: each folder includes only those
that its line names.

The drawing is checked from both sides: an include that it does not show fails, and so does an arrow
that no include needs. A line points at lines further down only, so no folders include each other in
a circle.

Each source file below daemon/ has a unit test beside it in tests/unit, or is named in
tests/README.md, which says where it is shown.
"""
import pathlib
import re
import sys

TOP = pathlib.Path(__file__).resolve().parent.parent
DAEMON = TOP / "daemon"
FILES_MAX = 20  # source files in a folder
GENERATED = {"tsnat.skel.h"}  # from tsnat.bpf.c, for the files beside it

failed = False


def check(text, wrong):
    global failed
    print(f"{'not ok' if wrong else 'ok'} - {text}")
    for line in wrong:
        print(f"#   {line}")
    failed = failed or bool(wrong)


def drawing():
    """folder -> the folders its line in the README points at, in the README's order."""
    arrows = {}
    for line in (DAEMON / "README.md").read_text().splitlines():
        m = re.fullmatch(r"    +([a-z_]+)/ .* -> ([a-z_ ]+)", line)
        if m:
            arrows[m[1]] = m[2].split()
    names = list(arrows)
    for folder, to in arrows.items():
        below = names[names.index(folder) + 1:]
        arrows[folder] = [] if to == ["nothing"] else below if to == ["all", "below"] else to
    return arrows


def folder_of(path):
    return path.relative_to(DAEMON).parts[0] if path.parent != DAEMON else "daemon"


def included(path):
    """(line number, file) of each file of ours that a source file includes."""
    for n, line in enumerate(path.read_text().splitlines(), 1):
        m = re.match(r'\s*#\s*include\s+"([^"]+)"', line)
        if m and m[1] not in GENERATED:
            found = [p for p in (path.parent / m[1], DAEMON / m[1]) if p.is_file()]
            yield n, found[0].resolve() if found else pathlib.Path(m[1])


sources = sorted(p for p in DAEMON.rglob("*") if p.suffix in (".c", ".h"))
arrows = drawing()
folders = {folder_of(p) for p in sources}
check("daemon/README.md draws every folder below daemon/ and no other",
      [f"{f}: {'not drawn' if f in folders else 'not there'}"
       for f in sorted(folders ^ set(arrows))])
names = list(arrows)
check("arrows point down",
      [f"{a} -> {b}" for a in names for b in arrows[a] if b not in names[names.index(a) + 1:]])

against, needed = [], set()
for p in sources:
    for n, target in included(p):
        where = f"{p.relative_to(TOP)}:{n}"
        if not target.is_absolute() or DAEMON not in target.parents:
            against.append(f"{where}: {target} is not a file below daemon/")
            continue
        a, b = folder_of(p), folder_of(target)
        if a != b:
            needed.add((a, b))
            if b not in arrows.get(a, []):
                against.append(f"{where}: {a} -> {b} is not drawn")
check(f"{len(sources)} files include as daemon/README.md draws it", against)
check(f"each of the {len(needed)} arrows is needed by an include",
      [f"{a} -> {b}" for a in names for b in arrows[a] if (a, b) not in needed])
check(f"no folder holds more than {FILES_MAX} source files",
      [f"{f}: {n}" for f in sorted(folders)
       if (n := sum(folder_of(p) == f for p in sources)) > FILES_MAX])


def is_tested(path):
    """By its own unit test, or by one that tests/README.md names for it or for its .c file."""
    name = path.relative_to(DAEMON)
    beside = [p for p in (path, path.with_suffix(".c")) if p.is_file()]
    return ((TOP / "tests/unit" / name.parent / f"{path.stem}-test.c").is_file()
            or any(f"`{p.name}`" in tests_readme for p in beside))


tests_readme = (TOP / "tests/README.md").read_text()
check("each source file has a test of its name or is named in tests/README.md",
      [str(p.relative_to(TOP)) for p in sources if not is_tested(p)])
sys.exit(failed)
