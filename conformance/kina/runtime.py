"""A runtime library opened by path: its functions, its constants, its names for statuses."""

from __future__ import annotations

import os
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any, Protocol

import cffi

from .header import Header, load


class Observer(Protocol):
    """Sees each call before it is made and after it has returned."""

    def entered(self, index: int, arguments: tuple[Any, ...]) -> None: ...

    def returned(self, index: int, result: Any) -> None: ...


# What this package makes and casts to. cffi learns a form at its first use, with a lock that a forked child inherits as
# it was: whoever forks while another thread learns one would never get it.
_FORMS = [
    *("KinaTensor *", "KinaErrorInfo", "KinaErrorInfo *", "KinaDlpackParams", "KinaDlpackParams *", "KinaStream *"),
    *(f"struct {name} {stars}" for name in ("DLManagedTensor", "DLManagedTensorVersioned") for stars in ("*", "**")),
    *("void *", "void **", "uintptr_t", "KinaTensor[]", "int32_t (*)(KinaTensor *, const KinaTensor *const *)"),
]


@cache
def interface() -> Any:
    """The types of the header for cffi, declared once in a process."""
    ffi = cffi.FFI()
    ffi.cdef(load().cdef)
    for form in _FORMS:
        ffi.typeof(form)
    return ffi


def _opened(ffi: Any, name: str) -> Any:
    """The library. A refusal is in the loader's own words: cffi tells beside them how else it searched."""
    try:
        return ffi.dlopen(name, ffi.RTLD_NOW | ffi.RTLD_LOCAL)
    except OSError as error:
        words = str(error).removeprefix(f"cannot load library '{name}': ")
        raise OSError(words.partition(".  Additionally, ctypes")[0]) from None


class Runtime:
    """One opened library. Functions are attributes (`runtime.runtime_alloc`), constants too."""

    def __init__(self, path: str | os.PathLike[str], observer: Observer | None = None) -> None:
        self.path = os.fspath(path)
        self.header: Header = load()
        self.ffi: Any = interface()
        self.constants = self.header.constants
        name = str(Path(self.path).resolve()) if os.path.exists(self.path) else self.path
        self.library: Any = _opened(self.ffi, name)
        self.names = list(self.header.prototypes)
        self.missing = [name for name in self.names if not self._has(name)]
        self.functions: dict[str, Callable[..., Any]] = {
            name: self._bound(index, name, observer)
            for index, name in enumerate(self.names)
            if name not in self.missing
        }
        self.status_names = {
            value: name.removeprefix("KINA_ERROR_").removeprefix("KINA_")
            for name, value in self.constants.items()
            if name == "KINA_SUCCESS" or name.startswith("KINA_ERROR_")
        }

    def _has(self, name: str) -> bool:
        try:
            getattr(self.library, name)
        except AttributeError:
            return False
        return True

    def _bound(self, index: int, name: str, observer: Observer | None) -> Callable[..., Any]:
        function: Callable[..., Any] = getattr(self.library, name)
        if observer is None:
            return function

        def call(*arguments: Any) -> Any:
            observer.entered(index, arguments)
            result = function(*arguments)
            observer.returned(index, result)
            return result

        call.__name__ = name
        return call

    def __getattr__(self, name: str) -> Any:
        if name.startswith("runtime_"):
            try:
                return self.functions[name]
            except KeyError:
                raise AttributeError(f"{self.path} does not export {name}") from None
        try:
            return self.__dict__["constants"][name]
        except KeyError:
            raise AttributeError(name) from None

    def constant(self, word: str | int) -> int:
        """`KINA_UNARY_NEG` or a number."""
        return word if isinstance(word, int) else self.constants[word]

    def status(self, word: str | int) -> int:
        """The number of a status given by its word, `INVALID_SHAPE`."""
        if isinstance(word, int):
            return word
        return self.constants["KINA_SUCCESS" if word == "SUCCESS" else f"KINA_ERROR_{word}"]

    def status_name(self, value: int) -> str:
        return self.status_names.get(value, f"status {value}")

    def offers(self, feature: str) -> bool:
        """Whether the build claims a feature, given as its tag says it: `dlpack`."""
        return bool(self.runtime_has_feature(self.constants[f"KINA_FEATURE_{feature.upper()}"]))
