"""The dlpack chapter, as Python sees it: capsules, the exchange protocol, and what other libraries got wrong."""

from __future__ import annotations

import gc
import os
import subprocess
import sys
import threading
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import kina
from kina import capsule as capsules
from kina import dlpack
from kina_conformance import Executor, clause
from kina_conformance.cases import case
from kina_conformance.producer import Producer

pytestmark = pytest.mark.needs("dlpack")

CPU = (1, 0)
VERSIONED = (1, 0)


class Exporter:
    """A foreign library's array: hands out one struct of the suite's producer per call, remembers how it was asked."""

    def __init__(self, rt: Executor, device: tuple[int, int] = CPU, **made: Any) -> None:
        self.rt, self.device, self.made = rt, device, made
        self.asked: list[dict[str, Any]] = []
        self.producers: list[Producer] = []

    def __dlpack_device__(self) -> tuple[int, int]:
        return self.device

    def __dlpack__(self, **asked: Any) -> object:
        self.asked.append(asked)
        legacy = asked.get("max_version") is None
        producer = Producer(self.rt, legacy, **self.made)
        self.producers.append(producer)
        return capsule_of(producer)

    @property
    def deleted(self) -> list[int]:
        return [producer.deleted for producer in self.producers]


class OldExporter(Exporter):
    """One that knows no keyword but stream."""

    def __dlpack__(self, stream: int | None = None) -> object:  # type: ignore[override]
        return super().__dlpack__() if stream is None else super().__dlpack__(stream=stream)


def capsule_of(producer: Producer) -> object:
    layout = capsules.LEGACY if producer.legacy else capsules.VERSIONED
    return capsules.make(layout, producer.address, producer.discard)


def take(rt: Executor, source: Any, **named: Any) -> kina.Tensor:
    return kina.from_dlpack(source, runtime=rt.lib, **named)


def managed_in(rt: Executor, capsule: object) -> Any:
    """The struct of a versioned capsule."""
    address = capsules._pointer(capsule, capsules.VERSIONED.fresh)
    return rt.ffi.cast("struct DLManagedTensorVersioned *", address)


def run(script: str, *arguments: str) -> None:
    """A script in a process of its own ends quietly and with 0."""
    path = os.pathsep.join(filter(None, sys.path))
    done = subprocess.run(
        [sys.executable, "-c", script, *arguments],
        capture_output=True,
        text=True,
        timeout=120,
        env={**os.environ, "PYTHONPATH": path},
    )
    assert (done.returncode, done.stderr, done.stdout) == (0, "", "done\n")


# ---- strides and dtypes that NumPy offers ---------------------------------------------------------------------------


@case("P08")
@clause("KINA-DLPACK-46", "c7fd0c53")
def test_a_unit_axis_with_an_odd_byte_stride_is_taken(rt: Executor) -> None:
    base = np.arange(50, dtype=np.float64)
    array = np.lib.stride_tricks.as_strided(base, (10, 5, 1), (8, 80, 4))

    tensor = take(rt, array)

    assert tensor.data_ptr == array.ctypes.data
    assert tensor.numpy().tolist() == array.tolist()


@case("P16")
@clause("KINA-DLPACK-26", "01d06182")
def test_a_byte_stride_between_elements_is_refused_or_copied(rt: Executor) -> None:
    rows = np.arange(21, dtype=np.float32).reshape(3, 7)[:, :6].view(np.complex64)
    assert rows.strides == (28, 8)

    with pytest.raises(BufferError):
        take(rt, rows)
    assert kina.asarray(rows, runtime=rt.lib).numpy().tolist() == rows.tolist()


@case("P28")
@clause("KINA-DLPACK-26", "01d06182")
def test_swapped_bytes_are_refused_or_copied(rt: Executor) -> None:
    swapped = np.array([1.5, 2.5], ">f4")

    with pytest.raises(BufferError):
        take(rt, swapped)
    assert kina.asarray(swapped, runtime=rt.lib).numpy().tolist() == [1.5, 2.5]


@case("P29")
@clause("KINA-DLPACK-7", "22a9adad")
def test_a_negated_tensor_is_exported_with_its_sign(rt: Executor) -> None:
    tensor = kina.asarray(np.array([2.0, 4.0], np.float32), runtime=rt.lib)
    negated = tensor._call("runtime_gpu_unary", rt.constant("KINA_UNARY_NEG"))

    assert np.from_dlpack(negated).tolist() == [-2, -4]


