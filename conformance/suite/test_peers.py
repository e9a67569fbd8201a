"""Peers: tensors of one simulated device on bytes of another, their lives and their failures."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from kina_conformance import Executor, clause
from kina_conformance.alone import alone
from kina_conformance.devices import SIMULATED, back, busy, checkout, part, pushed, there
from kina_conformance.memory import Handle, Tensor

pytestmark = pytest.mark.needs("sim", "peer", devices=2)

PAIRS = [(0, 1), (1, 0)]


@pytest.fixture(params=PAIRS, ids=["of 0 on 1", "of 1 on 0"])
def pair(request: pytest.FixtureRequest) -> tuple[int, int]:
    made: tuple[int, int] = request.param
    return made


class Shared:
    """Eight numbers on the owner's device, and tensors on the other device that look at them."""

    def __init__(self, rt: Executor, pair: tuple[int, int]) -> None:
        self.rt = rt
        self.owner, self.other = pair
        self.mine = self.there(range(8), self.owner)
        self.peer: Handle = rt.call("runtime_peer_share", self.mine).succeeds().out

    def there(self, values: Sequence[float], device_id: int) -> Tensor:
        return there(self.rt, values, device=(SIMULATED, device_id))

    def opened(self, peer: Handle | None = None) -> Tensor:
        made: Tensor = self.rt.call("runtime_peer_open", peer or self.peer, SIMULATED, self.other).succeeds().out
        return made

    def settled(self) -> None:
        """The order that callers owe: everything so far has run on both devices."""
        for device_id in (0, 1):
            self.rt.call("runtime_device_synchronize", SIMULATED, device_id).succeeds()


def shared_on(rt: Executor, pair: tuple[int, int]) -> Shared | None:
    """None where the two devices do not reach each other."""
    reach = [rt.call("runtime_device_can_access", SIMULATED, a, b).succeeds().out for a, b in PAIRS]
    return Shared(rt, pair) if reach == [1, 1] else None


def fail(rt: Executor, tensor: Tensor, cause: int = 0) -> int:
    call = rt.call("runtime_failure_set", tensor=tensor, cause=cause, status="DEVICE", message="broken")
    return int(call.succeeds().failure)


def failures(rt: Executor, tensor: Tensor) -> list[int]:
    """The failure of each element."""
    elements = [part(rt, tensor, 1, offset=i) for i in range(tensor.shape[0])]
    return [int(rt.call("runtime_failure_get", element).succeeds().out.failure) for element in elements]


# ---- the bytes -------------------------------------------------------------------------------------------------------


@clause("KINA-STORAGE-52", "be8bc310")
def test_offsets_and_strides_of_the_shared_tensor_apply(rt: Executor, pair: tuple[int, int]) -> None:
    shared = shared_on(rt, pair)
    if shared is None:
        return
    every_second = part(rt, shared.mine, 4, offset=1, stride=2)
    opened = shared.opened(rt.call("runtime_peer_share", every_second).succeeds().out)
    shared.settled()

    rt.call("runtime_fill", tensor=opened, value=bytes(4), value_bytes=4).succeeds()
    shared.settled()

    assert back(rt, shared.mine) == [0, 0, 2, 0, 4, 0, 6, 0]


@clause("KINA-STREAM-33", "63f21257")
@clause("KINA-STREAM-34", "c0cfc664")
def test_the_owners_side_of_an_operation_is_ordered_when_a_peer_of_its_storage_takes_part(
    rt: Executor, pair: tuple[int, int]
) -> None:
    shared = shared_on(rt, pair)
    if shared is None:
        return
    owner = (SIMULATED, shared.owner)
    low, high = part(rt, shared.mine, 4), part(rt, shared.mine, 4, offset=4)
    theirs = shared.opened(rt.call("runtime_peer_share", high).succeeds().out)
    first, second = checkout(rt, owner), checkout(rt, owner)
    for _ in range(10):  # the devices choose an order of their own
        shared.settled()
        busy(rt, low, first, 9)

        with pushed(rt, second):
            assert rt.call("runtime_copy", theirs, *owner).status(out=low) == "SUCCESS"

        assert back(rt, low) == [4, 5, 6, 7]


# ---- failures --------------------------------------------------------------------------------------------------------


