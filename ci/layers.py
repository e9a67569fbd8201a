"""Who may include whom: every file lies in a room of docs/architecture.md, every #include points down its layers."""

import re
import subprocess
import sys
import tempfile
from pathlib import Path

VALUES = {
    "error",
    "messages",
    "dtype",
    "half",
    "geometry",
}  # core's value types: a backend may know these and nothing else of core
DEVICES = ["impl/cpu", "impl/cuda", "impl/sim"]
MAY_INCLUDE = {
    "include": ["dlpack"],
    "kernels": ["kernels"],
    "impl/core/values": ["include", "dlpack", "impl/core/values"],
    "impl/backend": ["include", "dlpack", "impl/core/values", "impl/backend"],
    "impl/core": ["include", "dlpack", "impl/core/values", "impl/core", "impl/backend"],
    "impl/memory": ["include", "dlpack", "impl/core/values", "impl/core", "impl/backend", "impl/memory"],
    "impl/api": ["include", "dlpack", "impl/core/values", "impl/core", "impl/backend", "impl/memory", "impl/api"],
    "impl/backends.cpp": ["*"],
    "impl/tests": ["*"],
    "impl/bench": ["*"],
    "conformance": ["include", "dlpack", "conformance"],
    "fuzz": ["include", "dlpack", "fuzz"],
    "ci": ["include", "dlpack", "ci", "conformance"],
} | {
    device: ["include", "dlpack", "kernels", "impl/core/values", "impl/core", "impl/backend", "impl/memory", device]
    + (["impl/cpu"] if device == "impl/sim" else [])
    for device in DEVICES
}
PAGE = "docs/architecture.md"
SOURCES = {".h", ".hpp", ".c", ".cpp", ".def", ".cu", ".cuh"}


def room(path: str) -> str:
    """The row of MAY_INCLUDE that a path belongs to."""
    if path == "kina_runtime.h":
        return "include"
    parts = path.split("/")
    if parts[0] != "impl":
        return parts[0]
    if parts[:2] == ["impl", "core"] and parts[-1].split(".")[0] in VALUES:
        return "impl/core/values"
    return "/".join(parts[:2])


def rooms_of(page: str) -> set[str]:
    """The first column of the table of rooms."""
    rows = re.findall(r"^\| (`.*?) \|", page.split("## The way of a call")[0], re.M)
    return {name for row in rows for name in re.findall(r"`([^`]+)`", row)}


def strangers(names: list[str], rooms: set[str]) -> list[str]:
    """Files that lie in no room; what lies at the root, or below a folder with a dot, belongs to git and the tools."""
    homeless = [name for name in names if "/" in name and name[0] != "." and not rooms & {room(name), parent(name)}]
    return [f"{name}:1: {room(name)} is no room of {PAGE}" for name in homeless]


def parent(path: str) -> str:
    """The room of a file of core is core, a value or not."""
    return "/".join(room(path).split("/")[:2])


def violations(root: Path, names: list[str]) -> list[str]:
    found = []
    for name in sorted(n for n in names if Path(n).suffix in SOURCES and room(n) in MAY_INCLUDE):
        file, here = root / name, room(name)
        allowed = MAY_INCLUDE[here]
        for number, line in enumerate(file.read_text().splitlines(), 1):
            match = re.match(r'\s*#\s*include\s*(["<])([^">]+)[">]', line)
            if not match:
                continue
            quoted, target = match[1] == '"', match[2]
            if quoted and not target.startswith(("impl/", "kernels/", "fuzz/")) and target != "kina_runtime.h":
                sibling = file.parent / target
                if not sibling.exists():
                    continue  # a generated file, or a library's header in quotes
                target = str(sibling.resolve().relative_to(root.resolve()))
            there = room(target)
            known = there in MAY_INCLUDE or there in ("dlpack", "impl") or target.startswith(("impl/", "kernels/"))
            if known and there not in allowed and "*" not in allowed:
                found.append(f"{name}:{number}: {here} may not include {target} ({there})")
    return found


def disagreements(names: list[str], rooms: set[str]) -> list[str]:
    """What this file says of the tree, against the tree and the page."""
    values = {Path(name).stem for name in names if name.startswith("impl/core/")}
    found = [f"ci/layers.py:1: VALUES names {name}, which impl/core has not" for name in sorted(VALUES - values)]
    unlisted = {"/".join(row.split("/")[:2]) for row in MAY_INCLUDE} - rooms
    return found + [f"ci/layers.py:1: {row} is no room of {PAGE}" for row in sorted(unlisted)]


def self_test(rooms: set[str]) -> list[str]:
    """Each line is a file with one forbidden include, or in no room; the check must name exactly these."""
    wrong = {
        "impl/api/matmul.cpp": "impl/cpu/matmul.h",
        "impl/cpu/a.cpp": "impl/cuda/a.h",
        "impl/cpu/b.cpp": "impl/api/boundary.h",
        "impl/core/dtype.h": "impl/core/storage.h",
        "impl/core/storage.h": "impl/memory/pool.h",
        "impl/backend/backend.h": "impl/core/storage.h",
        "impl/memory/pool.cpp": "impl/cpu/a.h",
        "conformance/programs/x.c": "impl/core/dtype.h",
        "kernels/x.cuh": "kina_runtime.h",
        "include/kina_runtime.h": "impl/core/dtype.h",
        "impl/util/x.h": "kina_runtime.h",
        "tools/x.py": "kina_runtime.h",
    }
    right = {
        "impl/sim/a.cpp": "impl/cpu/a.h",
        "impl/backends.cpp": "impl/cuda/backend.h",
        "impl/tests/t.cpp": "impl/cpu/a.h",
        "impl/api/free.cpp": "impl/core/storage.h",
        ".ci/run.c": "impl/core/storage.h",
        "spec/tables/x.toml": "impl/core/storage.h",
    }
    names = [*wrong, *right]
    with tempfile.TemporaryDirectory() as folder:
        for name, target in (wrong | right).items():
            file = Path(folder, name)
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(f'#include <vector>\n#include "{target}"\n')
        problems = strangers(names, rooms) + violations(Path(folder), names)
    named = {line.split(":")[0] for line in problems}
    lost = [f"self-test: {name} was not refused" for name in sorted(wrong.keys() - named)]
    return lost + [f"self-test: {name} was refused" for name in sorted(named - wrong.keys())]


def main() -> int:
    root = Path(__file__).resolve().parent.parent
    listed = subprocess.run(
        ["git", "ls-files", "-co", "--exclude-standard"], cwd=root, capture_output=True, text=True, check=True
    )
    names = [name for name in listed.stdout.splitlines() if (root / name).exists()]
    rooms = rooms_of((root / PAGE).read_text())
    problems = strangers(names, rooms) + violations(root, names) + disagreements(names, rooms) + self_test(rooms)
    problems += [] if len(names) > 100 else ["impl: no source was found to check"]
    for problem in problems:
        print(problem)
    print(f"{len(set(names) - {p.split(':')[0] for p in problems})} passed, {len(problems)} failed")
    return bool(problems)


sys.exit(main())
