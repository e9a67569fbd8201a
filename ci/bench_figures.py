"""What ci/bench measures: the raw results by row, and every figure with its bar and the peer that it is held against."""

import json
import statistics
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

# In the order of the table. The first of them that a row has is its peer: it does the same, so the ratio is to it.
PEERS = ["torch", "mimalloc_256", "aligned_alloc_256", "mimalloc", "malloc"]
CALLS = ["upstream_calls", "event_records", "stream_waits"]
TRACES = ["training", "inference", "P39_small_survivors", "P40_halves", "P42_producers_and_consumers"]
Counters = dict[str, float]
# An export consumes its tensor, so an alias is made for it; an addition is more than the call that asks for it.
IMPORTED = ("tensor/alias_export_import_and_free", "tensor/alias_and_free")
ADDED = ("tensor/add_32_elements", "tensor/add_32_elements_by_plain_loop")


class Results:
    """The medians of the counters over all repetitions, by "part:row/contender"."""

    def __init__(self, folder: Path, threads: int) -> None:
        self.threads = threads
        self.rows: dict[str, Counters] = {}
        self.torch = ""
        for part in ["release", "traces", "simulated", "debug", "core", "cuda"]:
            file = folder / f"{part}.json"
            result = json.loads(file.read_text()) if file.exists() else {"context": {}, "benchmarks": []}
            self.torch = result["context"].get("torch", self.torch)
            found: dict[str, list[Counters]] = {}
            for run in result["benchmarks"]:
                if run["run_type"] == "iteration" and not run.get("error_occurred"):
                    name = run["name"].split("/iterations:")[0].removeprefix("cuda/")
                    found.setdefault(f"{part}:{name}", []).append(run)
            for name, runs in found.items():
                counters = [key for key in runs[0] if isinstance(runs[0][key], float) and not key.endswith("_time")]
                self.rows[name] = {key: statistics.median(run[key] for run in runs) for key in counters}
        loads = [line.split() for line in (folder / "load.txt").read_text().splitlines()]
        self.first_call_ns = statistics.median(float(load[0]) for load in loads)

    def get(self, row: str, counter: str = "ns", part: str = "release", who: str = "kina") -> float:
        return self.rows[f"{part}:{row}/{who}"][counter]

    def calls(self, row: str, part: str = "release") -> float:
        return sum(self.get(row, counter, part) for counter in CALLS)

    def growth(self, row: str, who: str = "kina") -> float:
        costs = [self.get(f"{row}/{count}", who=who) for count in [10, 100, 1000, 10000, 100000]]
        return max(costs) / costs[0]

    def speedup(self, who: str = "kina") -> float:
        rates = [self.get(f"T8/own_streams/{count}", "operations_per_second", who=who) for count in [1, self.threads]]
        return rates[1] / rates[0]

    def has(self, row: str, who: str, part: str = "release") -> bool:
        return f"{part}:{row}/{who}" in self.rows

    def beyond(self, more: str, less: str, who: str = "kina") -> float:
        """What the row `more` takes beyond `less`; what only the library has as a row is the same for its peers."""
        return self.get(more, who=who) - self.get(less, who=who if self.has(less, who) else "kina")


@dataclass(frozen=True)
class Figure:
    """One line of the table. `of` gives the value of one contender; the peers' stand beside it where `row` has them."""

    id: str
    what: str
    unit: str
    bar: float
    of: Callable[[Results, str], float]
    row: str = ""
    part: str = "release"
    is_floor: bool = False
    has_tail: bool = False

    def is_met(self, value: float) -> bool:
        return value >= self.bar if self.is_floor else value <= self.bar


def timed(id_: str, what: str, bar: float, row: str, part: str = "release") -> Figure:
    """The median of one operation of a row."""
    return Figure(id_, what, "ns", bar, lambda r, who: r.get(row, part=part, who=who), row, part, has_tail=True)


def reserved(trace: str) -> Figure:
    what = f"reserved / live peak: {trace.replace('_', ' ')}"
    return Figure("T19", what, "×", 1.25, lambda r, _: r.get(f"T19/{trace}", "reserved_to_peak", "traces"))


def metadata_percent(r: Results, _: str) -> float:
    rows = [("release", "T2/small"), ("release", "T3/medium"), *(("traces", f"T19/{trace}") for trace in TRACES)]
    return 100 * max(r.get(row, "metadata_share", part) for part, row in rows)


def steady_calls(r: Results, _: str) -> float:
    return sum(r.calls(row) for row in ["T1/hot", "T2/small", "T3/medium"])


def difference(id_: str, what: str, unit: str, bar: float, more: str, less: str, divisor: float = 1) -> Figure:
    """What one row takes beyond another one, in nanoseconds."""
    return Figure(id_, what, unit, bar, lambda r, who: r.beyond(more, less, who) / divisor, more)


def tail(r: Results, who: str) -> float:
    row = f"T8/own_streams/{r.threads}"
    return r.get(row, "single_p99_ns", who=who) / r.get(row, "single_p50_ns", who=who)


def lost_percent(r: Results, _: str) -> float:
    return 100 - 100 * r.get("T11/tensors_without", part="debug") / r.get("T11/tensors_through", part="debug")


