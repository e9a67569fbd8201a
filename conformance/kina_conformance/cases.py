"""Faults that other DLPack projects met in public; the suite looks for each of them, and each has its row here."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import pytest

# Row: where it was reported, what went wrong there.
ROWS = {
    "P01": ("triton server #6960", "an empty tensor is refused as not contiguous"),
    "P02": ("pytorch #117058", "NULL data of an empty tensor: the deleter is never called"),
    "P03": ("Paddle #78565", "an empty tensor is exported with its shape as strides"),
    "P04": ("cudf #11449", "only one spelling of an empty tensor's strides is understood"),
    "P05": ("pytorch #99803", "contiguous data is refused for the stride of a unit axis"),
    "P06": ("pytorch #83069", "a one-element slice with a stride above 1 counts as strided"),
    "P07": ("drjit #122", "unit axes are exported with stride 0, which strict consumers refuse"),
    "P08": ("numpy #20336", "export is refused for a unit axis whose byte stride is no multiple of the item"),
    "P09": ("jax #24680", "a layout inferred by sorting strides puts unit axes in the wrong place"),
    "P10": ("pytorch #188023", "a negative stride aborts the process"),
    "P11": ("cupy #10172", "a negative stride is divided as an unsigned number"),
    "P12": ("cudf #10849", "stride 0 fails, and stride 2 is read as contiguous"),
    "P13": ("onnxruntime #19330", "a broadcast view is exported with the strides of a materialised one"),
    "P14": ("jax #17784", "a transposed input is read as row-major"),
    "P15": ("Paddle #68559", "the buffer's size is taken from the count of elements, not from their span"),
    "P16": ("nanobind #487", "a byte stride that is no multiple of the item is rounded"),
    "P17": ("Paddle #35817", "exported strides are right up to rank 2 only"),
    "P18": ("cupy #2095", "NULL strides are dereferenced"),
    "P19": ("arrow #51122", "NULL strides of a 1.0 producer are refused"),
    "P20": ("nanobind #64", "creating or exporting a scalar crashes"),
    "P21": ("numpy #29872", "the shape of an exported scalar points behind its allocation"),
    "P22": ("numpy #19083", "a zero-byte shape array counts as out of memory"),
    "P23": ("pytorch #67081", "bool is refused on export"),
    "P24": ("onnxruntime #7069", "bool and u8 become one another"),
    "P25": ("warp #1619", "a library cannot import its own bool"),
    "P26": ("cupy #8801", "an unknown dtype on import is a segmentation fault"),
    "P27": ("cupy #5045", "complex numbers are exported with two lanes and full bits"),
    "P28": ("dlpack #98", "byte-swapped data is exported as native"),
    "P29": ("pytorch #145000", "a lazily negated view is exported as the memory behind it"),
    "P30": ("dlpack #184", "complex of half and complex of bfloat16 are confused"),
    "P31": ("dlpack #158", "packed and padded sub-byte elements are confused"),
    "P32": ("tilelang #2742", "storage of sub-byte elements is rounded down"),
    "P33": ("pytorch #168177", "byte_offset is ignored"),
    "P34": ("cuda-python #2592", "one of two import paths ignores byte_offset and loses it on re-export"),
    "P35": ("cutlass #3450", "a byte_offset other than 0 is refused"),
    "P36": ("numpy #20742", "a read-only array is refused with the wrong exception"),
    "P37": ("numpy #28599", "an import is never writable, whatever the flag says"),
    "P38": ("jax #40789", "max_version is never passed, so that read-only sources are refused"),
    "P39": ("jax #19123", "writing through an import changes an immutable source"),
    "P40": ("cupy #3611", "a capsule consumed twice crashes"),
    "P41": ("pytorch #56789", "a failure between taking the struct and renaming the capsule frees twice"),
    "P42": ("pytorch #9297", "a capsule that nobody consumes leaks"),
    "P43": ("cupy #1445", "the consumer never calls the deleter"),
    "P44": ("pytorch #43166", "a NULL deleter is called"),
    "P45": ("dlpack #39", "both sides free the struct"),
    "P46": ("mxnet #13658", "the exported shape dies with the source"),
    "P47": ("pytorch #84056", "a capsule's destructor wipes a pending exception"),
    "P48": ("kornia-rs #782", "a destructor releases consumed capsules and no others"),
    "P49": ("cudnn-frontend #547", "two exports share one struct"),
    "P50": ("numpy #22507", "a Python-backed deleter runs without the interpreter's lock, or after its end"),
    "P51": ("moolib #7", "a deleter called under a lock deadlocks with the interpreter's"),
    "P52": ("cupy #5970", "the default stream is sent as 0"),
    "P53": ("pytorch #101318", "stream 1 is taken for a handle"),
    "P54": ("array-api #974", "no stream means a synchronisation that breaks graph capture"),
    "P55": ("tvm-ffi #466", "the work-stream callback answers with another stream"),
    "P56": ("pytorch #96318", "managed memory is refused"),
    "P57": ("cupoch #28", "host bytes are used as a device pointer"),
    "P58": ("numpy #20340", "a slice of pinned memory reports plain host memory"),
    "P59": ("pytorch #40124", "ROCm tensors are exported as CUDA"),
    "P60": ("cuvs #2239", "the device id is always 0"),
    "P61": ("pytorch #194267", "a forbidden copy is a ValueError, not a BufferError"),
    "P62": ("cutlass #3359", "a versioned capsule is read with the legacy layout"),
    "P63": ("cupynumeric #1239", "new keywords reach an old producer, and its TypeError the user"),
    "P64": ("tensorflow #116201", "a byte size wraps to 0"),
    "P65": ("cutlass #2715", "strides beyond 32 bits are truncated"),
    "P66": ("dlpack #179", "an exchange table of the older form is misread"),
    "P67": ("cudnn-frontend #547", "a cache by type outlives the type"),
}

# Rows that a test decides only in part: what is missing, and why.
PARTLY = {
    "P22": "how the library takes a zero-byte answer of its allocator does not show; the export of a scalar is tested",
    "P29": "there are no lazy views here: a negated tensor has bytes of its own, and these are tested",
    "P31": "sub-byte dtypes are outside the dtype table: packed and padded ones are refused, no size is computed",
    "P32": "sub-byte dtypes are outside the dtype table, as for P31",
    "P53": "that the wait lands on the right stream takes a GPU; the mapping of 1 and 2 is tested",
    "P54": "that nothing breaks a graph capture takes a GPU; that -1 asks for no order is tested",
    "P55": "no exchange table with a work-stream callback is offered; that a given stream is kept is tested",
    "P60": "a device with id 1 takes two accelerators; that an id outside the devices is refused is tested",
    "P66": "exchange tables are optional and not used: tensors go through __dlpack__ whatever a type carries",
    "P67": "exchange tables are not used, so that nothing is cached by type",
}


def marking(name: str, known: Mapping[str, object], rows: Iterable[str]) -> pytest.MarkDecorator:
    """The mark `name` with these rows, which have to be known."""
    unknown = set(rows) - set(known)
    if unknown:
        raise ValueError(f"no such row: {', '.join(sorted(unknown))}")
    found: pytest.MarkDecorator = getattr(pytest.mark, name)
    return found.with_args(*rows)


def case(*rows: str) -> pytest.MarkDecorator:
    """Marks a test with the rows that it looks for."""
    return marking("case", ROWS, rows)
