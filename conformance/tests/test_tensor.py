"""`kina.Tensor` behaves as a NumPy user expects."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import kina


@pytest.fixture(autouse=True)
def _runtime(library: Path) -> None:
    kina.use(library)


def array() -> Any:
    return np.arange(24, dtype=np.float32).reshape(2, 3, 4)


KEYS: list[Any] = [
    0,
    -1,
    (1, 2, 3),
    slice(None),
    slice(1, None),
    (slice(None), slice(None, None, 2)),
    (slice(None), slice(None, None, -1)),
    (slice(2, 0, -1), slice(5, None, -2), 1),
    (Ellipsis, 1),
    (1, Ellipsis, slice(1, 3)),
    (None, 1, Ellipsis, None),
    (slice(0, 0),),
    (slice(7, 9), Ellipsis),
    Ellipsis,
    (),
]


@pytest.mark.parametrize("key", KEYS, ids=repr)
def test_basic_indexing_selects_what_numpy_selects(key: Any) -> None:
    expected = array()
    tensor = kina.asarray(expected)

    selected = tensor[key]

    assert selected.shape == expected[key].shape
    assert selected.numpy().tolist() == expected[key].tolist()
    if selected.size:
        assert np.shares_memory(selected.numpy(), expected)


@pytest.mark.parametrize("key", [2, -3, (0, 3), (0, 0, 4), (0, 0, 0, 0)], ids=repr)
def test_an_index_out_of_range_is_an_index_error(key: Any) -> None:
    with pytest.raises(IndexError):
        kina.asarray(array())[key]


@pytest.mark.parametrize(
    "key", [True, (0, False), 1.5, "a", [0, 1], np.array([0, 1]), (0, [1]), (Ellipsis, 0, Ellipsis)], ids=repr
)
def test_an_index_that_selects_no_view_is_an_index_error_that_says_what_does(key: Any) -> None:
    with pytest.raises(IndexError, match="integers, slices, one Ellipsis and None"):
        kina.asarray(array())[key]


def test_integers_of_numpy_are_integers() -> None:
    tensor = kina.asarray(array())

    assert tensor[np.int64(1), np.array(2)].tolist() == array()[1, 2].tolist()
    assert tensor.reshape(np.int64(24)).shape == (24,)
    assert kina.empty(np.int64(3)).shape == kina.zeros(np.int32(3)).shape == (3,)


def test_the_truth_of_a_tensor_is_that_of_its_one_value() -> None:
    for value in (0, 1.5, [0.0], [[2.0]]):
        assert bool(kina.asarray(value)) is bool(np.asarray(value))
    with pytest.raises(ValueError, match="ambiguous"):
        bool(kina.asarray(array()))


def test_views_share_and_copies_do_not() -> None:
    source = array()
    tensor = kina.asarray(source)

    assert np.shares_memory(tensor.T.numpy(), source)
    assert np.shares_memory(tensor.reshape(4, 6).numpy(), source)
    assert not np.shares_memory(tensor.copy().numpy(), source)
    assert tensor.transpose(1, -1, 0).numpy().tolist() == source.transpose(1, 2, 0).tolist()
    assert tensor.reshape((6, 4)).numpy().tolist() == source.reshape(6, 4).tolist()
    assert tensor[:1].broadcast_to((2, 3, 4)).numpy().tolist() == np.broadcast_to(source[:1], (2, 3, 4)).tolist()


def test_a_permutation_names_each_axis_once() -> None:
    tensor = kina.asarray(array())

    for axes in ((0,), (0, 1, 2, 3)):
        with pytest.raises(ValueError, match=f"{len(axes)} axes for a tensor of rank 3"):
            tensor.transpose(*axes)
    for wrong in ((0, 1, 5), (0, 1, -4), (0, 1, 1)):
        with pytest.raises(kina.KinaError, match="INVALID_SHAPE"):
            tensor.transpose(wrong)
    assert kina.asarray(2.5).T.item() == 2.5


def test_a_view_has_a_stride_for_each_extent() -> None:
    tensor = kina.asarray(array())

    assert tensor.view((2, 2), (4, 1), 4).tolist() == array().ravel()[4:].reshape(5, 4)[:2, :2].tolist()
    with pytest.raises(ValueError, match="1 strides for 2 extents"):
        tensor.view((2, 2), (4,))


def test_properties_are_those_of_the_array() -> None:
    tensor = kina.zeros((2, 0, 3), "i16")
    scalar = kina.asarray(np.float64(2.5))

    assert (tensor.ndim, tensor.size, tensor.nbytes, tensor.strides) == (3, 0, 0, (3, 3, 1))
    assert (str(tensor.dtype), tensor.device, len(tensor)) == ("i16", "cpu", 2)
    assert (scalar.shape, scalar.item(), scalar.nbytes) == ((), 2.5, 8)
    assert [row.tolist() for row in kina.asarray([[1, 2], [3, 4]], "u8")] == [[1, 2], [3, 4]]
    with pytest.raises(TypeError):
        len(scalar)


def test_a_numpy_array_keeps_its_tensor_alive() -> None:
    view = kina.asarray(array().copy()).numpy()

    assert view.sum() == array().sum()


def test_text_is_what_numpy_would_print() -> None:
    tensor = kina.asarray([[1.5, 2], [3, 4]], "f32")

    assert str(tensor) == str(tensor.numpy())
    assert repr(tensor) == "Tensor([[1.5, 2. ],\n        [3. , 4. ]], dtype=f32)"
    assert repr(kina.zeros((0,), "i32")) == "Tensor([], dtype=i32)"
    assert repr(kina.zeros((2, 0), "i32")) == "Tensor([] of shape (2, 0), dtype=i32)"
    assert repr(kina.asarray(True)) == "Tensor(True, dtype=bool)"
    assert repr(kina.asarray([1, -2.5], "bf16")) == "Tensor([ 1. , -2.5], dtype=bf16)"
    assert repr(kina.asarray([1, -2.5], "f8e5m2")) == "Tensor([ 1. , -2.5], dtype=f8e5m2)"
    assert "..." in repr(kina.zeros((2000,)))


def test_failed_bytes_print_as_failed_and_are_not_read() -> None:
    tensor = kina.zeros((3,))
    runtime = tensor.runtime
    kina.errors.check(
        runtime, runtime.runtime_failure_set(runtime.ffi.new("uint64_t *"), tensor.struct, 0, 2, runtime.ffi.NULL)
    )

    assert repr(tensor) == "Tensor(<FAILED_INPUT>, shape=(3,), dtype=f32)"
    with pytest.raises(kina.KinaError, match="FAILED_INPUT"):
        tensor.numpy()
    with pytest.raises(BufferError):
        tensor.to_dlpack()


def test_asarray_shares_where_it_can_and_copies_where_it_must() -> None:
    source = array()

    assert kina.asarray(source).data_ptr == source.ctypes.data
    assert kina.asarray(source, copy=True).data_ptr != source.ctypes.data
    assert kina.asarray(source, "f64").numpy().tolist() == source.tolist()
    assert kina.asarray(source.astype(">f4")).numpy().tolist() == source.tolist()
    assert kina.asarray([[1, 2]], "bf16").tolist() == [[1, 2]]
    with pytest.raises(BufferError):
        kina.asarray(source.astype(">f4"), copy=False)


def test_asarray_takes_what_speaks_dlpack_and_not_numpy() -> None:
    class Foreign:
        """As PyTorch's tensors are where it was built for another NumPy."""

        def __init__(self, tensor: kina.Tensor) -> None:
            self.__dlpack__, self.__dlpack_device__ = tensor.__dlpack__, tensor.__dlpack_device__

        def __array__(self, *_arguments: object, **_words: object) -> object:
            raise RuntimeError("Numpy is not available")

    source = kina.asarray([[1.5, 2], [3, 4]], "bf16")
    for foreign in (source, Foreign(source)):
        assert kina.asarray(foreign).data_ptr == source.data_ptr and kina.asarray(foreign).dtype.name == "bf16"
        assert kina.asarray(foreign, "bf16", copy=False).data_ptr == source.data_ptr
        copied = kina.asarray(foreign, copy=True)
        assert copied.data_ptr != source.data_ptr and (copied.dtype, copied.tolist()) == (source.dtype, source.tolist())
        assert repr(kina.asarray(foreign, "f64")) == "Tensor([[1.5, 2. ],\n        [3. , 4. ]], dtype=f64)"
        with pytest.raises(ValueError, match="copy is False"):
            kina.asarray(foreign, "f64", copy=False)


