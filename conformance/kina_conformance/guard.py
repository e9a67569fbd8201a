"""A resource of the suite that hands the library poisoned blocks between guard zones."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from .memory import Buffer

if TYPE_CHECKING:
    from .executor import Executor


class Guard:
    """Made once for a library; `within` pushes it on the host. Where `resource_custom` is broken it is not `ready`."""

    def __init__(self, rt: Executor) -> None:
        self.rt = rt
        self.poison = 0
        self.blocks: dict[int, Buffer] = {}
        self.broken: list[str] = []
        vtable = rt.ffi.new("KinaResourceVtable *")
        self.callbacks = [
            rt.ffi.callback("KinaAllocateCallback", self._allocate),
            rt.ffi.callback("KinaDeallocateCallback", self._deallocate),
        ]
        vtable.struct_size = rt.ffi.sizeof("KinaResourceVtable")
        vtable.allocate, vtable.deallocate = self.callbacks
        slot = rt.ffi.new("KinaResource *")
        status = rt.function("runtime_resource_custom")(slot, 1, 0, vtable, rt.ffi.NULL)
        self.ready = status == 0
        self.resource = slot[0]

    def _allocate(self, out: Any, _context: Any, size: int, alignment: int, _stream: Any) -> int:
        buffer = Buffer(size, self.poison, alignment=max(alignment, 256))
        self.blocks[buffer.address] = buffer
        out[0] = self.rt.ffi.cast("void *", buffer.address)
        return 0

    def _deallocate(self, _context: Any, data: Any, size: int, _alignment: int, _stream: Any) -> int:
        buffer = self.blocks.pop(int(self.rt.ffi.cast("uintptr_t", data)), None)
        if buffer is None or len(buffer.data) != size:
            self.broken.append(f"a block of {size} bytes was given back that was not allocated so")
        elif buffer.broken_guard() is not None:
            self.broken.append(f"memory {buffer.broken_guard()} a block of {size} bytes was written")
        return 0

    @contextlib.contextmanager
    def within(self, poison: int) -> Iterator[None]:
        """Host allocations of this thread come from here, filled with the poison."""
        self.poison = poison
        scope = self.rt.ffi.new("KinaScope *")
        self.ready = self.rt.function("runtime_resource_push")(scope, self.resource) == 0
        try:
            yield
        finally:
            if self.ready:
                self.rt.function("runtime_scope_pop")(scope[0])
