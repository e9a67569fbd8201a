"""Faults that other projects met in public with memory pools, streams and the lives of both; the suite looks for each
of them that a runtime can have, and each has its row here."""

from __future__ import annotations

import pytest

from .cases import marking

# Row: where it was reported, what went wrong there.
ROWS = {
    "P01": ("rmm #735", "threads on one pool are given the same bytes"),
    "P02": ("cuml #2632", "blocks of streams that ended are lost"),
    "P03": ("rmm #850", "streams that take turns on one pool's memory run one after the other"),
    "P04": ("rmm #1306", "a thread's state of one device is used for another"),
    "P05": ("rmm #2156", "a new block is used before its last user has finished"),
    "P06": ("rmm #1393", "a block that wandered between threads has no owner any more"),
    "P07": ("rmm PR #1655", "memory goes back to the system under a running kernel"),
    "P08": ("torchrec #4231", "bytes are reused while a declared stream still reads them"),
    "P09": ("pytorch #27405", "a use declared on a stranger's pointer crashes"),
    "P10": ("onnxruntime PR #12913", "the second half of a split block forgets its stream"),
    "P11": ("cubecl PR #64", "a slice dies before the kernel that reads it"),
    "P12": ("cubecl PR #1417", "the owner reuses bytes that another stream's kernel reads"),
    "P13": ("iree PR #14875", "an event is released after its device died"),
    "P14": ("iree PR #19541", "the log shows one address allocated twice"),
    "P15": ("CUDA.jl PR #3087", "an owner is collected under a pending copy"),
    "P16": ("rmm #1953", "after a reset there is no current resource"),
    "P17": ("rmm PR #931", "a resource dies before its buffers"),
    "P18": ("cuvs #1454", "a reset does not bring the initial resource back"),
    "P19": ("cuml-spark PR #787", "setting one device up again loses the others' resources"),
    "P20": ("tvm-ffi PR #371", "a setter gives another value back than the one it replaced"),
    "P21": ("rmm #826", "two parts of one process have different defaults"),
    "P22": ("rmm #2366", "a pool that is installed at exit crashes"),
    "P23": ("rmm #2203", "a call after the end of main aborts"),
    "P24": ("gperftools #499", "a child forked amid allocations hangs"),
    "P25": ("arrow ARROW-2963", "a forked child waits for a thread that it does not have"),
    "P26": ("OpenBLAS #1720", "a thread ends after the library was closed and jumps into nothing"),
    "P27": ("arrow ARROW-2561", "two copies of the library share what each destroys"),
    "P28": ("lbann #380", "memory kept past the unloading of the library crashes"),
    "P29": ("rmm #2002", "a size with a small alignment wraps"),
    "P30": ("rmm #2342", "a large alignment is accepted and not kept"),
    "P31": ("gdrcopy PR #239", "an aligned block reaches past what was allocated for it"),
    "P32": ("taichi PR #2863", "an element lies at an address that its type forbids"),
    "P33": ("pytorch #182446", "a size near the maximum rounds to nothing, and an address comes twice"),
    "P34": ("rmm PR #2451", "the product of extents wraps"),
    "P35": ("tlsf 72601dd", "a size near the maximum reaches past the tables"),
    "P36": ("llama.cpp #18559", "byte counts pass through 32 bits"),
    "P37": ("bdwgc #135", "rounding up overflows into a small block"),
    "P38": ("rmm #2108", "the block of zero bytes cannot be given back"),
    "P39": ("pytorch #35901", "small blocks that stay break up the large ones"),
    "P40": ("vllm #41268", "what is left of split blocks is of no use"),
    "P41": ("rmm #1245", "memory that is free once streams have passed counts as gone"),
    "P42": ("rmm #906", "a producer and a consumer thread use up the pool"),
    "P43": ("cubecl #1224", "a block is found under a size that it does not have"),
    "P44": ("llama.cpp #16679", "a larger successor in a place loses bytes"),
    "P45": ("rmm PR #534", "a pool cannot start at its maximum"),
    "P46": ("pytorch #18853", "a call that ran out of memory keeps some"),
    "P47": ("CUDA.jl #2898", "out of memory, memory cannot be given back either"),
    "P48": ("llama.cpp #22155", "free memory is kept while a request fails"),
    "P49": ("pytorch #19219", "blocks that wait for foreign streams are not waited for"),
    "P50": ("tvm PR #8285", "a pool gives up at the first refusal"),
    "P51": ("onnxruntime #21916", "all threads stand at one lock"),
    "P52": ("pytorch #97833", "a callback is called under the allocator's lock"),
    "P53": ("mlx #2099", "a release inside a release is a deadlock"),
    "P54": ("rmm #868", "the check of a limit is no part of the addition"),
    "P55": ("rmm PR #1940", "a replay harness races its own workers"),
    "P56": ("rmm PR #577", "logging that is off costs time"),
    "P57": ("rmm PR #988", "the request that failed is missing from the log"),
    "P58": ("rmm PR #2404", "a stranger's pointer lets a counter underflow"),
    "P59": ("pytorch PR #86145", "every allocation collects a stack"),
    "P60": ("CUDA.jl PR #3112", "copies between devices arrive nowhere"),
    "P61": ("rmm #1753", "a device is asked about access to itself, and that is an error"),
    "P62": ("llama.cpp #10153", "access that was there already leaves an error behind"),
    "P63": ("CUDA.jl #742", "all devices share one pool"),
    "P64": ("rmm #2510", "every synchronise gives the pool's memory back"),
    "P65": ("pytorch #159594", "memory is released in the midst of a capture"),
    "P66": ("CUDA.jl PR #1137", "a capture uses memory that its graph does not own"),
}

# Rows without a test of the suite, and why.
OUTSIDE = {
    "P55": "a fault of a test harness, not of a runtime; threads of our tests start at barriers",
    "P56": "a matter of speed: the benchmarks have its bar (logging that is off adds at most 1 ns)",
}

# Rows that a test decides only in part: what is missing, and why.
PARTLY = {
    "P51": "how throughput grows takes many cores and is the benchmarks' (T8); that 39 threads come through while one "
    "stands upstream is tested",
    "P60": "the read-back at start-up guards against a driver and waits for feature cuda; that bytes arrive is tested",
    "P62": "the sticky error is CUDA's and waits for feature cuda; that the error record stays is tested",
}


def memory_case(*rows: str) -> pytest.MarkDecorator:
    """Marks a test with the rows that it looks for."""
    return marking("memory_case", ROWS, rows)
