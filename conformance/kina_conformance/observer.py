"""What is known of a run from inside: the journal of calls in mapped memory, rows seen, counts."""

from __future__ import annotations

import mmap
import struct
import time
from pathlib import Path
from typing import Any

from .contract import Contract

SIZE = 4096
_CALL = struct.Struct("<QIId")  # calls made, index of the function, 1 while inside it, when it was entered
_TEST_AT, _TEST_BYTES = 64, 512
_TEXT_AT, _TEXT_BYTES = 1024, 2048


class Journal:
    """A page shared with the runner: the call in progress is written before it is made."""

    def __init__(self, path: Path | None) -> None:
        if path is None:
            self.page = mmap.mmap(-1, SIZE)
        else:
            with path.open("r+b") as file:
                self.page = mmap.mmap(file.fileno(), SIZE)

    def enter(self, calls: int, index: int) -> None:
        _CALL.pack_into(self.page, 0, calls, index, 1, time.monotonic())

    def leave(self, calls: int, index: int) -> None:
        _CALL.pack_into(self.page, 0, calls, index, 0, 0.0)

    def test(self, name: str) -> None:
        self._write(_TEST_AT, _TEST_BYTES, name)
        self._write(_TEXT_AT, _TEXT_BYTES, "")

    def text(self, call: str) -> None:
        """The next call with its arguments, as a person reads it."""
        self._write(_TEXT_AT, _TEXT_BYTES, call)

    def last_text(self) -> str:
        """The last call that `text` was given; empty where the test has made none."""
        return self._read(_TEXT_AT)

    def _write(self, at: int, room: int, text: str) -> None:
        data = text.encode()[: room - 2]
        self.page[at : at + len(data) + 2] = len(data).to_bytes(2, "little") + data

    def _read(self, at: int) -> str:
        length = int.from_bytes(self.page[at : at + 2], "little")
        return self.page[at + 2 : at + 2 + length].decode(errors="replace")

    def state(self) -> tuple[int, int, bool, float, str, str]:
        """Calls, function index, inside, entered at, test, text: as the runner reads it."""
        calls, index, inside, entered = _CALL.unpack_from(self.page, 0)
        return calls, index, bool(inside), entered, self._read(_TEST_AT), self._read(_TEXT_AT)


class Witness:
    """Sees every call of the process: counts, rows of (function, status), answers outside the tags."""

    def __init__(self, contract: Contract, status_names: dict[int, str], journal: Journal) -> None:
        self.journal = journal
        self.calls = 0
        self.failing = 0
        self.rows: set[tuple[str, str]] = set()
        self.undeclared: list[tuple[str, str]] = []
        self.distinct: set[int] = set()
        self._names = list(contract.header.prototypes)
        self._functions = [contract.functions[name] for name in self._names]
        self._fallible = [function.fallible for function in self._functions]
        self._status_names = status_names

    def entered(self, index: int, arguments: tuple[Any, ...]) -> None:
        self.calls += 1
        self.journal.enter(self.calls, index)

    def returned(self, index: int, result: Any) -> None:
        self.journal.leave(self.calls, index)
        if result == 0 or not self._fallible[index]:
            return
        self.failing += 1
        row = (self._names[index], self._status_names.get(result, f"status {result}"))
        self.rows.add(row)
        tags = self._functions[index].tags
        if row[1].startswith("status ") or (tags is not None and row[1] not in tags.errors):
            self.undeclared.append(row)
