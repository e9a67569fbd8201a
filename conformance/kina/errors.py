"""What Python code sees of a call that failed."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .runtime import Runtime


class KinaError(RuntimeError):
    """A status that is not SUCCESS, with the runtime's own words for it; what it does not say is empty."""

    def __init__(self, status: str, message: str, *, function: str = "", argument: str = "", clause: str = "") -> None:
        super().__init__(f"{status}: {message} [{clause}]" if clause else f"{status}: {message}")
        self.status = status
        self.message = message
        self.function = function
        self.argument = argument
        self.clause = clause


class ExchangeError(KinaError, BufferError):
    """A tensor that cannot be exchanged through DLPack as asked; the array API standard wants a BufferError."""


class CopyNeededError(ExchangeError, ValueError):
    """`copy=False` where only a copy would do; the standard names BufferError in one place, ValueError in another."""


def failure(runtime: Runtime, status: int, kind: type[KinaError] = KinaError) -> KinaError:
    """The exception for a failing call of this thread."""
    info = runtime.ffi.new("KinaErrorInfo *")
    info.struct_size = runtime.ffi.sizeof("KinaErrorInfo")
    name = runtime.status_name(status)
    if runtime.runtime_last_error(info) != 0 or info.status != status:
        return kind(name, "the runtime left no record")
    text = {
        field: "" if value == runtime.ffi.NULL else runtime.ffi.string(value).decode(errors="replace")
        for field in ("message", "function", "argument_name", "clause")
        for value in [getattr(info, field)]
    }
    return kind(name, text["message"], function=text["function"], argument=text["argument_name"], clause=text["clause"])


def check(runtime: Runtime, status: int, kind: type[KinaError] = KinaError) -> None:
    """Raises unless the call succeeded."""
    if status != 0:
        raise failure(runtime, status, kind)
