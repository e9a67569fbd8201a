"""Failures by byte against a model: random writes, failures, repairs and frees over many storages, on every device."""

from __future__ import annotations

import random
from dataclasses import dataclass, field

import pytest

from kina_conformance import Executor, clause
from kina_conformance.memory import Tensor

SEEDS, STEPS, STORAGES = 40, 300, 6
HOST, SIM = 1, 12


@dataclass(eq=False)
class Root:
    """Why bytes are failed. The id of what a device finds late is learned with the first report."""

    failure: int = 0


@dataclass(eq=False)
class Check:
    """What a device will find in the work of one gather: known to the model at once, to the host when it was shown."""

    number: int
    fails: bool
    is_shown: bool = False
    root: Root = field(default_factory=Root)


@dataclass
class Byte:
    """The failure that a byte carries, or the checks that it depends on, the oldest first."""

    root: Root | None = None
    doubt: tuple[Check, ...] = ()


@dataclass
class Model:
    """One storage: its tensor, where it is, and its bytes."""

    tensor: Tensor
    place: tuple[int, int]
    bytes: list[Byte]

    @property
    def size(self) -> int:
        return len(self.bytes)


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
    def bytes(self) -> list[Byte]:
        return [self.model.bytes[i] for i in sorted(self.elements)]

    def look(self, at_all: bool) -> Root | None:
        """The failure on the lowest failed byte under the elements, when the host looks at all of them or when an
        operation looks at what was shown."""
        while any([decide(byte, at_all) for byte in self.bytes]):
            pass
        return next((byte.root for byte in self.bytes if byte.root), None)

    def set(self, root: Root | None, doubt: tuple[Check, ...] = ()) -> None:
        for i in self.elements:
            self.model.bytes[i] = Byte(root, doubt)


def decide(byte: Byte, at_all: bool) -> bool:
    """Turns the checks of a byte, where they are looked at, into a failure or nothing; true when that changed it."""
    if not byte.doubt or not (at_all or any(check.fails and check.is_shown for check in byte.doubt)):
        return False
    for check in byte.doubt:
        check.is_shown = True
        if check.fails:
            byte.root = check.root
            break
    byte.doubt = ()
    return True


