"""What a Mach-O file says of itself: its install name, what it exports to the loader, what it loads, its machine.

Usage: macho.py LIBRARY MACHINE [PROGRAM [LIST]]: the library must carry the install name and export the header's functions;
the program must load it by that name; the export list handed to the linker must name the same functions. zig's linker does
not read that list, so TOOLCHAIN names what it leaves visible besides (docs/decisions/002-macos-exports.md).
"""

import re
import struct
import sys
from dataclasses import dataclass, field
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
INSTALL_NAME = "@rpath/libkina.1.dylib"
MACHINES = {"x86_64": 0x01000007, "aarch64": 0x0100000C}
TOOLCHAIN = {"___dso_handle", "__mh_dylib_header", "__mh_execute_header"} | {
    f"__Z{operator}" + suffix  # operator new and delete, in their plain, sized and aligned forms
    for operator in ("nwm", "nam", "dlPv", "daPv")
    for suffix in ("", "m", "St11align_val_t", "mSt11align_val_t", "RKSt9nothrow_t", "St11align_val_tRKSt9nothrow_t")
}
LOAD_DYLIB, ID_DYLIB, INFO, INFO_ONLY, EXPORTS_TRIE = 0xC, 0xD, 0x22, 0x80000022, 0x80000033


@dataclass
class Image:
    machine: int
    install_name: str = ""
    loads: list[str] = field(default_factory=list)
    exports: set[str] = field(default_factory=set)


def number(data: bytes, at: int) -> tuple[int, int]:
    """An unsigned LEB128 number and the place behind it."""
    value = shift = 0
    while True:
        value |= (data[at] & 0x7F) << shift
        shift += 7
        at += 1
        if data[at - 1] < 0x80:
            return value, at


def walk(trie: bytes, at: int, prefix: str) -> set[str]:
    """The names in the export trie below a node."""
    size, at = number(trie, at)
    names = {prefix} if size else set()
    at += size
    for _ in range(trie[at]):
        end = trie.index(0, at + 1)
        label, (child, at_next) = trie[at + 1 : end].decode(), number(trie, end + 1)
        names |= walk(trie, child, prefix + label)
        at = at_next - 1
    return names


def read(path: Path) -> Image:
    data = path.read_bytes()
    magic, machine, _, _, commands, *_ = struct.unpack_from("<8I", data)
    if magic != 0xFEEDFACF:
        sys.exit(f"{path} is no 64-bit Mach-O file")
    image, at = Image(machine), 32
    for _ in range(commands):
        command, size = struct.unpack_from("<2I", data, at)
        if command in (LOAD_DYLIB, ID_DYLIB):
            (offset,) = struct.unpack_from("<I", data, at + 8)
            name = data[at + offset : at + size].split(b"\0")[0].decode()
            if command == ID_DYLIB:
                image.install_name = name
            else:
                image.loads.append(name)
        elif command in (INFO, INFO_ONLY, EXPORTS_TRIE):
            start, length = struct.unpack_from("<2I", data, at + (8 if command == EXPORTS_TRIE else 40))
            if length:
                image.exports = walk(data[start : start + length], 0, "")
        at += size
    return image


def main(library: Path, machine: str, program: str = "", export_list: str = "") -> int:
    text = (ROOT / "include/kina_runtime.h").read_text()
    functions = {f"_{name}" for name in re.findall(r"^KINA_API[^;(]*?\b(runtime_\w+)\(", text, re.M)}
    image = read(library)
    problems = []
    if image.machine != MACHINES[machine]:
        problems.append(f"is not for {machine}")
    if image.install_name != INSTALL_NAME:
        problems.append(f"has the install name '{image.install_name}', not {INSTALL_NAME}")
    if difference := sorted((image.exports - TOOLCHAIN) ^ functions):
        problems.append(f"exports and header differ in {difference[:8]}")
    if export_list and (difference := sorted(set(Path(export_list).read_text().split()) ^ functions)):
        problems.append(f"has an export list that differs from the header in {difference[:8]}")
    if stray := [name for name in image.loads if not name.startswith("/usr/lib/")]:
        problems.append(f"loads {stray}")
    if program and INSTALL_NAME not in read(Path(program)).loads:
        problems.append(f"is not what {program} loads")
    for problem in problems:
        print(f"{library} {problem}")
    return bool(problems)


sys.exit(main(Path(sys.argv[1]), *sys.argv[2:]))
