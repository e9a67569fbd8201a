"""Reads what an ELF library exports: symbols with their version nodes, the SONAME, what it binds by name."""

from __future__ import annotations

import struct
from dataclasses import dataclass, field
from pathlib import Path

_STRTAB, _RELA, _DYNAMIC, _DYNSYM = 3, 4, 6, 11
_VERDEF, _VERSYM = 0x6FFFFFFD, 0x6FFFFFFF
_DT_NULL, _DT_SONAME = 0, 14


@dataclass(frozen=True)
class _Section:
    kind: int
    offset: int
    size: int
    link: int
    info: int


@dataclass
class Elf:
    """One library. `exported` maps each defined global symbol to its version node, "" where it has none."""

    soname: str = ""
    exported: dict[str, str] = field(default_factory=dict)
    bound: set[str] = field(default_factory=set)


def is_elf(path: str | Path) -> bool:
    with open(path, "rb") as file:
        return file.read(4) == b"\x7fELF"


def read(path: str | Path) -> Elf:
    """The dynamic facts of a 64-bit little-endian library."""
    data = Path(path).read_bytes()
    if data[:6] != b"\x7fELF\x02\x01":
        raise ValueError(f"{path} is not a 64-bit little-endian ELF file")
    (start,) = struct.unpack_from("<Q", data, 40)
    step, count = struct.unpack_from("<HH", data, 58)
    sections = []
    for i in range(count):
        _, kind, _, _, offset, size, link, info = struct.unpack_from("<IIQQQQII", data, start + i * step)
        sections.append(_Section(kind, offset, size, link, info))
    found = Elf()
    symbols = _symbols(data, sections)
    nodes = _nodes(data, sections)
    versions = _versions(data, sections)
    for i, (name, info, shndx) in enumerate(symbols):
        if name and shndx != 0 and info >> 4 in {1, 2} and shndx != 0xFFF1:
            found.exported[name] = nodes.get(versions[i] & 0x7FFF, "") if versions else ""
    for section in sections:
        if section.kind == _DYNAMIC:
            strings = sections[section.link]
            for tag, value in struct.iter_unpack("<qQ", data[section.offset : section.offset + section.size]):
                if tag == _DT_NULL:
                    break
                if tag == _DT_SONAME:
                    found.soname = _string(data, strings.offset + value)
        elif section.kind == _RELA:
            for _, info, _ in struct.iter_unpack("<QQq", data[section.offset : section.offset + section.size]):
                if info >> 32 and info >> 32 < len(symbols):
                    found.bound.add(symbols[info >> 32][0])
    return found


def _string(data: bytes, at: int) -> str:
    return data[at : data.index(b"\0", at)].decode()


def _symbols(data: bytes, sections: list[_Section]) -> list[tuple[str, int, int]]:
    table = next((s for s in sections if s.kind == _DYNSYM), None)
    if table is None:
        return []
    strings = sections[table.link].offset
    rows = struct.iter_unpack("<IBBHQQ", data[table.offset : table.offset + table.size])
    return [(_string(data, strings + name), info, shndx) for name, info, _, shndx, _, _ in rows]


def _versions(data: bytes, sections: list[_Section]) -> list[int]:
    table = next((s for s in sections if s.kind == _VERSYM), None)
    if table is None:
        return []
    return [row[0] for row in struct.iter_unpack("<H", data[table.offset : table.offset + table.size])]


def _nodes(data: bytes, sections: list[_Section]) -> dict[int, str]:
    """Version numbers to the names of the nodes that define them."""
    table = next((s for s in sections if s.kind == _VERDEF), None)
    if table is None:
        return {}
    nodes, at, strings = {}, table.offset, sections[table.link].offset
    for _ in range(table.info):
        _, _, number, _, _, aux, following = struct.unpack_from("<HHHHIII", data, at)
        (name,) = struct.unpack_from("<I", data, at + aux)
        nodes[number] = _string(data, strings + name)
        at += following
    return nodes
