"""Laws of every composition of resources, over random sequences of everything that can be done with them."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

from hypothesis import strategies as st
from hypothesis.stateful import Bundle, RuleBasedStateMachine, initialize, invariant, precondition, rule

from kina_conformance import Executor, clause
from kina_conformance.memory import Handle
from kina_conformance.plugin import session
from kina_conformance.resources import (
    HOST,
    Custom,
    Info,
    Rows,
    address,
    borrowed,
    current,
    host,
    in_thread,
    limit,
    pool,
)

SIZES = st.one_of(st.integers(0, 300), st.sampled_from([256, 4096, 65536, 1 << 20]), st.integers(1, 200_000))
ALIGNMENTS = st.sampled_from([0, 1, 256, 512, 4096, 65536])
LIMITS = st.sampled_from([0, 1000, 100_000, 3 << 20])


class Model:
    """What a resource must be like, computed by hand."""

    def __init__(self, kind: str, handle: Handle, name: Handle, upstream: Model | None, maximum: int) -> None:
        self.kind = kind
        self.handle: Handle | None = handle
        self.name = name
        self.upstream = upstream
        self.maximum = maximum  # of a limit
        self.live: dict[int, tuple[int, int]] = {}
        self.tensors = 0
        self.tensor_bytes = 0
        self.allocations = self.deallocations = self.failures = self.peak = 0
        self.users = 0  # adaptors on it
        self.installed = 0

    def live_bytes(self) -> int:
        return sum(size for size, _ in self.live.values()) + self.tensor_bytes

    def is_gone(self) -> bool:
        return self.handle is None and not self.live and not self.tensors and not self.users and not self.installed


class Resources(RuleBasedStateMachine):
    """Makers, releases, pushes, defaults, raw blocks and tensors in any order."""

    models = Bundle("models")

    def __init__(self) -> None:
        super().__init__()
        self.rt: Executor = session()
        self.all: list[Model] = []
        self.scopes: list[tuple[Handle, Model]] = []
        self.blocks: list[tuple[Model, Any, int, int]] = []
        self.held: list[tuple[Model, Any, int]] = []
        self.customs: list[tuple[Custom, Model]] = []
        self.rows: list[Rows] = []
        self.example = self.rt.example()
        self.example.__enter__()
        self.default: Model | None = None
        self.built_in = current(self.rt)

    # ---- making and releasing

    def _add(self, kind: str, handle: Handle, upstream: Model | None, maximum: int = 0) -> Model:
        model = Model(kind, handle, borrowed(self.rt, handle), upstream, maximum)
        if upstream is not None:
            upstream.users += 1
        self.all.append(model)
        return model

    @initialize(target=models)
    def start(self) -> Model:
        return self._add("host", host(self.rt), None)

    @rule(target=models, kind=st.sampled_from(["host", "custom"]))
    def make_base(self, kind: str) -> Model:
        if kind == "host":
            return self._add("host", host(self.rt), None)
        custom = Custom(self.rt)
        model = self._add("custom", custom.make(), None)
        self.customs.append((custom, model))
        return model

    @rule(target=models, kind=st.sampled_from(["pool", "logging"]), upstream=models)
    def make_adaptor(self, kind: str, upstream: Model) -> Model:
        if upstream.is_gone():
            return upstream
        if kind == "pool":
            return self._add(kind, pool(self.rt, upstream.name), upstream)
        self.rows.append(Rows(self.rt))
        return self._add(kind, self.rows[-1].make(upstream.name), upstream)

    @rule(target=models, upstream=models, maximum=LIMITS, size=SIZES)
    def make_limit_and_run_into_it(self, upstream: Model, maximum: int, size: int) -> Model:
        if upstream.is_gone():
            return upstream
        model = self._add("limit", limit(self.rt, upstream.name, maximum), upstream, maximum)
        for _ in range(3):
            self._take(model, size, alignment=0)
        return model

    @rule(model=models)
    def release(self, model: Model) -> None:
        if model.handle is None:
            return
        status = self.rt.call("runtime_resource_release", model.handle).status()
        assert status == ("BUSY" if model.installed else "SUCCESS")
        if status == "SUCCESS":
            self.rt.forget([model.handle])
            model.handle = None
            self._settle(model)

    def _settle(self, model: Model) -> None:
        """A resource that nothing needs any more is gone, and needs its upstream no more."""
        if model.is_gone() and model in self.all:
            self.all.remove(model)
            if model.upstream is not None:
                model.upstream.users -= 1
                self._settle(model.upstream)

    @rule(model=models)
    def borrowed_handles_are_not_released(self, model: Model) -> None:
        status = self.rt.call("runtime_resource_release", model.name).status()
        assert status == ("INVALID_HANDLE" if model.is_gone() else "INVALID_ARGUMENT")

    # ---- what is current

    @rule(model=models)
    def push(self, model: Model) -> None:
        if not model.is_gone():
            scope = self.rt.call("runtime_resource_push", model.name).succeeds().out
            self.scopes.append((scope, model))
            model.installed += 1

    @precondition(lambda self: self.scopes)
    @rule()
    def pop(self) -> None:
        scope, model = self.scopes.pop()
        self.rt.call("runtime_scope_pop", scope).succeeds()
        model.installed -= 1
        self._settle(model)

    @rule(model=models)
    def make_default(self, model: Model) -> None:
        if not model.is_gone():
            self._set_default(model)

    @rule()
    def restore_default(self) -> None:
        self._set_default(None)

    def _set_default(self, model: Model | None) -> None:
        name = None if model is None else model.name
        previous = self.rt.call("runtime_resource_set_default", **HOST, resource=name).succeeds().previous
        before, self.default = self.default, model
        assert previous == (self.built_in if before is None else before.name)
        if model is not None:
            model.installed += 1
        if before is not None:
            before.installed -= 1
            self._settle(before)

    # ---- blocks and tensors

    @rule(model=models, sizes=st.lists(SIZES, min_size=1, max_size=6), alignment=ALIGNMENTS)
    def allocate(self, model: Model, sizes: list[int], alignment: int) -> None:
        if not model.is_gone():
            for size in sizes:
                self._take(model, size, alignment)

    def _take(self, model: Model, size: int, alignment: int) -> None:
        slot = self.rt.ffi.new("void **")
        is_refused = size > 0 and self._passes_a_bound(model, size)
        answer = self.rt.function("runtime_memory_allocate")(slot, model.name.cdata, size, alignment, self.rt.ffi.NULL)
        assert answer != 0 or not is_refused, "a bound was passed"
        if answer != 0:
            assert self.rt.lib.status_name(answer) == "OUT_OF_MEMORY"
            assert is_refused or self._is_behind_a_pool(model), "no bound was in the way"
            model.failures += 1
            return
        place = address(self.rt, slot[0])
        if size == 0:
            assert place == 0
            return
        assert place % max(alignment, 256) == 0
        self.rt.ffi.memmove(slot[0], bytes([len(self.blocks) % 255 + 1]) * size, size)
        self.blocks.append((model, slot[0], size, alignment))
        self._count(model, size)
        model.live[place] = (size, alignment)
        model.peak = max(model.peak, model.live_bytes())

    def _passes_a_bound(self, model: Model | None, size: int) -> bool:
        """Whether a limit that the request comes to stands in its way; what a pool asks for is its own business."""
        if model is None or model.kind == "pool":
            return False
        is_full = model.kind == "limit" and Info(self.rt, model.name).live_bytes + size > model.maximum
        return is_full or self._passes_a_bound(model.upstream, size)

    def _is_behind_a_pool(self, model: Model | None) -> bool:
        """Whether a limit stands below a pool that the request comes to."""
        if model is None:
            return False
        return self._is_limited(model.upstream) if model.kind == "pool" else self._is_behind_a_pool(model.upstream)

    def _is_limited(self, model: Model | None) -> bool:
        return model is not None and (model.kind == "limit" or self._is_limited(model.upstream))

    def _count(self, model: Model, size: int) -> None:
        model.allocations += 1

    @precondition(lambda self: self.blocks)
    @rule(choice=st.integers(0, 10_000))
    def deallocate(self, choice: int) -> None:
        model, block, size, alignment = self.blocks.pop(choice % len(self.blocks))
        content = bytes(self.rt.ffi.buffer(block, size))
        assert content == content[:1] * size, "a block was written by another's owner"
        call = self.rt.call("runtime_memory_deallocate", model.name, block, size, alignment, None)
        call.succeeds()
        assert call.status() in {"INVALID_ARGUMENT", "INVALID_HANDLE"}, "given back twice"
        del model.live[address(self.rt, block)]
        model.deallocations += 1
        self._settle(model)

    @precondition(lambda self: self.blocks)
    @rule(choice=st.integers(0, 10_000), other=models, change=st.integers(-300, 300))
    def wrong_deallocations_change_nothing(self, choice: int, other: Model, change: int) -> None:
        model, block, size, alignment = self.blocks[choice % len(self.blocks)]
        call = self.rt.call("runtime_memory_deallocate", model.name, block, size, alignment, None)
        if change and size + change >= 0:
            assert call.status(bytes=size + change) == "INVALID_ARGUMENT"
        if other is not model and not other.is_gone():
            assert call.status(resource=other.name) == "INVALID_ARGUMENT"
        for data in (address(self.rt, block) + 1 + abs(change), 256):
            assert call.status(data=self.rt.ffi.cast("void *", data)) == "INVALID_ARGUMENT"
        if self.held:
            assert call.status(data=self.held[-1][1].struct.dl.data) == "INVALID_ARGUMENT"

    @rule(model=models, below=st.integers(0, 254), power=st.integers(0, 62))
    def what_overflows_is_refused(self, model: Model, below: int, power: int) -> None:
        if model.is_gone():
            return
        call = self.rt.call("runtime_memory_allocate", model.name, 2**64 - 1 - below, 0, None)
        assert call.status() == "INVALID_ARGUMENT"
        assert call.status(bytes=8, alignment=3 << power) == "INVALID_ARGUMENT"

    @rule(elements=st.integers(1, 5000))
    def make_tensor(self, elements: int) -> None:
        model = self.scopes[-1][1] if self.scopes else self.default
        if model is None or self._is_limited(model):
            return
        tensor = self.rt.alloc("u8", (elements,))
        assert Handle(self.rt, "KinaResource", tensor.struct.allocator) == model.name
        self.held.append((model, tensor, elements))
        model.tensors += 1
        model.tensor_bytes += elements
        model.allocations += 1
        model.peak = max(model.peak, model.live_bytes())

    @precondition(lambda self: self.held)
    @rule(choice=st.integers(0, 10_000))
    def free_tensor(self, choice: int) -> None:
        model, tensor, elements = self.held.pop(choice % len(self.held))
        self.rt.call("runtime_free", tensor).succeeds()
        model.tensors -= 1
        model.tensor_bytes -= elements
        model.deallocations += 1
        self._settle(model)

    # ---- what always holds

    @invariant()
    def live_blocks_never_overlap(self) -> None:
        spans = sorted((address(self.rt, block), address(self.rt, block) + size) for _, block, size, _ in self.blocks)
        spans += sorted((tensor.data, tensor.data + size) for _, tensor, size in self.held)
        spans.sort()
        assert all(low[1] <= high[0] for low, high in pairwise(spans))

    @invariant()
    def the_newest_push_is_current(self) -> None:
        default = self.built_in if self.default is None else self.default.name
        assert current(self.rt) == (self.scopes[-1][1].name if self.scopes else default)

    @invariant()
    def accounts_are_exact(self) -> None:
        for model in self.all:
            info = Info(self.rt, model.name)
            assert info.live_blocks == info.allocations - info.deallocations
            if model.users == 0 and model.kind != "custom":
                assert info.live_bytes >= model.live_bytes()
            if not any(other.upstream is model for other in self.all):
                self._is_exact(model, info)

    def _is_exact(self, model: Model, info: Info) -> None:
        if model.allocations == info.allocations:  # no adaptor ever stood on it
            assert info.live_bytes == model.live_bytes() and info.peak_bytes == model.peak
            assert info.deallocations == model.deallocations and info.failures == model.failures

    @invariant()
    def destroy_has_run_exactly_for_what_is_gone(self) -> None:
        for custom, model in self.customs:
            assert custom.destroyed == int(model.is_gone()) and not custom.wrong

    def teardown(self) -> None:
        rt = self.rt
        assert in_thread(lambda: current(rt)) == (self.built_in if self.default is None else self.default.name)
        self._set_default(None)
        while self.scopes:
            self.pop()
        while self.held:
            self.free_tensor(0)
        while self.blocks:
            self.deallocate(0)
        for model in list(self.all):
            self.release(model)
        assert not self.all, "nothing needs these, and they are still there"
        self.destroy_has_run_exactly_for_what_is_gone()
        self.example.__exit__(None, None, None)


@clause("KINA-RESOURCE-6", "a4856ec5")
@clause("KINA-RESOURCE-8", "d405a8f2")
@clause("KINA-RESOURCE-9", "970f60fc")
@clause("KINA-RESOURCE-12", "57537804")
@clause("KINA-RESOURCE-16", "cc697a09")
@clause("KINA-RESOURCE-30", "1f23671e")
@clause("KINA-RESOURCE-65", "60dd9f1c")
class TestResources(Resources.TestCase):  # type: ignore[misc,valid-type]
    """The laws of resources hold over every sequence of calls."""
