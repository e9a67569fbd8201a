"""Compiled programs: loaded, bound to one runtime and to no other, called like functions."""

from __future__ import annotations

import ctypes
import os
import re
import shutil
import tempfile
from pathlib import Path
from typing import Any

from .current import current
from .errors import KinaError, check
from .runtime import Runtime
from .tensor import Tensor

SONAME = "libkina.so.1"
MAGIC = 0x474F5250
_DESCRIPTOR_BYTES = 32


class _DlInfo(ctypes.Structure):
    _fields_ = (
        ("file", ctypes.c_char_p),
        ("base", ctypes.c_void_p),
        ("symbol", ctypes.c_char_p),
        ("address", ctypes.c_void_p),
    )


class _Function(ctypes.Structure):
    _fields_ = (
        ("name", ctypes.c_char_p),
        ("call", ctypes.c_void_p),
        ("output_count", ctypes.c_int32),
        ("input_count", ctypes.c_int32),
    )


class _Program(ctypes.Structure):
    _fields_ = (
        ("magic", ctypes.c_uint32),
        ("struct_size", ctypes.c_uint32),
        ("abi_version", ctypes.c_uint32),
        ("function_count", ctypes.c_uint32),
        ("name", ctypes.c_char_p),
        ("functions", ctypes.POINTER(_Function)),
    )


class ProgramError(KinaError):
    """A file that is no program, or one that does not belong to this runtime."""


def object_of(address: int) -> tuple[str, int]:
    """File and load address of the shared object that holds an address, by `dladdr`."""
    info = _DlInfo()
    dladdr = ctypes.CDLL(None).dladdr
    dladdr.argtypes = [ctypes.c_void_p, ctypes.POINTER(_DlInfo)]
    if dladdr(address, ctypes.byref(info)) == 0:
        raise ProgramError("INVALID_ARGUMENT", f"no shared object holds address {address:#x}")
    return os.fsdecode(info.file or b""), int(info.base or 0)


class Function:
    """One compiled function: as many tensors in as its arity says; the result, or a tuple of them, out."""

    def __init__(self, program: Program, row: _Function) -> None:
        self.name = row.name.decode()
        self.arity = int(row.input_count)
        self.output_count = int(row.output_count)
        self.__name__ = self.name
        self._program = program
        self._call = program.runtime.ffi.cast("int32_t (*)(KinaTensor *, const KinaTensor *const *)", row.call)

    def __call__(self, *inputs: Tensor, out: Tensor | None = None) -> Any:
        ffi = self._program.runtime.ffi
        if len(inputs) != self.arity:
            raise TypeError(f"{self.name} takes {self.arity} tensors, not {len(inputs)}")
        for tensor in inputs:
            if not isinstance(tensor, Tensor) or tensor.runtime is not self._program.runtime:
                what = "one of another runtime" if isinstance(tensor, Tensor) else type(tensor).__name__
                raise TypeError(f"{self.name} takes tensors of its own runtime, not {what}; kina.asarray makes one")
        if out is not None and self.output_count != 1:
            raise TypeError(f"{self.name} has {self.output_count} results; out serves one")
        outputs = ffi.new("KinaTensor[]", self.output_count)
        if out is not None:
            outputs[0] = out.struct[0]
        status = self._call(outputs, [tensor.struct for tensor in inputs])
        check(self._program.runtime, status)
        if out is not None:
            out.struct[0] = outputs[0]  # an empty one has received its tensor
            return out
        results = tuple(self._adopted(outputs[i]) for i in range(self.output_count))
        return results[0] if self.output_count == 1 else results

    def _adopted(self, struct: Any) -> Tensor:
        tensor = Tensor(self._program.runtime)
        tensor.struct[0] = struct
        return tensor

    def __repr__(self) -> str:
        return f"<{self._program.name}.{self.name}, {self.arity} in, {self.output_count} out>"