@clause("KINA-STORAGE-58", "85a65d1c")
@clause("KINA-STORAGE-22", "3ca08b4e")
def test_a_failure_set_on_one_side_is_on_both_and_only_on_its_bytes(rt: Executor, pair: tuple[int, int]) -> None:
    shared = shared_on(rt, pair)
    if shared is None:
        return
    theirs = shared.opened()
    first = fail(rt, part(rt, theirs, 3))
    second = fail(rt, part(rt, shared.mine, 2, offset=6))
    expected = [first] * 3 + [0] * 3 + [second] * 2

    for _ in range(2):
        assert failures(rt, shared.mine) == failures(rt, theirs) == expected
        again = fail(rt, part(rt, theirs, 3), first), fail(rt, part(rt, shared.mine, 2, offset=6), second)
        assert again == (first, second)

    for side in (shared.mine, theirs):
        assert rt.call("runtime_tensor_synchronize", tensor=side).status() == "FAILED_INPUT"
        assert rt.record().failure == first
    shared.settled()
    assert rt.call("runtime_fill", tensor=theirs, value=bytes(4), value_bytes=4).status() == "SUCCESS"
    assert failures(rt, shared.mine) == [0] * 8


@clause("KINA-STORAGE-58", "85a65d1c")
@clause("KINA-STORAGE-28", "4911fa64")
def test_a_failed_source_fails_the_destination_and_nothing_is_copied(rt: Executor, pair: tuple[int, int]) -> None:
    shared = shared_on(rt, pair)
    if shared is None:
        return
    theirs = shared.opened()
    failure = fail(rt, part(rt, shared.mine, 1, offset=3))
    target = shared.there([9] * 8, shared.other)
    call = rt.call("runtime_copy", theirs, SIMULATED, shared.other)

    assert call.status(out=target) == "FAILED_INPUT"

    assert failures(rt, target) == [failure] * 8
    assert rt.call("runtime_failure_clear", tensor=target).succeeds().was_failed == 1
    assert back(rt, target) == [9] * 8
    shared.settled()
    good = rt.call("runtime_copy", part(rt, theirs, 3), SIMULATED, shared.other).status(out=part(rt, target, 3))
    assert good == "SUCCESS"
    assert back(rt, target) == [0, 1, 2, 9, 9, 9, 9, 9]


@clause("KINA-STORAGE-58", "85a65d1c")
def test_the_owner_going_first_takes_no_failure_along(rt: Executor, pair: tuple[int, int]) -> None:
    shared = shared_on(rt, pair)
    if shared is None:
        return
    theirs = shared.opened()
    failure = fail(rt, part(rt, shared.mine, 2))
    rt.call("runtime_free", tensor=shared.mine).succeeds()
    rt.call("runtime_peer_release", peer=shared.peer).succeeds()
    assert failures(rt, theirs) == [failure] * 2 + [0] * 6

    rt.call("runtime_free", tensor=theirs).succeeds()
    later = [shared.there([1] * 8, shared.owner) for _ in range(20)]

    assert all(failures(rt, tensor) == [0] * 8 for tensor in later)


@clause("KINA-STORAGE-58", "85a65d1c")
@clause("KINA-STATUS-20", "f6364a9f")
@pytest.mark.parametrize("fault", ["launch", "copy", "lost"])
def test_work_of_the_other_device_that_fails_marks_the_owners_bytes(rt: Executor, fault: str) -> None:
    told = alone(
        rt,
        """
        rt = opened()
        mine, target = tensor(rt, (8,), (12, 0)), tensor(rt, (8,), (12, 0))
        half, peer, theirs = ffi.new("KinaTensor *"), ffi.new("KinaPeer *"), ffi.new("KinaTensor *")
        assert rt.runtime_view(half, mine, [4], [1], 1, 4, 0) == 0
        assert rt.runtime_peer_share(peer, half) == rt.runtime_peer_open(theirs, peer[0], 12, 1) == 0
        failed = (
            rt.runtime_gpu_unary(theirs, theirs, rt.constants["KINA_UNARY_NEG"])
            if os.environ["KINA_SIM_FAULT"] != "copy:1"
            else rt.runtime_copy(theirs, tensor(rt, (4,), (12, 0)), 12, 1)
        )
        info = ffi.new("KinaFailureInfo *", {"struct_size": ffi.sizeof("KinaFailureInfo")})
        assert rt.runtime_failure_get(info, mine) == 0
        print(word(rt, failed), word(rt, info.status), info.range.start, info.range.end)
        print(word(rt, rt.runtime_gpu_unary(target, mine, rt.constants["KINA_UNARY_NEG"])))
        assert rt.runtime_fill(half, ffi.new("float *"), 4) == 0
        print(word(rt, rt.runtime_gpu_unary(target, mine, rt.constants["KINA_UNARY_NEG"])))
        for each in (theirs, half, mine, target):
            assert rt.runtime_free(each) == 0
        """,
        KINA_SIM_DEVICES="2",
        KINA_SIM_FAULT=f"{fault}:1",
    )

    status = {"launch": "KERNEL_LAUNCH", "copy": "DEVICE", "lost": "DEVICE_LOST"}[fault]
    assert told.split() == [status, status, "16", "32", "FAILED_INPUT", "SUCCESS"]
