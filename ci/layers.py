"""Who may include whom: every #include of a project file points down the layers of docs/architecture.md."""

import re
import sys
import tempfile
from pathlib import Path

VALUES = {
    "error",
    "messages",
    "status",
    "dtype",
    "dtypes",
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


def violations(root: Path) -> list[str]:
    found = []
    for folder in sorted({row.split("/")[0] for row in MAY_INCLUDE}):
        for file in sorted(p for p in (root / folder).rglob("*") if p.suffix in SOURCES):
            name = str(file.relative_to(root))
            here = room(name)
            if here not in MAY_INCLUDE:
                found.append(f"{name}:1: {here} is no room of docs/architecture.md; add its row there and in ci/layers")
                continue
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


def self_test() -> list[str]:
    """Each line is a file with one forbidden include; the check must name exactly these."""
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
    }
    right = {
        "impl/sim/a.cpp": "impl/cpu/a.h",
        "impl/backends.cpp": "impl/cuda/backend.h",
        "impl/tests/t.cpp": "impl/cpu/a.h",
        "impl/api/free.cpp": "impl/core/storage.h",
    }
    with tempfile.TemporaryDirectory() as folder:
        for name, target in (wrong | right).items():
            file = Path(folder, name)
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(f'#include <vector>\n#include "{target}"\n')
        named = {line.split(":")[0] for line in violations(Path(folder))}
    return [f"self-test: {name} was not refused" for name in sorted(wrong.keys() - named)] + [
        f"self-test: {name} was refused" for name in sorted(named - wrong.keys())
    ]


def main() -> int:
    root = Path(__file__).resolve().parent.parent
    files = sum(1 for folder in ("impl", "include") for p in (root / folder).rglob("*") if p.suffix in SOURCES)
    problems = violations(root) + self_test() + ([] if files > 1 else ["impl: no source was found to check"])
    for problem in problems:
        print(problem)
    checked = files + 15 - len({p.split(":")[0] for p in problems})
    print(f"{max(checked, 0)} passed, {len(problems)} failed, 0 skipped")
    return bool(problems)


sys.exit(main())