def figures(threads: int, has_debug: bool) -> list[Figure]:
    together = f"{threads} threads"
    own = f"T8/own_streams/{threads}"
    lost = Figure("T11", "many small tensors, preset dev: throughput lost", "%", 10, lost_percent)
    return [
        timed("T1", "allocate + deallocate, hot, 4 KiB", 25, "T1/hot"),
        timed("T1", "the same on the current stream (NULL)", 25, "T1/hot_null_stream"),
        timed("T2", "256 B to 64 KiB, 10,000 live", 40, "T2/small"),
        timed("T3", "64 KiB to 32 MiB, split and merge", 120, "T3/medium"),
        Figure(
            "T4",
            "T2's cost, 10 to 100,000 free blocks",
            "×",
            1.5,
            lambda r, who: r.growth("T4/small", who),
            "T4/small/10",
        ),
        Figure("T4", "T3's cost, 10 to 100,000 free blocks", "×", 1.5, lambda r, who: r.growth("T4/medium", who)),
        Figure("T5", "upstream and driver calls of T1 to T3, steady", "calls", 0, steady_calls),
        timed("T6", "take from another stream, order unknown", 2000, "T6/order_unknown", "simulated"),
        Figure("T6", "its records", "calls", 1, lambda r, _: r.get("T6/order_unknown", "event_records", "simulated")),
        Figure("T6", "its waits", "calls", 1, lambda r, _: r.get("T6/order_unknown", "stream_waits", "simulated")),
        timed("T7", "take from another stream, order known", 60, "T7/order_known", "simulated"),
        Figure("T7", "its calls of the device", "calls", 0, lambda r, _: r.calls("T7/order_known", "simulated")),
        Figure(
            "T8",
            f"{together}, own streams: throughput",
            "×",
            0.75 * threads,
            lambda r, who: r.speedup(who),
            own,
            is_floor=True,
        ),
        Figure("T8", f"{together}, own streams: p99 / p50", "×", 4, tail, own),
        Figure(
            "T9",
            f"{together}, one stream: p50",
            "ns",
            400,
            lambda r, _: r.get(f"T9/one_stream/{threads}", "single_p50_ns"),
        ),
        timed("T10", "give back what another thread took", 40, "T10/remote_free"),
        difference(
            "T11",
            "logging off: a pair beside a logging resource",
            "ns more",
            1,
            "T11/pairs_beside",
            "T11/pairs_without",
        ),
        difference("T11", "logging on: a row", "ns", 45, "T11/pairs_through", "T11/pairs_without", 2),
        *([lost] if has_debug else []),
        timed("T12", "current resource", 3, "T12/current_resource"),
        timed("T12", "default resource set + restored", 20, "T12/default_set_and_restore"),
        timed("T12", "resource push + pop", 8, "T12/resource_push_and_pop"),
        timed("T12", "stream push + pop", 8, "T12/stream_push_and_pop"),
        timed("T12", "current stream", 4, "T12/current_stream"),
        timed("T13", "device push + pop, already current", 5, "T13/device_push_and_pop"),
        timed("T14", "failure bookkeeping of three outputs, nothing fails", 60, "T14/claims_of_three_outputs", "core"),
        Figure(
            "T14",
            "its heap allocations",
            "calls",
            0,
            lambda r, _: r.get("T14/claims_of_three_outputs", "heap_allocations", "core"),
        ),
        *(reserved(trace) for trace in TRACES),
        Figure("T20", "metadata / managed bytes, worst of T2, T3, T19", "%", 0.5, metadata_percent),
        timed("tensor", "runtime_alloc + runtime_free, pooled", 80, "tensor/alloc_and_free"),
        timed("tensor", "the same on the current stream (NULL)", 80, "tensor/alloc_and_free_null_stream"),
        timed("tensor", "runtime_view + runtime_free", 60, "tensor/view_and_free"),
        difference("tensor", "DLPack export + import", "ns", 120, *IMPORTED),
        difference("tensor", "elementwise call above its plain loop", "ns", 150, *ADDED),
        Figure("load", "library load to the end of the first call", "ms", 5, lambda r, _: r.first_call_ns / 1e6),
    ]


def on_gpu(results: Results) -> list[tuple[str, float, float]]:
    """What others take for the same on the GPU of the same run, and what the library takes on the host, in nanoseconds."""
    if not results.has("pair", "torch", "cuda"):
        return []

    def theirs(row: str, who: str = "torch") -> float:
        return results.get(row, part="cuda", who=who)

    ours, launch = results.get, theirs("empty_launch", "cuda")
    imported = theirs("alias_export_import_and_free") - theirs("alias_and_free")
    added = f"at::add_out above an empty launch, which takes {launch:,.0f}"
    return [
        ("allocate + deallocate, 4 KiB: PyTorch's caching allocator", theirs("pair"), ours("T1/hot")),
        ("the same: cudaMallocAsync + cudaFreeAsync", theirs("pair", "cuda_async"), ours("T1/hot")),
        ("the same: cudaMalloc + cudaFree", theirs("pair", "cuda"), ours("T1/hot")),
        ("at::empty, freed", theirs("alloc_and_free"), ours("tensor/alloc_and_free")),
        ("as_strided, freed", theirs("view_and_free"), ours("tensor/view_and_free")),
        ("toDLPack + fromDLPack", imported, results.beyond(*IMPORTED)),
        (added, theirs("add_32_elements") - launch, results.beyond(*ADDED)),
    ]
