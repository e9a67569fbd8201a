"""Builds the wrong runtimes of memory_faults*.c: each forwards to a real library and has one fault of the case rows.

python conformance/runtimes/memory.py FOLDER LIBRARY [ROW …]
"""

from __future__ import annotations

import argparse
import os
import re
import subprocess
import sys
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cache
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from kina.header import Prototype, load

HERE = Path(__file__).resolve().parent
INCLUDES = """#define _GNU_SOURCE
#include <dlfcn.h>
#include <pthread.h>
#include <signal.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/sendfile.h>
#include <sys/stat.h>
#include <fcntl.h>
#include <unistd.h>
"""
# A copy of the real library for each copy of the wrong one, under a name of its own, so that nothing is shared.
OPEN = """
static void *open_real(void) {
#ifndef SHARED
  struct stat status;
  char name[64];
  const int from = open(REAL_PATH, O_RDONLY | O_CLOEXEC), to = memfd_create("libkina", MFD_CLOEXEC);
  if (from < 0 || to < 0 || fstat(from, &status) != 0) abort();
  for (off_t left = status.st_size; left > 0;) left -= sendfile(to, from, NULL, (size_t)left);
  snprintf(name, sizeof(name), "/proc/self/fd/%d", to);
  void *library = dlopen(name, RTLD_NOW | RTLD_LOCAL);
  close(from);  // `to` stays: its number makes the name one that no other copy has
#else
  void *library = dlopen(REAL_PATH, RTLD_NOW | RTLD_LOCAL);
#endif
  if (library == NULL) fputs(dlerror(), stderr), abort();
  return library;
}
"""
CONTROL = "none"  # the runtime that forwards everything


@dataclass(frozen=True)
class Fault:
    """What goes wrong, and the C text that does it."""

    text: str
    code: str


@cache
def faults() -> dict[str, Fault]:
    """The sections of the C files by their rows."""
    found: dict[str, Fault] = {CONTROL: Fault("nothing", "")}
    for path in sorted(HERE.glob("memory_faults*.c")):
        parts = re.split(r"^// ==== (P\d\d): (.*)\n", path.read_text(encoding="utf-8"), flags=re.M)
        for row, text, code in zip(parts[1::3], parts[2::3], parts[3::3], strict=True):
            found[row] = Fault(text, code)
    return found


@cache
def shared_text() -> str:
    """What stands before the first heading: the helpers of all sections."""
    return (HERE / "memory_faults.c").read_text(encoding="utf-8").split("// ====")[0]


def _declarations(prototype: Prototype) -> tuple[str, str, str]:
    """Result type, parameter list and argument list of a function, as C has them."""
    pattern = rf"^(.*?)\b{prototype.name}\((.*)\);$"
    match = re.search(pattern, load().cdef, re.M)
    if match is None:
        raise ValueError(f"{prototype.name} is not declared")
    return match.group(1).strip(), match.group(2), ", ".join(p.name for p in prototype.parameters)


def source(row: str) -> str:
    """The C text of one wrong runtime."""
    header, code = load(), faults()[row].code
    wrong = set(re.findall(r"WRONG\((\w+)\)", code))
    constants = {name: value for name, value in header.constants.items() if name.startswith("KINA_")}
    lines = [INCLUDES, *(f"#define {name} {value}" for name, value in constants.items()), header.cdef]
    lines += ["#define WRONG(name) WRONG_##name", "#define REAL(name) REAL_##name"]
    pointers, assignments, forwards = [], [], []
    for prototype in header.prototypes.values():
        result, parameters, arguments = _declarations(prototype)
        name = prototype.name.removeprefix("runtime_")
        call = f"real_{name}({arguments})"
        pointers.append(f"static {result} (*real_{name})({parameters});")
        assignments.append(f'  *(void **)&real_{name} = dlsym(library, "{prototype.name}");')
        if name in wrong:
            pointers.append(f"#define WRONG_{name} {result} {prototype.name}({parameters})")
            pointers.append(f"#define REAL_{name} {call}")
        else:
            back = "" if result == "void" else "return "
            forwards.append(f"{result} {prototype.name}({parameters}) {{ {back}{call}; }}")
    start = ["__attribute__((constructor(101))) static void start(void) {", "  void *library = open_real();"]
    return "\n".join([*lines, *pointers, shared_text(), code, OPEN, *start, *assignments, "}", *forwards]) + "\n"


def build(folder: Path, library: Path, rows: Iterable[str]) -> dict[str, Path]:
    """Compiles the wrong runtimes of these rows over `library`; the path of each."""
    folder.mkdir(parents=True, exist_ok=True)
    compiler = [os.environ.get("CC", "cc"), "-std=gnu11", "-O0", "-w", "-shared", "-fPIC", "-pthread"]

    def compiled(row: str) -> tuple[str, Path]:
        text, out = folder / f"{row}.c", folder / f"lib{row}.so"
        text.write_text(source(row), encoding="utf-8")
        define = f'-DREAL_PATH="{library.resolve()}"'
        subprocess.run([*compiler, define, "-o", str(out), str(text), "-ldl"], check=True)
        return row, out

    with ThreadPoolExecutor(os.cpu_count()) as workers:
        return dict(workers.map(compiled, rows))


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("library", type=Path, help="the real library behind them")
    parser.add_argument("rows", nargs="*", metavar="ROW", help="default: all")
    options = parser.parse_args()
    for path in build(options.folder, options.library, options.rows or faults()).values():
        print(path)
    return 0


if __name__ == "__main__":
    sys.exit(main())
