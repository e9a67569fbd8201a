"""The error record of the thread, and what the harness raises when a clause is broken."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .executor import Executor

POISONS = (0xA5, 0x5A)
POISON = bytes([POISONS[0]]) * 4096


class Violation(AssertionError):
    """The library broke a clause; `clause` names it where the harness, not the test, found it."""

    def __init__(self, message: str, clause: str | None = None) -> None:
        super().__init__(f"{message} [{clause}]" if clause else message)
        self.clause = clause


class Record:
    """The error record of this thread. Where `runtime_last_error` itself is broken it is unreadable: the chapter
    *status* fails for that, and the others are still judged by the rest of what they promise."""

    def __init__(self, rt: Executor) -> None:
        info = rt.ffi.new("KinaErrorInfo *")
        size = rt.ffi.sizeof("KinaErrorInfo")
        rt.ffi.memmove(info, POISON[:size], size)
        info.struct_size = size
        answered = rt.function("runtime_last_error")(info)
        self.bytes = bytes(rt.ffi.buffer(info))
        self.readable = answered == 0 and self.bytes[4:] != POISON[: size - 4]
        if not self.readable:
            rt.ffi.memmove(info, bytes(size), size)
        self.status = rt.lib.status_name(info.status)
        self.category = int(info.category)
        self.retryable = int(info.retryable)
        self.argument = int(info.argument)
        self.failure = int(info.failure)
        self.requested_bytes = int(info.requested_bytes)
        self.function = rt.string(info.function)
        self.argument_name = rt.string(info.argument_name)
        self.clause = rt.string(info.clause)
        self.message = rt.string(info.message)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Record) and (self.bytes, self.message) == (other.bytes, other.message)

    def __repr__(self) -> str:
        if not self.readable or self.status == "SUCCESS":
            return "no record" if self.readable else "record unreadable"
        blamed = f", argument {self.argument} ({self.argument_name})" if self.argument else ""
        return f"{self.status} in {self.function}{blamed}, {self.clause or 'no clause'}: {self.message}"