class Program:
    """A loaded program; its functions are attributes."""

    def __init__(self, path: str | os.PathLike[str], runtime: Runtime) -> None:
        self.path = os.fspath(path)
        self.runtime = runtime
        self._folder = tempfile.TemporaryDirectory(prefix="kina-program-")
        self._library = self._opened(self._staged(Path(self.path)))
        row = self._descriptor()
        self.abi_version = int(row.abi_version)
        self.library_path = self._proved()
        self.name = (row.name or b"").decode()
        self.functions = {
            function.name: function
            for function in (Function(self, row.functions[i]) for i in range(row.function_count))
        }

    def _staged(self, path: Path) -> Path:
        """A copy of the program in a private folder, beside the runtime under the name that the program asks for.

        A copy: a program that is loaded already, with another runtime, would be given back by its inode. The runtime is
        a link, so that the loader knows the library that is open.
        """
        if not path.is_file():
            raise FileNotFoundError(f"there is no program {path}")
        folder = Path(self._folder.name)
        (folder / SONAME).symlink_to(object_of(self._own_symbol())[0])
        return Path(shutil.copyfile(path, folder / f"program-{path.name}"))

    def _own_symbol(self) -> int:
        """The address of the runtime's `runtime_abi_version`, taken from the library itself."""
        ffi = self.runtime.ffi
        return int(ffi.cast("uintptr_t", ffi.addressof(self.runtime.library, "runtime_abi_version")))

    def _opened(self, staged: Path) -> ctypes.CDLL:
        try:
            return ctypes.CDLL(str(staged), mode=os.RTLD_NOW | os.RTLD_LOCAL)
        except OSError as error:
            text = str(error)
            if re.search(r"version [`'\"]KINA_\d", text):
                raise ProgramError("VERSION", f"{self.path} needs a newer runtime: {text}") from error
            raise ProgramError("INVALID_ARGUMENT", f"{self.path} cannot be loaded: {text}") from error

    def _descriptor(self) -> _Program:
        try:
            row = _Program.in_dll(self._library, "kina_program")
        except ValueError:
            raise ProgramError("INVALID_ARGUMENT", f"{self.path} is no program: it exports no kina_program") from None
        if row.magic != MAGIC or row.struct_size < _DESCRIPTOR_BYTES:
            raise ProgramError("INVALID_ARGUMENT", f"{self.path} is no program: its descriptor is malformed")
        offered = int(self.runtime.runtime_abi_version())
        needed = int(row.abi_version)
        if needed >> 16 != offered >> 16 or needed > offered:
            raise ProgramError(
                "VERSION",
                f"{self.path} is built for ABI {needed >> 16}.{needed & 0xFFFF}, "
                f"the runtime offers {offered >> 16}.{offered & 0xFFFF}",
            )
        return row

    def _proved(self) -> str:
        """The file of the runtime that the program is linked to; it must be the one that was meant."""
        lookup = ctypes.CDLL(None).dlsym
        lookup.restype, lookup.argtypes = ctypes.c_void_p, [ctypes.c_void_p, ctypes.c_char_p]
        linked = lookup(self._library._handle, b"runtime_abi_version")
        meant = object_of(self._own_symbol())
        found = object_of(linked) if linked else ("no library at all", 0)
        if found[1] != meant[1]:
            raise ProgramError("INVALID_HANDLE", f"{self.path} runs on {found[0]}, not on {meant[0]}")
        return meant[0]

    def __getattr__(self, name: str) -> Function:
        functions: dict[str, Function] = self.__dict__.get("functions", {})
        if name in functions:
            return functions[name]
        raise AttributeError(
            f"{self.__dict__.get('path')} has no function {name!r}; it has {', '.join(functions) or 'none'}"
        )

    def __repr__(self) -> str:
        return f"<program {self.name} on {self.library_path}>"


def load(path: str | os.PathLike[str], runtime: Runtime | None = None) -> Program:
    """Loads a compiled program onto a runtime."""
    return Program(path, runtime or current())
