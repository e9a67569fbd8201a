"""What an exchange may not lose: a demand that is not met, a refusal's words, a block that nobody frees."""

from __future__ import annotations

import gc
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import kina
from kina import capsule as capsules


@pytest.fixture(autouse=True)
def _runtime(library: Path) -> None:
    kina.use(library)


def array() -> Any:
    return np.arange(6, dtype=np.float32).reshape(2, 3)


class Old:
    """A producer of the days before `max_version`, `dl_device` and `copy`, as PyTorch 1 is."""

    def __init__(self, array: Any) -> None:
        self.array = array

    def __dlpack_device__(self) -> tuple[int, int]:
        return 1, 0

    def __dlpack__(self, stream: int | None = None) -> Any:
        return self.array.__dlpack__()


@pytest.mark.parametrize(
    ("source", "words"),
    [
        (lambda: kina.asarray(array().astype("f8"), "i32", copy=False), "Unable to avoid copy"),
        (lambda: kina.asarray([1, 2], copy=False), "Unable to avoid copy"),
        (lambda: kina.asarray(array(), "bf16", copy=False), "bf16 on cpu would be a copy"),
        (lambda: kina.asarray(array(), device="sim", copy=False), "it on sim would be a copy"),
        (lambda: kina.asarray(array().astype(">f4"), copy=False), "native byte order"),
        (lambda: kina.asarray(np.zeros(9, np.uint8)[1:].view(np.float32), copy=False), "not aligned to 4 bytes"),
        (lambda: kina.from_dlpack(array().__dlpack__(), copy=True), "cannot be asked for a copy"),
        (lambda: kina.from_dlpack(array().__dlpack__(), device="sim"), "cannot be asked for a copy or a device"),
    ],
)
def test_a_demand_that_cannot_be_met_is_refused_and_never_passed_over(source: Callable[[], Any], words: str) -> None:
    with pytest.raises(kina.CopyNeededError, match=words) as refused:
        source()
    assert "\n" not in str(refused.value) and "np." not in str(refused.value)


def test_asarray_does_what_an_old_producer_cannot() -> None:
    shared = array()

    for demand in ({"copy": True}, {"device": "cpu"}):
        with pytest.raises(TypeError, match=r"Old may be too old for .*, which asarray can do"):
            kina.from_dlpack(Old(shared), **demand)
    assert kina.asarray(Old(shared), device="cpu", copy=False).data_ptr == shared.ctypes.data
    copied = kina.asarray(Old(shared), copy=True)
    assert copied.data_ptr != shared.ctypes.data and copied.tolist() == shared.tolist()


def test_a_device_is_named_alike_everywhere() -> None:
    tensor = kina.asarray(array())

    assert kina.from_dlpack(tensor, device="cpu").data_ptr == tensor.data_ptr
    assert np.from_dlpack(tensor, device="cpu").ctypes.data == tensor.data_ptr
    for device in ("gpu", 5, (1,), (1, 0, 0), (1.0, 0)):
        with pytest.raises(ValueError, match="is no device"):
            tensor.__dlpack__(dl_device=device)  # type: ignore[arg-type]
        with pytest.raises(ValueError, match="is no device"):
            kina.from_dlpack(tensor, device=device)  # type: ignore[arg-type]


def test_a_negative_stride_is_not_handed_to_readers_that_die_of_it() -> None:
    turned = kina.asarray(array()[::-1])

    assert np.from_dlpack(turned).tolist() == array()[::-1].tolist()
    with pytest.raises(BufferError, match="negative strides"):
        turned.to_dlpack()
    assert kina.from_dlpack(turned.copy().to_dlpack()).tolist() == array()[::-1].tolist()
    assert kina.from_dlpack(turned.__dlpack__(copy=True)).tolist() == array()[::-1].tolist()


def test_what_is_no_capsule_is_told_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Old, "__dlpack__", lambda _self, **_words: 5)

    with pytest.raises(TypeError, match="a capsule is needed, not int"):
        kina.from_dlpack(Old(array()))


def _live() -> int:
    runtime, ffi = kina.current(), kina.interface()
    resource, info = ffi.new("KinaResource *"), ffi.new("KinaResourceInfo *")
    info.struct_size = ffi.sizeof("KinaResourceInfo")
    assert runtime.runtime_resource_current(resource, 1, 0) == 0
    assert runtime.runtime_resource_info(info, resource[0]) == 0
    return int(info.live_blocks)


def _twice(capsule: Any) -> None:
    kina.from_dlpack(capsule)
    kina.from_dlpack(capsule)


@pytest.mark.parametrize(
    "exchange",
    [
        lambda: np.from_dlpack(kina.zeros((64,))),
        lambda: np.from_dlpack(kina.zeros((64,), "bf16")),  # NumPy has none and refuses it
        lambda: kina.zeros((64,)).__dlpack__(max_version=(1, 0)),
        lambda: kina.zeros((64,)).to_dlpack(),
        lambda: kina.zeros((64,)).__dlpack__(stream=3),
        lambda: kina.zeros((64,)).__dlpack__(dl_device=(1, 1)),
        lambda: _twice(kina.zeros((64,)).to_dlpack()),
        lambda: kina.from_dlpack(np.zeros((1,) * 33)),
        lambda: kina.asarray(Old(np.zeros(64)), copy=True),
        lambda: kina.asarray(Old(np.zeros(64)), device="cuda"),
    ],
)
def test_no_exchange_and_no_refusal_leaves_a_block_behind(exchange: Callable[[], Any]) -> None:
    before = _live()
    for _ in range(10):
        try:
            exchange()
        except (RuntimeError, ValueError, BufferError):
            continue
    gc.collect()

    assert _live() == before


def test_a_forked_child_exchanges_although_another_thread_took_a_capsule_when_it_was_made() -> None:
    is_inside = threading.Event()

    def take_long() -> None:
        with capsules._claims:
            is_inside.set()
            time.sleep(0.2)

    other = threading.Thread(target=take_long)
    other.start()
    is_inside.wait()
    child = os.fork()
    if child == 0:
        signal.alarm(10)
        os._exit(0 if kina.from_dlpack(array()).tolist() == array().tolist() else 1)
    other.join()

    assert os.waitpid(child, 0)[1] == 0
    assert kina.from_dlpack(array()).tolist() == array().tolist()


# As a child finds it that was forked while another thread was in there.
WITHOUT_THE_LOCK_OF_TYPES = """
import signal, sys
import numpy as np
import kina

kina.use(sys.argv[1])
signal.alarm(10)
kina.current().ffi._lock.acquire()
tensor = kina.asarray(np.arange(3.0))
assert np.from_dlpack(tensor).tolist() == kina.from_dlpack(tensor.to_dlpack()).tolist() == [0.0, 1.0, 2.0]
try:
    kina.empty(-1)
except kina.KinaError as error:
    assert error.status == "INVALID_SHAPE"
"""


def test_no_call_waits_for_a_lock_that_a_fork_may_have_left_taken(library: Path) -> None:
    subprocess.run([sys.executable, "-c", WITHOUT_THE_LOCK_OF_TYPES, str(library)], check=True)