class World:
    """Some storages of the library beside their models, and the steps that both take."""

    def __init__(self, rt: Executor, seed: int, places: list[tuple[int, int]]) -> None:
        self.rt = rt
        self.random = random.Random(seed)
        self.places = places
        self.ids: set[int] = set()
        self.checks: list[Check] = []
        self.bare = rt.function
        self.info, self.one = rt.ffi.new("KinaFailureInfo *"), rt.ffi.new("KinaTensor *")
        self.info.struct_size = rt.ffi.sizeof("KinaFailureInfo")
        self.extent = rt.ffi.new("int64_t[]", [1])
        self.values = {place: self._copy_of(rt.tensor("u8", (4,), [1, 2, 3, 4]), place) for place in places}
        self.storages = [self.new_storage() for _ in range(STORAGES)]

    def _copy_of(self, x: Tensor, place: tuple[int, int]) -> Tensor:
        made: Tensor = self.rt.call("runtime_copy", x, *place).succeeds().out
        return made

    def new_storage(self) -> Model:
        size, place = self.random.choice([1, 7, 16, 40]), self.random.choice(self.places)
        call = self.rt.call(
            "runtime_alloc", (size,), ndim=1, dtype="u8", device_type=place[0], device_id=place[1], stream=None
        )
        return Model(call.succeeds().out, place, [Byte() for _ in range(size)])

    def part(self, count: int | None = None) -> Part:
        """A view of a random storage: any stride, any direction; of `count` elements, if given and there is room."""
        return self.part_of(self.random.choice(self.storages), count)

    def part_of(self, model: Model, count: int | None = None, tensor: Tensor | None = None) -> Part:
        extent = self.random.randint(0, model.size) if count is None else min(count, model.size)
        widest = (model.size - 1) // max(extent - 1, 1)
        step = self.random.randint(1, max(1, widest)) * self.random.choice([1, -1])
        reach = step * max(extent - 1, 0)
        first = self.random.randint(max(0, -reach), model.size - 1 - max(0, reach)) if extent else 0
        view = self.rt.empty()
        shape, strides = (self.rt.ffi.new("int64_t[]", [n]) for n in (extent, step))
        whole = (tensor or model.tensor).struct
        assert self.bare("runtime_view")(view.struct, whole, shape, strides, 1, first, 0) == 0
        return Part(model, self.rt.own(view), [first + i * step for i in range(extent)])

    # ---- steps -------------------------------------------------------------------------------------------------------

    def fill(self) -> None:
        part = self.part()
        self._fill(part)
        part.set(None)

    def fail(self) -> None:
        part = self.part()
        known = [byte.root for model in self.storages for byte in model.bytes if byte.root and byte.root.failure]
        root = self.random.choice(known) if known and self.random.random() < 0.3 else Root()
        call = self.rt.call(
            "runtime_failure_set", tensor=part.tensor, cause=root.failure, status="DEVICE", message="model"
        )
        self._learn(root, int(call.succeeds().failure))
        self._failed(part, root)

    def clear(self) -> None:
        part = self.part()
        was_failed = self.rt.call("runtime_failure_clear", tensor=part.tensor).succeeds().was_failed
        assert was_failed == (1 if part.look(at_all=True) else 0)
        part.set(None)

    def copy(self) -> None:
        """Reads one part and writes another: a failed source is handed on, whatever the target was before."""
        source = self.part()
        target = self.part(len(source.elements))
        if len(source.elements) != len(target.elements) or source.model is target.model:
            return
        call = self.rt.call("runtime_copy", source.tensor, *target.model.place)
        status = call.status(out=target.tensor)
        root = source.look(at_all=HOST in {target.model.place[0], source.model.place[0]})
        assert status == ("FAILED_INPUT" if root else "SUCCESS")
        if root:
            self._learn(root, self.rt.record().failure)
            self._failed(target, root)
        else:
            checks = {check for byte in source.bytes for check in byte.doubt}
            target.set(None, tuple(sorted(checks, key=lambda check: check.number)))

    def gather(self) -> None:
        """Writes a part on a device by indices of which one may be bad."""
        models = self._on_devices()
        if not models:
            return
        part = self.part_of(self.random.choice(models))
        indices = [self.random.randrange(4) for _ in part.elements]
        fails = bool(indices) and self.random.random() < 0.4
        if fails:
            indices[self.random.randrange(len(indices))] = self.random.choice([-1, 4, 1 << 40])
        chosen = self._copy_of(self.rt.tensor("i64", (len(indices),), indices), part.model.place)
        call = self.rt.call("runtime_gpu_gather", self.values[part.model.place], chosen)
        assert call.status(out=part.tensor) == "SUCCESS"
        self.checks.append(Check(len(self.checks), fails))
        part.set(None, (self.checks[-1],))

    def peer(self) -> None:
        """Writes a part from the other device, in an order that the caller makes by waiting."""
        models = self._on_devices()
        if not models:
            return
        model = self.random.choice(models)
        other = next(place for place in self.places if place[0] == SIM and place != model.place)
        self.wait()
        peer = self.rt.call("runtime_peer_share", model.tensor).succeeds().out
        opened = self.rt.call("runtime_peer_open", peer, *other).succeeds().out
        part = self.part_of(model, tensor=opened)
        self._fill(part)
        part.set(None)
        self.wait()

    def wait(self) -> None:
        """All checks are shown to the host."""
        for device_type, device_id in self.places:
            self.rt.call("runtime_device_synchronize", device_type, device_id).succeeds()
        for check in self.checks:
            check.is_shown = True

    def read(self) -> None:
        part = self.part()
        status = self.rt.call("runtime_tensor_synchronize", tensor=part.tensor).status()
        assert status == ("FAILED_INPUT" if part.look(at_all=True) else "SUCCESS")

    def free(self) -> None:
        """The storage goes, and its claims with it; a new one is clean."""
        position = self.random.randrange(len(self.storages))
        self.rt.call("runtime_free", tensor=self.storages[position].tensor).succeeds()
        self.storages[position] = self.new_storage()

    # ---- what follows ------------------------------------------------------------------------------------------------

    def _on_devices(self) -> list[Model]:
        return [model for model in self.storages if model.place[0] != HOST]

    def _fill(self, part: Part) -> None:
        call = self.rt.call("runtime_fill", tensor=part.tensor, value=b"\x2a", value_bytes=1)
        assert call.status() == "SUCCESS"

    def _learn(self, root: Root | None, failure: int) -> None:
        """The library tells a failure: no two roots have one id."""
        if root is None:
            assert failure == 0
        elif root.failure == 0:
            assert failure not in self.ids | {0}
            root.failure = failure
            self.ids.add(failure)
        else:
            assert failure == root.failure

    def _failed(self, part: Part, root: Root) -> None:
        """A failed write marks at least the elements and at most the hull: between them the library chooses."""
        part.set(root)
        for i in part.hull:
            if i not in part.elements and self.mark_of(part.model, i) == root.failure:
                part.model.bytes[i] = Byte(root)
            elif i not in part.elements:
                self.check_byte(part.model, i)

    def mark_of(self, model: Model, byte: int) -> int:
        """The failure on one byte, by bare calls: there are very many of them."""
        info, one, extent = self.info, self.one, self.extent
        assert self.bare("runtime_view")(one, model.tensor.struct, extent, self.rt.ffi.NULL, 1, byte, 0) == 0
        assert self.bare("runtime_failure_get")(info, one) == 0
        assert self.bare("runtime_free")(one) == 0
        return int(info.failure)

    def check_byte(self, model: Model, byte: int) -> None:
        decide(model.bytes[byte], at_all=True)
        self._learn(model.bytes[byte].root, self.mark_of(model, byte))

    def check(self) -> None:
        """Every byte of every storage is what the model says, and so is the report on the whole."""
        for model in self.storages:
            for i in range(model.size):
                self.check_byte(model, i)
            info = self.rt.call("runtime_failure_get", model.tensor).succeeds().out
            roots = [byte.root for byte in model.bytes]
            found = next(((i, root) for i, root in enumerate(roots) if root), None)
            if found is None:
                assert info.status == 0 and info.failure == 0
                continue
            lowest, lowest_root = found
            end = next((i for i in range(lowest, model.size) if roots[i] is not lowest_root), model.size)
            expected = (lowest_root.failure, lowest, end)
            assert (info.failure, info.range.start, info.range.end) == expected


