"""Lives of tensors, views, aliases, weak references, peers, exports and scopes, in any order, against a model."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from hypothesis import strategies as st
from hypothesis.stateful import Bundle, RuleBasedStateMachine, consumes, invariant, multiple, rule
from numpy.typing import NDArray

from kina_conformance import clause
from kina_conformance.flaws import Blocks
from kina_conformance.memory import Handle
from kina_conformance.plugin import session

Bytes = NDArray[np.uint8]


@dataclass
class Storage:
    """What keeps some bytes: how many hold them, and how many of these are tensors or exports."""

    foreign: bool = False
    counted: bool = False  # taken from the suite's own resource, which sees it come back
    parent: Storage | None = None  # the export behind an import
    holders: int = 0
    tensors: int = 0

    def hold(self, tensor: bool) -> None:
        self.holders += 1
        self.tensors += tensor

    def drop(self, tensor: bool) -> None:
        self.holders -= 1
        self.tensors -= tensor
        if self.holders == 0 and self.parent is not None:
            self.parent.drop(tensor=True)


@dataclass(eq=False)
class Live:
    """A tensor of the library, the bytes that it should show, and the storage that it holds."""

    struct: Any
    values: Bytes
    storage: Storage
    read_only: bool = False
    copies: list[Any] = field(default_factory=list)


@dataclass(eq=False)
class Named:
    """A weak reference, a peer handle or an export."""

    handle: Any
    of: Live
    storage: Storage


class Lives(RuleBasedStateMachine):
    """Each rule is one call; the model says what it must answer."""

    tensors: Bundle[Live] = Bundle("tensors")
    weaks: Bundle[Named] = Bundle("weaks")
    peers: Bundle[Named] = Bundle("peers")
    exports: Bundle[Named] = Bundle("exports")

    def __init__(self) -> None:
        super().__init__()
        self.rt = session()
        self.mark = len(self.rt.live)
        self.before = self.rt.counters()
        self.blocks = Blocks(self.rt)
        self.live: list[Live] = []
        self.handles: list[tuple[str, Any]] = []
        self.managed: list[Any] = []
        self.scopes: list[tuple[Handle, str]] = []
        self.dead_scopes: list[Handle] = []
        self.storages: list[Storage] = []
        self.stamp = 0

    # ---- help --------------------------------------------------------------------------------------------------------

    def status(self, name: str, *arguments: Any) -> str:
        return self.rt.lib.status_name(self.rt.function(name)(*arguments))

    def keep(self, struct: Any, values: Bytes, storage: Storage, read_only: bool) -> Live:
        storage.hold(tensor=True)
        live = Live(struct, values, storage, read_only)
        self.live.append(live)
        return live

    def forget(self, live: Live) -> None:
        self.live.remove(live)
        live.storage.drop(tensor=True)

    def new_struct(self) -> Any:
        return self.rt.ffi.new("KinaTensor *")

    def shown(self, live: Live) -> Bytes:
        """The elements as the struct says that they lie."""
        dl, ffi = live.struct.dl, self.rt.ffi
        count, stride = int(dl.shape[0]), int(dl.strides[0])
        if count == 0:
            return np.zeros(0, np.uint8)
        first = int(ffi.cast("uintptr_t", dl.data)) + int(dl.byte_offset)
        low = min(first, first + (count - 1) * stride)
        length = abs((count - 1) * stride) + 1
        memory = np.frombuffer(ffi.buffer(ffi.cast("char *", low), length), np.uint8)
        return memory[:: abs(stride) or 1][:: 1 if stride >= 0 else -1][:count].copy()

    # ---- tensors -----------------------------------------------------------------------------------------------------

    @rule(target=tensors, count=st.integers(0, 40))
    def alloc(self, count: int) -> Live:
        struct, ffi = self.new_struct(), self.rt.ffi
        u8 = self.rt.constant("KINA_DTYPE_U8")
        assert self.status("runtime_alloc", struct, ffi.new("int64_t[]", [count]), 1, u8, 1, 0, ffi.NULL) == "SUCCESS"
        values = np.zeros(count, np.uint8)
        counted = count > 0 and any(kind == "resource" for _, kind in self.scopes)
        storage = Storage(counted=counted)
        self.storages.append(storage)
        live = self.keep(struct, values, storage, read_only=False)
        self.fill(live)
        return live

    @rule(live=tensors)
    def fill(self, live: Live) -> None:
        if live not in self.live:
            return
        self.stamp = self.stamp % 251 + 1
        status = self.status("runtime_fill", live.struct, self.rt.ffi.new("char[]", bytes([self.stamp])), 1)
        assert status == ("READ_ONLY" if live.read_only else "SUCCESS")
        if not live.read_only:
            live.values[...] = self.stamp

    @rule(target=tensors, live=tensors, data=st.data(), read_only=st.booleans())
    def view(self, live: Live, data: st.DataObject, read_only: bool) -> Any:
        if live not in self.live:
            return multiple()
        stride = int(live.struct.dl.strides[0])
        step = data.draw(st.sampled_from([1, 2, 3, -1, -2]))
        first = data.draw(st.integers(0, max(0, len(live.values) - 1)))
        values = live.values[first::step]
        if len(live.values) == 0:
            first, values = 0, live.values
        struct, ffi = self.new_struct(), self.rt.ffi
        shape, strides = ffi.new("int64_t[]", [len(values)]), ffi.new("int64_t[]", [step * stride])
        flags = self.rt.constant("KINA_FLAG_READ_ONLY") if read_only else 0
        assert self.status("runtime_view", struct, live.struct, shape, strides, 1, first * stride, flags) == "SUCCESS"
        return self.keep(struct, values, live.storage, read_only or live.read_only)

    @rule(target=tensors, live=tensors)
    def alias(self, live: Live) -> Any:
        if live not in self.live:
            return multiple()
        struct = self.new_struct()
        assert self.status("runtime_alias", struct, live.struct) == "SUCCESS"
        return self.keep(struct, live.values, live.storage, live.read_only)

    @rule(live=tensors)
    def copy_the_struct(self, live: Live) -> None:
        if live in self.live:
            live.copies.append(self.rt.ffi.new("KinaTensor *", live.struct[0]))

    @rule(live=consumes(tensors))
    def free(self, live: Live) -> None:
        if live in self.live:
            self.end(live)

    def end(self, live: Live) -> None:
        assert self.status("runtime_free", live.struct) == "SUCCESS"
        assert bytes(self.rt.ffi.buffer(live.struct)) == bytes(96)
        assert self.status("runtime_free", live.struct) == "SUCCESS"  # empty now
        for copy in live.copies:
            assert self.status("runtime_free", copy) == "INVALID_HANDLE"
        self.forget(live)

    @rule(weak=weaks)
    def free_all_that_a_weak_reference_names(self, weak: Named) -> None:
        for live in [live for live in self.live if live.storage is weak.storage]:
            self.end(live)
        if weak.storage.holders == 0:
            self.refuse_upgrade(weak)

    @rule(live=tensors)
    def is_exclusive(self, live: Live) -> None:
        if live not in self.live:
            return
        answer = self.rt.ffi.new("int32_t *")
        assert self.status("runtime_is_exclusive", answer, live.struct) == "SUCCESS"
        assert answer[0] == (not live.storage.foreign and live.storage.tensors == 1)

    # ---- weak references and peers -----------------------------------------------------------------------------------

    @rule(target=weaks, live=tensors)
    def weak(self, live: Live) -> Any:
        return self.named("runtime_weak_create", "KinaWeak", live)

    @rule(target=peers, live=tensors)
    def share(self, live: Live) -> Any:
        made = self.named("runtime_peer_share", "KinaPeer", live)
        if isinstance(made, Named):
            made.storage.hold(tensor=False)
        return made

    def named(self, function: str, kind: str, live: Live) -> Any:
        if live not in self.live:
            return multiple()
        out = self.rt.ffi.new(f"{kind} *")
        assert self.status(function, out, live.struct) == "SUCCESS"
        self.handles.append((kind, out[0]))
        return Named(out[0], live, live.storage)

    @rule(target=tensors, weak=weaks)
    def upgrade(self, weak: Named) -> Any:
        if weak.storage.holders == 0:
            self.refuse_upgrade(weak)
            return multiple()
        struct = self.new_struct()
        assert self.status("runtime_weak_upgrade", struct, weak.handle) == "SUCCESS"
        return self.keep(struct, weak.of.values, weak.storage, weak.of.read_only)

    def refuse_upgrade(self, weak: Named) -> None:
        struct = self.new_struct()
        assert self.status("runtime_weak_upgrade", struct, weak.handle) == "INVALID_HANDLE"
        assert bytes(self.rt.ffi.buffer(struct)) == bytes(96)

    @rule(target=tensors, peer=peers)
    def open(self, peer: Named) -> Live:
        struct = self.new_struct()
        assert self.status("runtime_peer_open", struct, peer.handle, 1, 0) == "SUCCESS"
        return self.keep(struct, peer.of.values, peer.storage, peer.of.read_only)

    @rule(weak=consumes(weaks))
    def release_weak(self, weak: Named) -> None:
        self.release("runtime_weak_release", "KinaWeak", weak)

    @rule(peer=consumes(peers))
    def release_peer(self, peer: Named) -> None:
        self.release("runtime_peer_release", "KinaPeer", peer)
        peer.storage.drop(tensor=False)

    def release(self, function: str, kind: str, named: Named) -> None:
        assert self.status(function, named.handle) == "SUCCESS"
        assert self.status(function, named.handle) == "INVALID_HANDLE"
        self.handles.remove((kind, named.handle))

    # ---- DLPack ------------------------------------------------------------------------------------------------------

    @rule(target=exports, live=consumes(tensors))
    def export(self, live: Live) -> Any:
        if live not in self.live:
            return multiple()
        out = self.rt.ffi.new("DLManagedTensorVersioned **")
        assert self.status("runtime_to_dlpack", out, live.struct, self.rt.ffi.NULL) == "SUCCESS"
        for copy in live.copies:
            assert self.status("runtime_free", copy) == "INVALID_HANDLE"
        self.live.remove(live)
        self.managed.append(out[0])
        return Named(out[0], live, live.storage)  # the export holds where the tensor did

    @rule(target=tensors, export=consumes(exports))
    def import_(self, export: Named) -> Live:
        struct = self.new_struct()
        assert self.status("runtime_from_dlpack", struct, export.handle, self.rt.ffi.NULL) == "SUCCESS"
        self.managed.remove(export.handle)
        storage = Storage(foreign=True, parent=export.storage)
        return self.keep(struct, export.of.values, storage, export.of.read_only)

    @rule(export=consumes(exports))
    def end_export(self, export: Named) -> None:
        self.managed.remove(export.handle)
        export.handle.deleter(export.handle)
        export.storage.drop(tensor=True)

    # ---- scopes ------------------------------------------------------------------------------------------------------

    @rule(kind=st.sampled_from(["resource", "phase", "stream", "device"]))
    def enter(self, kind: str) -> None:
        out = self.rt.ffi.new("KinaScope *")
        main = self.rt.ffi.new("KinaStream *")
        assert self.status("runtime_stream_main", main, 1, 0) == "SUCCESS"
        answered = {
            "resource": lambda: self.status("runtime_resource_push", out, self.blocks.resource.cdata),
            "phase": lambda: self.status("runtime_phase_push", out, len(self.scopes)),
            "stream": lambda: self.status("runtime_stream_push", out, main[0]),
            "device": lambda: self.status("runtime_device_push", out, 1, 0),
        }[kind]()
        assert answered == "SUCCESS"
        self.scopes.append((Handle(self.rt, "KinaScope", out[0]), kind))

    @rule()
    def leave(self) -> None:
        if not self.scopes:
            return
        if len(self.scopes) > 1:
            assert self.status("runtime_scope_pop", self.scopes[0][0].cdata) == "INVALID_ARGUMENT"
        scope, _ = self.scopes.pop()
        assert self.status("runtime_scope_pop", scope.cdata) == "SUCCESS"
        assert self.status("runtime_scope_pop", scope.cdata) == "INVALID_HANDLE"

    # ---- what always holds -------------------------------------------------------------------------------------------

    @invariant()
    def every_live_tensor_shows_its_bytes(self) -> None:
        for live in self.live:
            assert np.array_equal(self.shown(live), live.values)

    @invariant()
    def blocks_live_as_long_as_somebody_holds_them(self) -> None:
        assert len(self.blocks.live) == sum(s.counted and s.holders > 0 for s in self.storages)

    def teardown(self) -> None:
        while self.scopes:
            self.leave()
        for live in list(self.live):
            assert self.status("runtime_free", live.struct) == "SUCCESS"
        for kind, handle in self.handles:
            release = {"KinaWeak": "runtime_weak_release", "KinaPeer": "runtime_peer_release"}[kind]
            assert self.status(release, handle) == "SUCCESS"
        for managed in self.managed:
            managed.deleter(managed)
        assert not self.blocks.live
        self.rt.release_since(self.mark)
        assert self.rt.counters() == self.before
        assert self.blocks.destroyed == 1


TestLives = clause("KINA-TENSOR-44", "acb84947")(Lives.TestCase)
TestLives = clause("KINA-STORAGE-46", "d6a2457b")(TestLives)
TestLives = clause("KINA-STATUS-17", "fee89868")(TestLives)
