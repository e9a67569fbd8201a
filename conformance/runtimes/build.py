"""Builds runtimes that are wrong on purpose, from the header: each exports all functions and does one thing badly.

    python conformance/runtimes/build.py FOLDER [NAME …] [--forward LIBRARY]

With `--forward` every call goes to a real library except those that the runtime spoils.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from kina.header import Prototype, load

PRELUDE = """
#include <dlfcn.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>
"""
CRASH = "raise(SIGSEGV);"
HANG = "for (;;) pause();"
EXIT = "exit(0);"
PRINT = 'printf("working\\n");'
FORK = "if (fork() == 0) for (;;) pause();"

# An empty out gets memory and no values; offsets in KinaTensor: magic 76, dl.shape 24, dl.ndim 16, dl.dtype 20.
UNWRITTEN = """
char *empty = out, *source = in;
if (!empty[76]) {
  int32_t (*allocate)(void *, void *, int32_t, uint32_t, int32_t, int32_t, void *) = real("runtime_alloc");
  return allocate(out, *(void **)(source + 24), *(int32_t *)(source + 16), *(uint32_t *)(source + 20), 1, 0, 0);
}
"""
# One byte behind a borrowed tensor's memory (dl.data 0, size_bytes 64, handle 80).
OVERFLOW = """
char *given = tensor;
if (given && given[76] && *(uint64_t *)(given + 80) == 0 && *(char **)given)
  (*(char **)given)[*(uint64_t *)(given + 64)] ^= 1;
"""
# A sum where the mean was asked for.
SUM_FOR_MEAN = "if ((op & 0xFFFF) == 0x301) --op;"
FORWARD_ONLY = {"unwritten", "overflow", "sum_for_mean"}

# name: (status of every call, {function: what it does first}, what happens at load)
RUNTIMES: dict[str, tuple[str, dict[str, str], str]] = {
    "success": ("SUCCESS", {}, ""),
    "unsupported": ("UNSUPPORTED", {}, ""),
    "invalid_argument": ("INVALID_ARGUMENT", {}, ""),
    "crash": ("UNSUPPORTED", {"runtime_gpu_reduce": CRASH}, ""),
    "hang": ("UNSUPPORTED", {"runtime_gpu_reduce": HANG}, ""),
    "exit": ("UNSUPPORTED", {"runtime_gpu_reduce": EXIT}, ""),
    "print": ("UNSUPPORTED", {"runtime_gpu_reduce": PRINT}, ""),
    "fork": ("UNSUPPORTED", {"runtime_gpu_reduce": FORK}, ""),
    "unwritten": ("UNSUPPORTED", {"runtime_gpu_unary": UNWRITTEN}, ""),
    "overflow": ("UNSUPPORTED", {"runtime_fill": OVERFLOW}, ""),
    "sum_for_mean": ("UNSUPPORTED", {"runtime_gpu_reduce": SUM_FOR_MEAN}, ""),
    "crash_at_load": ("UNSUPPORTED", {}, CRASH),
    "exit_at_load": ("UNSUPPORTED", {}, EXIT),
}


def c_type(text: str) -> str:
    """A type of the same size and class, so that no header is needed."""
    if text.endswith("*") or text in {"KinaStream", "KinaScope", "KinaResource", "KinaWeak", "KinaPeer"}:
        return "void *"
    if text in {"uint32_t", "uint64_t", "int64_t", "int32_t", "void"}:
        return text
    return "uint32_t" if text == "KinaDtype" else "void *" if text.endswith("Callback") else "int32_t"


def _answer(prototype: Prototype, status: int) -> str:
    if prototype.result == "void":
        return ""
    if prototype.name == "runtime_abi_version":
        return f"return {load().constants['KINA_ABI_VERSION']};"
    if prototype.result == "KinaStatus":
        return f"return {status};"
    return 'return (void *)"";' if prototype.result.endswith("*") else "return 1;"


def source(status: str, spoilt: dict[str, str], at_load: str, forward: str) -> str:
    """The C text of one runtime."""
    constants = load().constants
    number = constants["KINA_SUCCESS" if status == "SUCCESS" else f"KINA_ERROR_{status}"]
    lines = [PRELUDE]
    if forward:
        lines.append(
            f"static void *real(const char *name) {{ static void *library; "
            f'if (!library) library = dlopen("{forward}", RTLD_NOW | RTLD_LOCAL); '
            f"return dlsym(library, name); }}"
        )
    if at_load:
        lines.append(f"__attribute__((constructor)) static void at_load(void) {{ {at_load} }}")
    for prototype in load().prototypes.values():
        parameters = ", ".join(f"{c_type(p.type)} {p.name}" for p in prototype.parameters) or "void"
        result, first = c_type(prototype.result), spoilt.get(prototype.name, "")
        body = _answer(prototype, number)
        if forward:
            types = ", ".join(c_type(p.type) for p in prototype.parameters) or "void"
            names = ", ".join(p.name for p in prototype.parameters)
            call = f'(({result} (*)({types}))real("{prototype.name}"))({names});'
            body = call if prototype.result == "void" else f"return {call}"
        unused = "".join(f"(void){p.name};" for p in prototype.parameters)
        lines.append(f"{result} {prototype.name}({parameters}) {{ {unused} {first} {body} }}")
    return "\n".join(lines) + "\n"


def build(folder: Path, name: str, forward: str = "") -> Path:
    """Compiles one runtime and returns its path."""
    status, spoilt, at_load = RUNTIMES[name]
    folder.mkdir(parents=True, exist_ok=True)
    text, library = folder / f"{name}.c", folder / f"lib{name}.so"
    text.write_text(source(status, spoilt, at_load, forward), encoding="utf-8")
    compiler = os.environ.get("CC", "cc")
    command = [compiler, "-std=gnu11", "-O1", "-w", "-shared", "-fPIC", "-o", str(library), str(text), "-ldl"]
    subprocess.run(command, check=True)
    return library


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"of {', '.join(RUNTIMES)}; default: all")
    parser.add_argument("--forward", default="", help="a real library that answers what is not spoilt")
    options = parser.parse_args()
    for name in options.names or [n for n in RUNTIMES if options.forward or n not in FORWARD_ONLY]:
        print(build(options.folder, name, str(Path(options.forward).resolve()) if options.forward else ""))
    return 0


if __name__ == "__main__":
    sys.exit(main())
