"""What every operation refuses alike, and how."""

from __future__ import annotations

from typing import Any

import pytest

from kina_conformance import Executor, clause
from kina_conformance.memory_cases import memory_case
from kina_conformance.operations import Operation

TAKEN: dict[str, Any] = {
    "dtypes": {"indices": "i32"},
    "shapes": {"values": (8, 4), "indices": (3,)},
    "result_shape": (3, 4),
}
COPIES = {
    "copy": Operation("runtime_copy", ("in_",), {"device_type": 1, "device_id": 0}),
    "copy_to_host": Operation("runtime_copy_to_host", ("in_",), {}),
}
VIEWS = {
    "transpose": Operation(
        "runtime_gpu_transpose", ("in_",), {"permutation": (1, 0)}, result_shape=(4, 3), gives_view=True
    ),
    "reshape": Operation(
        "runtime_gpu_reshape", ("in_",), {"new_shape": (2, 6), "new_ndim": 2}, result_shape=(2, 6), gives_view=True
    ),
    "broadcast": Operation(
        "runtime_gpu_broadcast",
        ("in_",),
        {"target_shape": (2, 3, 4), "target_ndim": 3},
        result_shape=(2, 3, 4),
        gives_view=True,
    ),
    "slice": Operation(
        "runtime_gpu_slice", ("in_",), {"axis": 0, "start": 1, "stop": 3}, result_shape=(2, 4), gives_view=True
    ),
}
OTHERS = {
    "unary": Operation("runtime_gpu_unary", ("in_",), {"op": "KINA_UNARY_NEG"}, in_place=True),
    "binary": Operation("runtime_gpu_binary", ("a", "b"), {"op": "KINA_BINARY_ADD"}, in_place=True),
    "cast": Operation("runtime_gpu_cast", ("in_",), {"target": "i32"}, result_dtype="i32", in_place=True),
    "cast to itself": Operation("runtime_gpu_cast", ("in_",), {"target": "f32"}, in_place=True),
    "reduce": Operation("runtime_gpu_reduce", ("in_",), {"axis": 1, "op": "KINA_REDUCE_SUM"}, result_shape=(3,)),
    "argmax": Operation(
        "runtime_gpu_reduce", ("in_",), {"axis": 0, "op": "KINA_REDUCE_ARGMAX"}, result_dtype="i64", result_shape=(4,)
    ),
    "softmax": Operation("runtime_gpu_softmax", ("in_",), {"axis": 1}),
    "log_softmax": Operation("runtime_gpu_log_softmax", ("in_",), {"axis": -1}),
    "matmul": Operation("runtime_gpu_matmul", ("a", "b"), {"params": None}, shape=(3, 3), result_shape=(3, 3)),
    "gather": Operation("runtime_gpu_gather", ("values", "indices"), {}, **TAKEN),
    "gather_axis": Operation("runtime_gpu_gather_axis", ("values", "indices"), {"axis": 0}, **TAKEN),
    "repeat_interleave": Operation(
        "runtime_gpu_repeat_interleave", ("in_",), {"axis": 0, "repeats": 2}, result_shape=(6, 4)
    ),
    "concat": Operation("runtime_gpu_concat", ("a", "b"), {"axis": 0}, result_shape=(6, 4)),
    "concat_n": Operation("runtime_gpu_concat_n", ("inputs",), {"count": 1, "axis": 0}, listed=True),
}


def over(*groups: dict[str, Operation]) -> pytest.MarkDecorator:
    """The test runs for every operation of these groups."""
    named = [pytest.param(operation, id=name) for group in groups for name, operation in group.items()]
    return pytest.mark.parametrize("operation", named)


every = over(COPIES, VIEWS, OTHERS)


@clause("KINA-STATUS-23", "54af5684")
@every
def test_null_is_refused(rt: Executor, operation: Operation) -> None:
    operation.refuses_null(rt, "INVALID_ARGUMENT")


@clause("KINA-TENSOR-2", "9d825a0c")
@every
def test_empty_inputs_are_refused(rt: Executor, operation: Operation) -> None:
    operation.refuses_empty_inputs(rt, "INVALID_ARGUMENT")


@clause("KINA-TENSOR-3", "4dda0318")
@clause("KINA-TENSOR-4", "d3e0cbf9")
@every
def test_strangers_are_refused(rt: Executor, operation: Operation) -> None:
    operation.refuses_strangers(rt, "INVALID_HANDLE")


@clause("KINA-TENSOR-19", "4c70d6ea")
@clause("KINA-TENSOR-20", "1bdd115d")
@clause("KINA-TENSOR-22", "95624966")
@clause("KINA-STATUS-24", "b7c8e81b")
@every
def test_memory_that_cannot_be_is_refused(rt: Executor, operation: Operation) -> None:
    operation.refuses_impossible_memory(rt, "INVALID_ARGUMENT")


@clause("KINA-TENSOR-15", "7e378526")
@clause("KINA-TENSOR-21", "8dec1558")
@every
def test_shapes_that_cannot_be_are_refused(rt: Executor, operation: Operation) -> None:
    operation.refuses_impossible_shapes(rt, "INVALID_SHAPE")


@clause("KINA-TENSOR-17", "5471aba4")
@every
def test_unknown_dtypes_are_refused(rt: Executor, operation: Operation) -> None:
    operation.refuses_unknown_dtypes(rt, "UNSUPPORTED")


@clause("KINA-TENSOR-26", "eebbf8de")
@every
def test_an_out_of_another_shape_is_refused(rt: Executor, operation: Operation) -> None:
    operation.refuses_shapes_of_out(rt, "INVALID_SHAPE")


@clause("KINA-TENSOR-26", "eebbf8de")
@every
def test_an_out_of_another_dtype_is_refused(rt: Executor, operation: Operation) -> None:
    operation.refuses_dtypes_of_out(rt, "INVALID_DTYPE")


@clause("KINA-TENSOR-26", "eebbf8de")
@clause("KINA-TENSOR-31", "aaeaa17d")
@pytest.mark.needs("sim")
@over(VIEWS, OTHERS)
def test_tensors_of_other_devices_are_refused(rt: Executor, operation: Operation) -> None:
    operation.refuses_other_devices(rt, "DEVICE_MISMATCH")


@clause("KINA-TENSOR-14", "9c559134")
@every
def test_a_read_only_out_is_refused(rt: Executor, operation: Operation) -> None:
    operation.refuses_read_only(rt, "READ_ONLY")


@clause("KINA-TENSOR-30", "2d933e5c")
@every
def test_an_out_that_touches_an_input_is_refused(rt: Executor, operation: Operation) -> None:
    operation.refuses_overlap(rt, "OVERLAP")


@clause("KINA-TENSOR-32", "3cfb9a89")
@every
def test_failed_inputs_are_refused(rt: Executor, operation: Operation) -> None:
    operation.refuses_failed_inputs(rt, "FAILED_INPUT")


@memory_case("P46")
@clause("KINA-STATUS-44", "01bc6644")
@over(COPIES, OTHERS)
def test_without_memory_there_is_no_result(rt: Executor, operation: Operation) -> None:
    operation.refuses_without_memory(rt, "OUT_OF_MEMORY")
