"""What Python code sees of a call that failed."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .runtime import Runtime


class KinaError(RuntimeError):
    """A status that is not SUCCESS, with the runtime's own words for it."""

    def __init__(self, status: str, message: str, clause: str = "") -> None:
        super().__init__(f"{status}: {message}")
        self.status = status
        self.clause = clause


class ExchangeError(KinaError, BufferError):
    """A tensor that cannot be exchanged through DLPack as asked; the array API standard wants a BufferError."""


class CopyNeededError(ExchangeError, ValueError):
    """`copy=False` where only a copy would do; the standard names BufferError in one place, ValueError in another."""


def failure(runtime: Runtime, status: int, kind: type[KinaError] = KinaError) -> KinaError:
    """The exception for a failing call of this thread."""
    info = runtime.ffi.new("KinaErrorInfo *")
    info.struct_size = runtime.ffi.sizeof("KinaErrorInfo")
    known = runtime.runtime_last_error(info) == 0 and info.status == status
    message = runtime.ffi.string(info.message).decode() if known else "the runtime left no record"
    clause = runtime.ffi.string(info.clause).decode() if known and info.clause != runtime.ffi.NULL else ""
    return kind(runtime.status_name(status), f"{message} [{clause}]" if clause else message, clause)


def check(runtime: Runtime, status: int, kind: type[KinaError] = KinaError) -> None:
    """Raises unless the call succeeded."""
    if status != 0:
        raise failure(runtime, status, kind)
