"""PyCapsules that carry DLPack structs: made, taken over, and destroyed without running Python code.

A capsule may die while an exception is on its way, or while the interpreter ends. A destructor written in Python
survives neither: it loses the exception in the first case and runs in a half-dead interpreter in the second. So the
destructor is a C function. DLPack prescribes what it does (nothing for a consumed capsule, else the struct's deleter, a
pending exception left alone), so that any library's serves for every producer: NumPy's is taken, from a capsule of
NumPy's own.
"""

from __future__ import annotations

import ctypes
import os
import threading
from collections.abc import Callable
from functools import cache

_api = ctypes.pythonapi
_new = _api.PyCapsule_New
_new.restype, _new.argtypes = ctypes.py_object, [ctypes.c_void_p, ctypes.c_void_p, ctypes.c_void_p]
_pointer = _api.PyCapsule_GetPointer
_pointer.restype, _pointer.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_void_p]
_name = _api.PyCapsule_GetName
_name.restype, _name.argtypes = ctypes.c_char_p, [ctypes.py_object]
_set_name = _api.PyCapsule_SetName
_set_name.restype, _set_name.argtypes = ctypes.c_int, [ctypes.py_object, ctypes.c_void_p]
_destructor = _api.PyCapsule_GetDestructor
_destructor.restype, _destructor.argtypes = ctypes.c_void_p, [ctypes.py_object]


def _immortal(text: bytes) -> int:
    """The address of a C string that is never freed: a capsule keeps the pointer to its name."""
    duplicate = ctypes.CDLL(None).strdup
    duplicate.restype, duplicate.argtypes = ctypes.c_void_p, [ctypes.c_char_p]
    return int(duplicate(text))


class Layout:
    """One of DLPack's two structs, with the names of its capsules."""

    def __init__(self, struct: str, name: str, export: str, take: str) -> None:
        self.struct = struct
        self.name = name.encode()
        self.export = export
        self.take = take
        self.fresh = _immortal(self.name)
        self.used = _immortal(b"used_" + self.name)


VERSIONED = Layout("DLManagedTensorVersioned", "dltensor_versioned", "runtime_to_dlpack", "runtime_from_dlpack")
LEGACY = Layout("DLManagedTensor", "dltensor", "runtime_to_dlpack_legacy", "runtime_from_dlpack_legacy")
_LAYOUTS = {layout.name: layout for layout in (VERSIONED, LEGACY)}
_claims = threading.Lock()
if hasattr(os, "register_at_fork"):  # a child has none of the threads that would give it back
    os.register_at_fork(before=_claims.acquire, after_in_parent=_claims.release, after_in_child=_claims.release)


def is_capsule(candidate: object) -> bool:
    return type(candidate).__name__ == "PyCapsule"


def name_of(capsule: object) -> str:
    name = _name(capsule)
    return "" if name is None else str(name.decode())


@cache
def _native_destructor(layout: Layout) -> int:
    import numpy

    array = numpy.zeros(1)
    capsule = array.__dlpack__() if layout is LEGACY else array.__dlpack__(max_version=(1, 0))
    if name_of(capsule).encode() != layout.name:
        raise RuntimeError(f"NumPy {numpy.__version__} makes no {layout.name.decode()} capsules; 2.1 and newer do")
    return int(_destructor(capsule))


def make(layout: Layout, managed: int, release: Callable[[], None]) -> object:
    """A fresh capsule that owns the struct at address `managed`; `release` runs if it cannot be made."""
    try:
        return _new(managed, layout.fresh, _native_destructor(layout))
    except BaseException:
        release()
        raise


def layout_of(capsule: object) -> Layout:
    """The struct in a fresh capsule; the layout goes by the name alone."""
    if not is_capsule(capsule):
        raise TypeError(f"a capsule is needed, not {type(capsule).__name__}")
    name = name_of(capsule)
    if name.encode() in _LAYOUTS:
        return _LAYOUTS[name.encode()]
    if name.startswith("used_dltensor"):
        raise ValueError(f"the capsule was consumed before: its name is {name!r}")
    raise ValueError(f"a capsule of name {name!r} is not DLPack's")


def take(capsule: object, call: Callable[[Layout, int], int]) -> int:
    """Has `call` take over the struct of a fresh capsule, and returns its status; 0 means that it owns the struct now.

    The capsule is renamed before the call, so that there is no moment with two owners, and renamed back where the call
    says that it failed. Anything that breaks in from outside, such as an interrupt, at worst leaks the struct.
    """
    with _claims:
        layout = layout_of(capsule)
        managed = int(_pointer(capsule, layout.fresh))
        _set_name(capsule, layout.used)
    status = call(layout, managed)
    if status != 0:
        _set_name(capsule, layout.fresh)
    return status