@case("P23", "P24")
@clause("KINA-DLPACK-42", "6e05851c")
@pytest.mark.parametrize("dtype", [d.numpy for d in kina.DTYPES if d.numpy])
def test_every_dtype_of_numpy_goes_there_and_back(rt: Executor, dtype: str) -> None:
    array = np.array([[0, 1, 1], [1, 0, 1]]).astype(dtype)

    tensor = take(rt, array)
    back = np.from_dlpack(tensor)

    assert back.dtype == array.dtype
    assert back.tolist() == array.tolist()
    assert back.ctypes.data == tensor.data_ptr == array.ctypes.data


# ---- read-only ------------------------------------------------------------------------------------------------------


@case("P36", "P38")
@clause("KINA-DLPACK-17", "bcfd49ef")
@clause("KINA-DLPACK-20", "61c60b99")
def test_a_read_only_tensor_is_exported_to_those_who_understand(rt: Executor) -> None:
    array = np.array([1, 2, 3], np.int32)
    array.flags.writeable = False

    tensor = take(rt, array)

    assert tensor.is_read_only
    with pytest.raises(BufferError):
        tensor.__dlpack__()
    assert managed_in(rt, tensor.__dlpack__(max_version=VERSIONED)).flags == 1
    assert not np.from_dlpack(tensor).flags.writeable


@case("P37")
@clause("KINA-DLPACK-48", "3481025f")
def test_an_import_is_writable_as_the_flag_says(rt: Executor) -> None:
    array = np.array([1, 2, 3], np.int32)

    tensor = take(rt, array)
    tensor.numpy()[0] = 7
    np.from_dlpack(tensor)[1] = 8

    assert array.tolist() == [7, 8, 3]


@case("P39")
@clause("KINA-DLPACK-48", "3481025f")
def test_an_immutable_source_is_never_written_through(rt: Executor) -> None:
    source = b"\1\2\3\4"

    tensor = take(rt, np.frombuffer(source, np.uint8))

    with pytest.raises(kina.KinaError, match="READ_ONLY"):
        kina.errors.check(rt.lib, rt.lib.runtime_fill(tensor.struct, b"\0", 1))
    with pytest.raises(ValueError, match="read-only"):
        tensor.numpy()[0] = 9
    assert source == b"\1\2\3\4"
    assert managed_in(rt, tensor[1:].__dlpack__(max_version=VERSIONED)).flags == 1


# ---- capsules and ownership -----------------------------------------------------------------------------------------


@case("P40")
@clause("KINA-DLPACK-28", "81a206f9")
@pytest.mark.parametrize("max_version", [None, VERSIONED])
def test_a_capsule_is_consumed_once(rt: Executor, max_version: tuple[int, int] | None) -> None:
    source = Exporter(rt, values=[[1, 2, 3], [4, 5, 6]])
    capsule = source.__dlpack__(max_version=max_version)
    tensor = take(rt, capsule)

    with pytest.raises(ValueError, match="consumed"):
        take(rt, capsule)

    assert capsules.name_of(capsule).startswith("used_dltensor")
    assert tensor.numpy().tolist() == [[1, 2, 3], [4, 5, 6]]
    del tensor, capsule
    assert source.deleted == [1]


@case("P41", "P26")
@clause("KINA-DLPACK-27", "705a3612")
@pytest.mark.parametrize("max_version", [None, VERSIONED])
def test_a_refused_capsule_stays_fresh_and_releases_its_struct(
    rt: Executor, max_version: tuple[int, int] | None
) -> None:
    source = Exporter(rt)
    capsule = source.__dlpack__(max_version=max_version)
    source.producers[0].dl.dtype.code = 99

    with pytest.raises(BufferError):
        take(rt, capsule)

    assert capsules.name_of(capsule) in {"dltensor", "dltensor_versioned"}
    assert source.deleted == [0]
    del capsule
    assert source.deleted == [1]


@case("P41", "P57")
@clause("KINA-DLPACK-28", "81a206f9")
def test_a_failure_after_ownership_was_taken_runs_the_deleter_once(rt: Executor) -> None:
    source = Exporter(rt, device=(3, 0))  # its structs say kDLCPU

    with pytest.raises(BufferError):
        take(rt, source)

    gc.collect()
    assert source.deleted == [1]