def test_a_dtype_has_also_the_name_that_pytorch_gives_it() -> None:
    class Named:
        """As PyTorch's are, in a module of that name."""

        def __init__(self, name: str) -> None:
            self.name = name

        def __repr__(self) -> str:
            return f"torch.{self.name}"

    Named.__module__ = "torch"
    names = {"bfloat16": "bf16", "float8_e4m3fn": "f8e4m3fn", "float8_e5m2": "f8e5m2", "float32": "f32", "bool": "bool"}
    for name, own in names.items():
        for given in (name, Named(name)):
            assert kina.empty(2, given).dtype.name == own
    with pytest.raises(TypeError, match=r"torch\.float4 is no dtype"):
        kina.empty(2, Named("float4"))


def test_errors_say_what_was_wrong() -> None:
    with pytest.raises(kina.KinaError, match=r"^INVALID_SHAPE: .*\[KINA-TENSOR-15\]$") as refused:
        kina.zeros((2, -1))
    error = refused.value
    assert (error.status, error.function, error.argument) == ("INVALID_SHAPE", "runtime_alloc", "shape")
    assert error.clause == "KINA-TENSOR-15" and str(error) == f"INVALID_SHAPE: {error.message} [KINA-TENSOR-15]"
    with pytest.raises(kina.KinaError, match=r"^UNSUPPORTED"):
        kina.zeros((2,), device="cuda_host" if not _has_cuda() else (99, 0))
    for device in ("gpu", "sim:x", ("sim", 0), (1, 0, 0)):
        with pytest.raises(ValueError, match="no device"):
            kina.zeros((2,), device=device)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="no dtype"):
        kina.zeros((2,), "f128")


