"""Storages of devices that several hold at once: weak references beside work in flight, and peers."""

from __future__ import annotations

import pytest

from kina_conformance import Executor, Handle, Tensor, clause
from kina_conformance.alone import alone
from kina_conformance.devices import (
    FIRST,
    SECOND,
    back,
    checkout,
    device_count,
    fill,
    main,
    negated,
    pool,
    pushed,
    there,
)
from kina_conformance.resources import Info
from kina_conformance.tensors import free, peer_of


@clause("KINA-STORAGE-46", "d6a2457b")
@pytest.mark.needs("sim")
def test_work_in_flight_does_not_keep_a_storage_upgradable(rt: Executor) -> None:
    stream = checkout(rt)
    for i in range(10):
        x = there(rt, [i] * 2000, stream)
        weak = rt.call("runtime_weak_create", x).succeeds().out
        for _ in range(4):
            result = negated(rt, x, stream)
        rt.call("runtime_free", x).succeeds()

        assert rt.call("runtime_weak_upgrade", weak).status() == "INVALID_HANDLE"
        assert set(back(rt, result)) == {-i}


# ---- peers -----------------------------------------------------------------------------------------------------------


def opened(rt: Executor, peer: Handle, device: tuple[int, int]) -> Tensor:
    tensor: Tensor = rt.call("runtime_peer_open", peer, *device).succeeds().out
    return tensor


@clause("KINA-STORAGE-50", "34d0feda")
@clause("KINA-STORAGE-55", "4fb23503")
@pytest.mark.needs("sim")
def test_a_pinned_storage_of_a_device_is_not_handed_out_again(rt: Executor) -> None:
    resource = pool(rt, initial_bytes=8192, growth="KINA_GROWTH_NONE")
    with pushed(rt, resource):
        x = there(rt, [5] * 2000)
    peer = peer_of(rt, x)
    free(rt, x)
    call = rt.call("runtime_memory_allocate", resource, 8000, 0, main(rt))

    assert call.status() == "OUT_OF_MEMORY", "the bytes of a live peer handle were handed out"
    again = opened(rt, peer, FIRST)
    assert set(back(rt, again)) == {5}

    free(rt, again)
    rt.call("runtime_peer_release", peer).succeeds()
    assert Info(rt, resource).live_blocks == 0
    call.succeeds()


@clause("KINA-STORAGE-52", "be8bc310")
@clause("KINA-STORAGE-54", "3d3c5f16")
@clause("KINA-STORAGE-55", "4fb23503")
@pytest.mark.needs("sim")
def test_a_peers_tensor_reads_and_writes_the_owners_bytes_after_the_owner_went(rt: Executor) -> None:
    if device_count(rt) < 2:
        return
    x = there(rt, list(range(100)))
    part = rt.call("runtime_gpu_slice", x, axis=0, start=10, stop=30).succeeds().out
    peer = peer_of(rt, part)
    free(rt, part)
    free(rt, x)
    rt.call("runtime_device_synchronize", *FIRST).succeeds()

    other = opened(rt, peer, SECOND)
    rt.call("runtime_peer_release", peer).succeeds()
    inner = rt.call("runtime_gpu_slice", other, axis=0, start=5, stop=10).succeeds().out

    assert other.device == SECOND and back(rt, other) == list(range(10, 30))
    fill(rt, inner, 7)
    assert back(rt, negated(rt, other)) == [-value for value in [*range(10, 15), *[7] * 5, *range(20, 30)]]


@clause("KINA-STREAM-20", "7cca174b")
@pytest.mark.needs("sim")
def test_streams_of_two_devices_order_what_peers_do(rt: Executor) -> None:
    if device_count(rt) < 2:
        return
    mine, theirs = checkout(rt, FIRST), checkout(rt, SECOND)
    x = there(rt, [0] * 2000, mine)
    other = opened(rt, peer_of(rt, x), SECOND)
    for i in range(1, 20, 2):
        fill(rt, x, i, mine)
        rt.call("runtime_stream_wait", theirs, mine).succeeds()
        result = negated(rt, other, theirs)
        fill(rt, other, i + 1, theirs)
        rt.call("runtime_stream_wait", mine, theirs).succeeds()

        assert (set(back(rt, result)), set(back(rt, negated(rt, x, mine)))) == ({-i}, {-i - 1})


@clause("KINA-STORAGE-53", "c690babe")
@clause("KINA-DEVICE-9", "67e06860")
@pytest.mark.needs("sim")
def test_a_pair_that_cannot_reach_each_other_is_refused_up_front(rt: Executor) -> None:
    told = alone(
        rt,
        """
        rt = opened()
        x, peer, answer = tensor(rt, (4,), (12, 0)), ffi.new("KinaPeer *"), ffi.new("int32_t *")
        assert rt.runtime_peer_share(peer, x) == 0
        for device in range(3):
            out = ffi.new("KinaTensor *")
            assert rt.runtime_device_can_access(answer, 12, device, 0) == 0
            status = rt.runtime_peer_open(out, peer[0], 12, device)
            print(answer[0], word(rt, status), bytes(ffi.buffer(out)) == bytes(96))
            assert rt.runtime_free(out) == 0
        assert rt.runtime_peer_release(peer[0]) == rt.runtime_free(x) == 0
        """,
        KINA_SIM_DEVICES="3",
        KINA_SIM_DENY="1-0",
    )

    assert told.splitlines() == ["1 SUCCESS False", "0 UNSUPPORTED True", "1 SUCCESS False"]


@clause("KINA-STORAGE-52", "be8bc310")
@pytest.mark.needs("sim")
def test_a_number_that_names_no_live_peer_opens_nothing(rt: Executor) -> None:
    peer = peer_of(rt, there(rt, [1]))
    call = rt.call("runtime_peer_open", peer, *FIRST)

    for number in (7, peer.value ^ 1, peer.value + (1 << 30), main(rt).value):
        call.refuses("INVALID_HANDLE", peer=rt.handle("KinaPeer", number), clause="KINA-STATUS-26")