@case("P42", "P48")
@clause("KINA-DLPACK-12", "8bd77ad6")
def test_a_capsule_that_nobody_consumes_releases_its_struct(rt: Executor) -> None:
    before = rt.counters()
    tensor = kina.zeros((100,), runtime=rt.lib)
    held = rt.counters()
    for _ in range(5000):
        tensor.__dlpack__()
        tensor.__dlpack__(max_version=VERSIONED)
    source = Exporter(rt)
    for _ in range(50):
        source.__dlpack__()
        source.__dlpack__(max_version=VERSIONED)

    assert rt.counters() == held
    assert source.deleted == [1] * 100
    del tensor
    assert rt.counters() == before


@case("P43", "P48")
@clause("KINA-DLPACK-28", "81a206f9")
def test_as_many_deleters_run_as_there_were_imports(rt: Executor) -> None:
    source = Exporter(rt)
    old = OldExporter(rt)
    for _ in range(200):
        take(rt, source)
        take(rt, old)
        take(rt, source.__dlpack__())

    assert source.deleted == [1] * 400
    assert old.deleted == [1] * 200


@case("P47")
@clause("KINA-DLPACK-13", "c0a38937")
@pytest.mark.parametrize("max_version", [None, VERSIONED])
@pytest.mark.parametrize("consumed", [False, True])
def test_a_capsule_that_dies_in_an_exception_leaves_it_alone(
    rt: Executor, max_version: tuple[int, int] | None, consumed: bool
) -> None:
    tensor = kina.zeros((3,), runtime=rt.lib)
    taken: list[kina.Tensor] = []

    def capsule() -> object:
        made = tensor.__dlpack__(max_version=max_version)
        if consumed:
            taken.append(take(rt, made))
        return made

    def fail() -> bool:
        raise LookupError("the original")

    for _ in range(50):
        with pytest.raises(LookupError, match="the original"):
            _ = (capsule(), fail())  # the capsule dies while the exception is on its way


@case("P62")
@clause("KINA-DLPACK-26", "01d06182")
def test_the_layout_of_a_struct_goes_by_the_capsules_name(rt: Executor) -> None:
    for legacy in (False, True):
        producer = Producer(rt, legacy, values=[[1, 2, 3], [4, 5, 6]])

        tensor = take(rt, capsule_of(producer))

        assert tensor.numpy().tolist() == [[1, 2, 3], [4, 5, 6]]
    strange = capsules._new(producer.address, capsules._immortal(b"dltensor_future"), None)
    with pytest.raises(ValueError, match="dltensor_future"):
        take(rt, strange)


@case("P46")
@clause("KINA-DLPACK-11", "95e959ae")
def test_an_exported_shape_outlives_its_tensor(rt: Executor) -> None:
    array: Any = np.from_dlpack(kina.zeros((3, 4, 5), runtime=rt.lib))
    gc.collect()

    assert array.shape == (3, 4, 5)
    assert array.strides == (80, 20, 4)
    array += 1
    assert array.sum() == 60


# ---- threads and interpreter exit -----------------------------------------------------------------------------------

_PRELUDE = "import sys, threading\nimport numpy as np\nimport kina\nkina.use(sys.argv[1])\n"


@case("P50")
@clause("KINA-STATUS-33", "395de07f")
@pytest.mark.parametrize(
    "body",
    [
        "import builtins\nbuiltins.keep = kina.from_dlpack(np.arange(5.0))",
        "import builtins\nbuiltins.keep = kina.zeros((3,)).to_dlpack()",
        "import builtins\nbuiltins.keep = kina.zeros((3,)).__dlpack__(max_version=(1, 0))",
        "import builtins\nbuiltins.keep = np.from_dlpack(kina.zeros((3,)))",
        "class Cycle: pass\nc = Cycle(); c.me = c\n"
        "c.keep = [kina.zeros((3,)).to_dlpack(), kina.from_dlpack(np.arange(3))]",
        "c = kina.zeros((3,)).to_dlpack()\nk = kina.from_dlpack(c)\nsys.modules['kept'] = [c, k]",
        "out = kina.interface().new('KinaTensor *')\n"
        "tensor = kina.from_dlpack(np.arange(4))\n"
        "out[0] = tensor.struct[0]\n"
        "tensor.struct.magic = 0  # nobody frees it: a static of a C++ program\n",
        "tensors = [kina.from_dlpack(np.arange(4)) for _ in range(1000)]\n"
        "def release(some):\n    while some: some.pop()\n"
        "workers = [threading.Thread(target=release, args=(tensors,)) for _ in range(4)]\n"
        "[w.start() for w in workers]; [w.join() for w in workers]",
        "def work():\n    while True:\n"
        "        tensors = [kina.from_dlpack(np.arange(4)) for _ in range(50)]\n        while tensors: tensors.pop()\n"
        "[threading.Thread(target=work, daemon=True).start() for _ in range(4)]\n"
        "import time\ntime.sleep(0.1)  # they go on while the interpreter ends",
    ],
    ids=["import", "legacy", "versioned", "array", "cycle", "modules", "static", "threads", "daemons"],
)
def test_what_is_alive_at_interpreter_exit_ends_quietly(rt: Executor, body: str) -> None:
    run(f"{_PRELUDE}{body}\nprint('done', flush=True)\n", rt.lib.path)


