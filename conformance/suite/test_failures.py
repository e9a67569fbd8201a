"""Failures by byte against a model: random writes, failures, repairs and frees over many storages."""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import pytest

from kina_conformance import Executor, clause
from kina_conformance.memory import Tensor

SEEDS, STEPS, STORAGES = 40, 300, 6


@dataclass
class Model:
    """One storage: its tensor, and for each byte the id of the failure that it carries, 0 for none."""

    tensor: Tensor
    marks: list[int]

    @property
    def size(self) -> int:
        return len(self.marks)


@dataclass
class Part:
    """A view and the bytes of its storage that its elements are, in the order of its indices."""

    model: Model
    tensor: Tensor
    elements: list[int] = field(default_factory=list)

    @property
    def hull(self) -> range:
        return range(min(self.elements), max(self.elements) + 1) if self.elements else range(0)

    @property
    def failure(self) -> int:
        """The failure on the lowest failed byte under the elements."""
        return next((self.model.marks[i] for i in sorted(self.elements) if self.model.marks[i]), 0)

    def set(self, mark: int) -> None:
        for i in self.elements:
            self.model.marks[i] = mark


class World:
    """Some storages of the library beside their models, and the steps that both take."""

    def __init__(self, rt: Executor, seed: int) -> None:
        self.rt = rt
        self.random = random.Random(seed)
        self.causes: set[int] = set()
        self.bare = rt.function
        self.info, self.one = rt.ffi.new("KinaFailureInfo *"), rt.ffi.new("KinaTensor *")
        self.info.struct_size = rt.ffi.sizeof("KinaFailureInfo")
        self.extent = rt.ffi.new("int64_t[]", [1])
        self.storages = [self.new_storage() for _ in range(STORAGES)]

    def new_storage(self) -> Model:
        size = self.random.choice([1, 7, 16, 40])
        return Model(self.rt.alloc("u8", (size,)), [0] * size)

    def part(self, count: int | None = None) -> Part:
        """A view of a random storage: any stride, any direction; of `count` elements, if given and there is room."""
        model = self.random.choice(self.storages)
        extent = self.random.randint(0, model.size) if count is None else min(count, model.size)
        widest = (model.size - 1) // max(extent - 1, 1)
        step = self.random.randint(1, max(1, widest)) * self.random.choice([1, -1])
        reach = step * max(extent - 1, 0)
        first = self.random.randint(max(0, -reach), model.size - 1 - max(0, reach)) if extent else 0
        view = self.rt.empty()
        shape, strides = (self.rt.ffi.new("int64_t[]", [n]) for n in (extent, step))
        assert self.bare("runtime_view")(view.struct, model.tensor.struct, shape, strides, 1, first, 0) == 0
        return Part(model, self.rt.own(view), [first + i * step for i in range(extent)])

    # ---- steps -------------------------------------------------------------------------------------------------------

    def fill(self) -> None:
        part = self.part()
        assert self._status("runtime_fill", tensor=part.tensor, value=b"\x2a", value_bytes=1) == "SUCCESS"
        part.set(0)

    def fail(self) -> None:
        part = self.part()
        known = sorted({mark for model in self.storages for mark in model.marks} - {0})
        cause = self.random.choice(known) if known and self.random.random() < 0.3 else 0
        call = self.rt.call("runtime_failure_set", tensor=part.tensor, cause=cause, status="DEVICE", message="model")
        failure = int(call.succeeds().failure)
        assert failure == cause if cause else failure not in self.causes
        self.causes.add(failure)
        self._learn(part, failure)

    def clear(self) -> None:
        part = self.part()
        was_failed = self.rt.call("runtime_failure_clear", tensor=part.tensor).succeeds().was_failed
        assert was_failed == (1 if part.failure else 0)
        part.set(0)

    def copy(self) -> None:
        """Reads one part and writes another: a failed source is handed on, whatever the target was before."""
        source = self.part()
        target = self.part(len(source.elements))
        if len(source.elements) != len(target.elements) or source.model is target.model:
            return
        status = self._status("runtime_copy", out=target.tensor, in_=source.tensor, device_type=1, device_id=0)
        assert status == ("FAILED_INPUT" if source.failure else "SUCCESS")
        if source.failure:
            assert self.rt.record().failure == source.failure
            self._learn(target, source.failure)
        else:
            target.set(0)

    def read(self) -> None:
        part = self.part()
        expected = "FAILED_INPUT" if part.failure else "SUCCESS"
        assert self._status("runtime_tensor_synchronize", tensor=part.tensor) == expected

    def free(self) -> None:
        """The storage goes, and its claims with it; a new one is clean."""
        position = self.random.randrange(len(self.storages))
        self.rt.call("runtime_free", tensor=self.storages[position].tensor).succeeds()
        self.storages[position] = self.new_storage()

    # ---- what follows ------------------------------------------------------------------------------------------------

    def _status(self, name: str, **arguments: Any) -> str:
        return self.rt.call(name, **arguments).status()

    def _learn(self, part: Part, failure: int) -> None:
        """A failed write marks at least the elements and at most the hull: between them the library chooses."""
        before = list(part.model.marks)
        part.set(failure)
        for i in part.hull:
            if i not in part.elements:
                mark = self.mark_of(part.model, i)
                assert mark in {before[i], failure}, f"byte {i} carries {mark}, neither {before[i]} nor {failure}"
                part.model.marks[i] = mark

    def mark_of(self, model: Model, byte: int) -> int:
        """The failure on one byte, by bare calls: there are very many of them."""
        info, one, extent = self.info, self.one, self.extent
        assert self.bare("runtime_view")(one, model.tensor.struct, extent, self.rt.ffi.NULL, 1, byte, 0) == 0
        assert self.bare("runtime_failure_get")(info, one) == 0
        assert self.bare("runtime_free")(one) == 0
        return int(info.failure)

    def check(self) -> None:
        """Every byte of every storage is what the model says, and so is the report on the whole."""
        for model in self.storages:
            assert [self.mark_of(model, i) for i in range(model.size)] == model.marks
            info = self.rt.call("runtime_failure_get", model.tensor).succeeds().out
            lowest = next((i for i, mark in enumerate(model.marks) if mark), None)
            if lowest is None:
                assert info.status == 0 and info.failure == 0
                continue
            end = next((i for i in range(lowest, model.size) if model.marks[i] != model.marks[lowest]), model.size)
            assert (info.failure, info.range.start, info.range.end) == (model.marks[lowest], lowest, end)


def steps(world: World) -> Iterator[str]:
    """The names of a run's steps, more of the telling ones."""
    names = ["fill", "fill", "fail", "fail", "copy", "copy", "copy", "clear", "read", "free"]
    return (world.random.choice(names) for _ in range(STEPS))


@clause("KINA-STORAGE-23", "314bea6c")
@clause("KINA-STORAGE-27", "38fd4b16")
@clause("KINA-STORAGE-36", "48f69b1f")
@pytest.mark.parametrize("seed", range(SEEDS))
def test_a_read_succeeds_exactly_when_the_last_write_of_every_byte_did(rt: Executor, seed: int) -> None:
    world = World(rt, seed)
    mark = len(rt.live)

    for number, name in enumerate(steps(world)):
        try:
            getattr(world, name)()
            if number % 50 == 49:
                world.check()
        except AssertionError as error:
            raise AssertionError(f"seed {seed}, step {number}, {name}: {error}") from error
        if name != "free":
            rt.release_since(mark)
    world.check()
