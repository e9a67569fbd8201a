"""What is looked at around a call: bytes that may not change, guard zones, the form of what came back."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

import numpy as np

from .arguments import Argument
from .dtypes import dtype_of
from .memory import Tensor
from .record import Violation

if TYPE_CHECKING:
    from .executor import Executor


def bytes_of(
    rt: Executor, argument: Argument, written: Sequence[Tensor] = ()
) -> list[tuple[str, Callable[[], bytes], bytes]]:
    """Everything that the argument reaches, with its bytes now: structs first, then contents.

    Contents of a storage that holds a tensor of `written` are left out: an operation in place changes them.
    """
    held: list[tuple[str, Callable[[], bytes], bytes]] = []
    for what, address, size in argument.reached:
        read = _reader(rt, address, size)
        held.append((what, read, read()))
    for tensor in argument.tensors:
        shared = any(tensor.data < w.data + w.size_bytes and w.data < tensor.data + tensor.size_bytes for w in written)
        if (
            tensor.watched
            and rt.may_read(tensor)
            and tensor.struct.magic == rt.lib.KINA_TENSOR_MAGIC
            and tensor.device[0] in {1, 3}
            and not shared
        ):
            held.append((f"the bytes of {argument.parameter.name}", tensor.storage_bytes, tensor.storage_bytes()))
    return held


def _reader(rt: Executor, address: int, size: int) -> Callable[[], bytes]:
    return lambda: bytes(rt.ffi.buffer(rt.ffi.cast("char *", address), size))


def require_same(
    rt: Executor, argument: Argument, held: list[tuple[str, Callable[[], bytes], bytes]], message: str, clause: str
) -> None:
    for what, read, before in held:
        if read() != before:
            where = "KINA-STATUS-19" if what.startswith("the bytes") and clause.startswith("KINA-STATUS") else clause
            raise Violation(f"{message}: {what}", where)


def gaps_of(tensor: Tensor) -> Callable[[str], None]:
    """Remembers the bytes of an out between its elements; the answer complains when they have changed."""
    if tensor.buffer is None:
        return lambda _message: None
    mask = np.ones(len(tensor.buffer.data), bool)
    item = dtype_of(tensor.dtype).bytes
    if tensor.elements:
        low = tensor.address - tensor.buffer.address
        strides = [s * item for s in tensor.strides]
        np.ndarray((*tensor.shape, item), bool, mask.data, low, (*strides, 1))[...] = False
    before = tensor.buffer.data[mask].copy()

    def check(message: str) -> None:
        assert tensor.buffer is not None
        if not np.array_equal(tensor.buffer.data[mask], before):
            raise Violation(message, "KINA-TENSOR-28")

    return check


def require_guards(arguments: list[Argument], shown: str) -> None:
    for argument in arguments:
        for buffer in argument.buffers:
            side = buffer.broken_guard()
            if side is not None:
                raise Violation(f"{shown} wrote {side} the memory of {argument.parameter.name}", "KINA-TENSOR-28")


def require_well_formed(rt: Executor, tensor: Tensor, name: str) -> None:
    """A tensor given out names a live storage that holds all its elements."""
    struct = tensor.struct
    if struct.magic != rt.lib.KINA_TENSOR_MAGIC or struct.reserved != 0:
        raise Violation(
            f"{name} produced a struct with magic {struct.magic:#x}, reserved {struct.reserved}", "KINA-TENSOR-7"
        )
    if not 0 <= struct.dl.ndim <= rt.lib.KINA_MAX_NDIM:
        raise Violation(f"{name} produced ndim {struct.dl.ndim}", "KINA-TENSOR-15")
    borrowed = bool(tensor.flags & rt.lib.KINA_FLAG_BORROWED)
    if struct.dl.ndim and (struct.dl.shape == rt.ffi.NULL or (struct.dl.strides == rt.ffi.NULL and not borrowed)):
        raise Violation(f"{name} produced a tensor without shape or strides", "KINA-TENSOR-7")
    if tensor.handle == 0 and not borrowed:
        raise Violation(f"{name} produced a tensor without a handle", "KINA-TENSOR-7")
    low, high = tensor.hull()
    if low != high and not tensor.data <= low <= high <= tensor.data + tensor.size_bytes:
        raise Violation(f"{name} produced elements outside the storage", "KINA-TENSOR-9")