@case("P50")
@clause("KINA-DLPACK-13", "c0a38937")
def test_imports_are_released_on_other_threads(rt: Executor) -> None:
    source = Exporter(rt)
    tensors = [take(rt, source) for _ in range(100)]
    threads = [threading.Thread(target=tensors.clear) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert source.deleted == [1] * 100


# ---- the protocol ---------------------------------------------------------------------------------------------------


@case("P38", "P63")
@clause("KINA-DLPACK-33", "8cea8d42")
def test_the_newest_version_is_asked_for_first(rt: Executor) -> None:
    source = Exporter(rt)

    take(rt, source)
    take(rt, source, device=CPU, copy=False)

    assert source.asked == [
        {"max_version": VERSIONED},
        {"max_version": VERSIONED, "dl_device": CPU, "copy": False},
    ]


@case("P63")
@clause("KINA-DLPACK-26", "01d06182")
def test_an_old_producer_is_asked_again_unless_that_would_drop_a_demand(rt: Executor) -> None:
    source = OldExporter(rt)

    assert take(rt, source).shape == (2, 3)

    for demand in ({"copy": True}, {"copy": False}, {"device": CPU}):
        with pytest.raises(TypeError):
            take(rt, source, **demand)
    assert len(source.producers) == 1


@case("P66", "P67")
@clause("KINA-DLPACK-26", "01d06182")
def test_exchange_tables_of_any_form_are_passed_over(rt: Executor) -> None:
    forms: list[dict[str, Any]] = [
        {"__c_dlpack_exchange_api__": 12345},
        {"__dlpack_c_exchange_api__": capsules._new(8, capsules._immortal(b"dlpack_exchange_api"), None)},
        {"__dlpack_c_exchange_api__": capsules._new(8, capsules._immortal(b"something_else"), None)},
        {},
    ]
    for _ in range(20):
        for form in forms:
            kind = type("Heap", (Exporter,), form)  # a new type each time, often at the address of the last
            source = kind(rt, values=[[1, 2, 3], [4, 5, 6]])

            assert take(rt, source).tolist() == [[1, 2, 3], [4, 5, 6]]
            assert source.asked == [{"max_version": VERSIONED}]


@clause("KINA-DLPACK-26", "01d06182")
def test_an_object_without_the_methods_is_an_attribute_error(rt: Executor) -> None:
    with pytest.raises(AttributeError):
        take(rt, object())


@clause("KINA-DLPACK-16", "50b46e60")
@clause("KINA-DLPACK-18", "89843cf7")
def test_the_capsule_is_what_the_consumer_asked_for(rt: Executor) -> None:
    tensor = kina.asarray(np.arange(6, dtype=np.float32).reshape(2, 3), runtime=rt.lib)
    for max_version, name in (
        (None, "dltensor"),
        ((0, 8), "dltensor"),
        ((1, 0), "dltensor_versioned"),
        ((1, 3), "dltensor_versioned"),
        ((2, 0), "dltensor_versioned"),
    ):
        assert capsules.name_of(tensor.__dlpack__(max_version=max_version)) == name
    assert capsules.name_of(tensor.to_dlpack()) == "dltensor"

    shared = managed_in(rt, shared_capsule := tensor.__dlpack__(max_version=VERSIONED, copy=False, dl_device=CPU))
    copied = managed_in(rt, copied_capsule := tensor.__dlpack__(max_version=VERSIONED, copy=True))

    assert (shared.version.major, shared.version.minor, shared.flags) == (1, 0, 0)
    assert int(rt.ffi.cast("uintptr_t", shared.dl_tensor.data)) == tensor.data_ptr
    assert copied.flags == 2
    assert int(rt.ffi.cast("uintptr_t", copied.dl_tensor.data)) != tensor.data_ptr
    assert tensor.tolist() == [[0, 1, 2], [3, 4, 5]], "an export from Python leaves the tensor as it is"
    del shared_capsule, copied_capsule


@case("P61")
@clause("KINA-DLPACK-18", "89843cf7")
def test_a_copy_that_is_needed_and_forbidden_is_a_buffer_error(rt: Executor) -> None:
    tensor = kina.zeros((3,), runtime=rt.lib)

    with pytest.raises(BufferError):
        tensor.__dlpack__(dl_device=(2, 0), copy=False)
    with pytest.raises(ValueError, match="copy"):  # the standard names both
        tensor.__dlpack__(dl_device=(2, 0), copy=False)
    with pytest.raises(BufferError):
        tensor.__dlpack__(dl_device=(10, 0))


@case("P57")
@clause("KINA-DLPACK-43", "b2318847")
def test_host_bytes_are_never_taken_for_device_bytes(rt: Executor) -> None:
    with pytest.raises((BufferError, ValueError)):
        take(rt, np.arange(3.0), device=(10, 0))
    for device in ((2, 0), (10, 0)):
        with pytest.raises(BufferError):
            take(rt, Exporter(rt, device=device, values=0), device=device)


@case("P58")
@clause("KINA-DLPACK-45", "4fd7e274")
@pytest.mark.parametrize("device_type", [3, 13])
def test_a_slice_of_pinned_memory_is_pinned_memory(rt: Executor, device_type: int) -> None:
    source = Exporter(rt, device=(device_type, 0))
    source.made["device"] = (device_type, 0)

    tensor = take(rt, source)

    assert tensor.__dlpack_device__() == tensor[1:].__dlpack_device__() == (device_type, 0)
    assert tensor[1:].T.__dlpack_device__() == (device_type, 0)


# ---- streams, on a pretended CUDA -----------------------------------------------------------------------------------


class PretendedCuda(SimpleNamespace):
    """As much of a runtime as the protocol asks about streams; it counts what would order work."""

    def __init__(self, rt: Executor, native: int = 0) -> None:
        super().__init__(ffi=rt.ffi, native=native, imported=[], released=0)

    def runtime_stream_current(self, out: Any, device_type: int, device_id: int) -> int:
        out[0] = self.ffi.cast("KinaStream", 77)
        return 0

    def runtime_stream_native(self, out: Any, stream: Any) -> int:
        out[0] = self.ffi.cast("void *", self.native)
        return 0

    def runtime_stream_import(self, out: Any, device_type: int, device_id: int, native: Any) -> int:
        self.imported.append(int(self.ffi.cast("uintptr_t", native)))
        out[0] = self.ffi.cast("KinaStream", 78)
        return 0

    def runtime_stream_release(self, stream: Any) -> None:
        self.released += 1


@case("P52")
@clause("KINA-DLPACK-51", "51ad06fa")
def test_the_consumers_stream_is_never_sent_as_0(rt: Executor) -> None:
    for native, number in ((0, 1), (1, 1), (2, 2), (0x7F00, 0x7F00)):
        assert dlpack._own_stream(PretendedCuda(rt, native), (2, 0))[1] == number  # type: ignore[arg-type]
    assert dlpack._own_stream(rt.lib, CPU) == (rt.ffi.NULL, None)


@case("P53", "P54", "P55")
@clause("KINA-DLPACK-24", "ae0f3f46")
def test_the_special_stream_numbers_are_mapped(rt: Executor) -> None:
    for number, expected in ((None, [1]), (1, [1]), (2, [2]), (0x7F00, [0x7F00]), (-1, [])):
        cuda = PretendedCuda(rt)
        handle = dlpack._consumer_stream(cuda, (2, 0), number)  # type: ignore[arg-type]
        assert cuda.imported == expected
        assert (handle == rt.ffi.NULL) == (number == -1)
        del handle
        gc.collect()
        assert cuda.released == len(expected)
    with pytest.raises(ValueError, match="ambiguous"):
        dlpack._consumer_stream(PretendedCuda(rt), (2, 0), 0)  # type: ignore[arg-type]


@case("P52")
@clause("KINA-DLPACK-24", "ae0f3f46")
def test_a_host_tensor_takes_no_stream_but_none(rt: Executor) -> None:
    tensor = kina.zeros((3,), runtime=rt.lib)

    tensor.__dlpack__(stream=None)

    for stream in (0, 1, 2, -1, 77):
        with pytest.raises(ValueError, match="stream"):
            tensor.__dlpack__(stream=stream)