def test_a_missing_simulated_device_comes_with_the_way_to_get_one(library: Path) -> None:
    program = "import kina\ntry: kina.zeros((2,), device='sim')\nexcept kina.KinaError as error: print(error)"
    environment = {name: value for name, value in os.environ.items() if name != "KINA_SIM_DEVICES"}
    environment |= {"KINA_LIBRARY": str(library), "PYTHONPATH": str(Path(kina.__file__).parents[1])}
    told = subprocess.run([sys.executable, "-c", program], env=environment, capture_output=True, text=True, check=True)

    assert told.stdout.startswith("UNSUPPORTED: there is no device of type 12 (sim): KINA_SIM_DEVICES=2 in the env")


def test_unknown_flags_are_told_as_the_header_writes_them() -> None:
    runtime, out = kina.current(), kina.interface().new("KinaTensor *")
    tensor = kina.zeros((2,))

    status = runtime.runtime_view(out, tensor.struct, [2], [1], 1, 0, 0xA0000000)
    message = kina.interface().string(runtime.runtime_last_error_message()).decode()

    assert runtime.status_name(status) == "UNSUPPORTED" and message == "flags has unknown bits: 0xA0000000"


def _has_cuda() -> bool:
    count = kina.interface().new("int32_t *")
    return bool(kina.current().runtime_device_count(count, 2) == 0 and count[0] > 0)


@pytest.mark.parametrize("source", [3, "text", None, [1, 2]])
def test_what_exchanges_nothing_is_told_so(source: Any) -> None:
    with pytest.raises(AttributeError, match="exchanges nothing through DLPack"):
        kina.from_dlpack(source)