OFTEN = ["fill", "fill", "fail", "fail", "copy", "copy", "copy", "clear", "read", "free"]


def run(rt: Executor, seed: int, world: World, names: list[str]) -> None:
    mark = len(rt.live)
    for number in range(STEPS):
        name = world.random.choice(names)
        try:
            getattr(world, name)()
            if number % 50 == 49:
                world.check()
        except AssertionError as error:
            raise AssertionError(f"seed {seed}, step {number}, {name}: {error}") from error
        if name != "free":
            rt.release_since(mark)
    world.check()


@clause("KINA-STORAGE-23", "314bea6c")
@clause("KINA-STORAGE-27", "38fd4b16")
@clause("KINA-STORAGE-36", "48f69b1f")
@pytest.mark.parametrize("seed", range(SEEDS))
def test_a_read_succeeds_exactly_when_the_last_write_of_every_byte_did(rt: Executor, seed: int) -> None:
    run(rt, seed, World(rt, seed, [(HOST, 0)]), OFTEN)


@clause("KINA-STORAGE-41", "d85f08e3")
@clause("KINA-STORAGE-42", "b542cf0e")
@clause("KINA-STORAGE-58", "85a65d1c")
@clause("KINA-STORAGE-60", "27a9783a")
@pytest.mark.needs("sim")
@pytest.mark.parametrize("seed", range(SEEDS))
def test_so_it_does_where_devices_find_failures_late(rt: Executor, seed: int) -> None:
    devices = [(SIM, i) for i in range(min(rt.device_count(SIM), 2))]
    names = [*OFTEN, "gather", "gather", "gather", "wait"]
    if len(devices) == 2 and all(rt.call("runtime_device_can_access", SIM, i, 1 - i).succeeds().out for i in (0, 1)):
        names.append("peer")

    run(rt, seed, World(rt, seed, [(HOST, 0), *devices]), names)
