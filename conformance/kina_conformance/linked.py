"""Writes ELF libraries that are linked against a runtime, without a linker: no code, only a table of addresses."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from pathlib import Path

from .elf import read

_HEADER, _SEGMENT, _ENTRY = 64, 56, 24
_LOAD, _DYNAMIC, _STACK = 1, 2, 0x6474E551
_READ_WRITE = 6
_NEEDED, _HASH, _STRINGS, _SYMBOLS, _RELOCATIONS, _RELOCATION_BYTES = 1, 4, 5, 6, 7, 8
_RELOCATION_ENTRY, _STRING_BYTES, _SYMBOL_ENTRY, _SONAME, _RUNPATH = 9, 10, 11, 14, 29
_GLOBAL_OBJECT, _GLOBAL_FUNCTION = 0x11, 0x12
_ADDRESS_OF = {62: 1, 183: 257}  # the relocation that stores a symbol's address: x86-64, aarch64


class _Strings:
    def __init__(self) -> None:
        self.data = b"\0"

    def add(self, text: str) -> int:
        self.data += text.encode() + b"\0"
        return len(self.data) - len(text.encode()) - 1


def write(folder: Path, name: str, runtime: str | Path, functions: Sequence[str]) -> Path:
    """A library whose table `functions` the loader fills with the runtime's; the runtime is found beside it."""
    soname = read(runtime).soname or Path(runtime).name
    beside = folder / soname
    if not beside.exists():
        beside.symlink_to(Path(runtime).resolve())
    (machine,) = struct.unpack_from("<H", Path(runtime).read_bytes(), 18)
    strings = _Strings()
    texts = {_NEEDED: soname, _SONAME: name, _RUNPATH: str(folder)}
    dynamic = {tag: strings.add(text) for tag, text in texts.items()}

    count = len(functions)
    symbols_at = _HEADER + 3 * _SEGMENT
    relocations_at = symbols_at + (count + 2) * _ENTRY
    hash_at = relocations_at + count * _ENTRY
    table_at = hash_at + (4 * (2 + 1 + count + 2) + 7) // 8 * 8
    dynamic_at = table_at + 8 * count

    symbols = bytes(_ENTRY)
    for function in functions:
        symbols += struct.pack("<IBBHQQ", strings.add(function), _GLOBAL_FUNCTION, 0, 0, 0, 0)
    symbols += struct.pack("<IBBHQQ", strings.add("functions"), _GLOBAL_OBJECT, 0, 1, table_at, 8 * count)
    relocations = b"".join(
        struct.pack("<QQq", table_at + 8 * i, (i + 1) << 32 | _ADDRESS_OF[machine], 0) for i in range(count)
    )
    # One bucket: the chain goes from the last symbol down to the first.
    chain = struct.pack(f"<{count + 5}I", 1, count + 2, count + 1, 0, *range(count + 1))

    strings_at = dynamic_at + 16 * (len(dynamic) + 9)
    dynamic |= {_HASH: hash_at, _STRINGS: strings_at, _STRING_BYTES: len(strings.data), _SYMBOLS: symbols_at}
    dynamic |= {_SYMBOL_ENTRY: _ENTRY, _RELOCATIONS: relocations_at, _RELOCATION_BYTES: len(relocations)}
    dynamic |= {_RELOCATION_ENTRY: _ENTRY}
    entries = b"".join(struct.pack("<qQ", *entry) for entry in [*dynamic.items(), (0, 0)])

    size = strings_at + len(strings.data)
    identity = b"\x7fELF\x02\x01\x01" + bytes(9)
    header = identity + struct.pack("<HHIQQQIHHHHHH", 3, machine, 1, 0, _HEADER, 0, 0, _HEADER, _SEGMENT, 3, 64, 0, 0)
    segments = b"".join(
        struct.pack("<IIQQQQQQ", kind, _READ_WRITE, at, at, at, bytes_, bytes_, align)
        for kind, at, bytes_, align in [
            (_LOAD, 0, size, 0x10000),
            (_DYNAMIC, dynamic_at, len(entries), 8),
            (_STACK, 0, 0, 16),
        ]
    )
    body = header + segments + symbols + relocations + chain
    body = body.ljust(table_at, b"\0") + bytes(8 * count) + entries + strings.data
    assert len(body) == size
    made = folder / name
    made.write_bytes(body)
    return made
