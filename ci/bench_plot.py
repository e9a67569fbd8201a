"""Draws the plots of docs/benchmarks from one result of ci/bench; needs impl/bench/requirements.txt.

Usage: bench_plot.py RESULT.json; writes RESULT-growth.svg, RESULT-pairs.svg and RESULT-threads.svg beside it.
"""

import json
import sys
from pathlib import Path
from typing import Any

import matplotlib
from matplotlib import pyplot

CONTENDERS = {
    "kina": ("kina", "#1f4e9c"),
    "mimalloc_256": ("mimalloc, 256-byte aligned", "#c2571a"),
    "mimalloc": ("mimalloc", "#e3a06f"),
    "aligned_alloc_256": ("glibc aligned_alloc(256)", "#4b7f3f"),
    "malloc": ("glibc malloc", "#a3c493"),
}
COUNTS = [10, 100, 1000, 10000, 100000]
Rows = dict[str, dict[str, float]]


def points(rows: Rows, names: list[tuple[float, str]], counter: str) -> tuple[list[float], list[float]]:
    found = [(x, rows[f"release:{name}"][counter]) for x, name in names if f"release:{name}" in rows]
    return [x for x, _ in found], [y for _, y in found]


def draw_growth(rows: Rows, file: Path) -> None:
    figure, axes = pyplot.subplots(figsize=(7, 4.2))
    for who, (label, colour) in CONTENDERS.items():
        x, y = points(rows, [(count, f"T4/small/{count}/{who}") for count in COUNTS], "ns")
        axes.loglog(x, y, "o-", color=colour, label=label)
    x, y = points(rows, [(count, f"T4/medium/{count}/kina") for count in COUNTS], "ns")
    axes.loglog(x, y, "s--", color=CONTENDERS["kina"][1], label="kina, 64 KiB to 32 MiB")
    axes.set(xlabel="free blocks that cannot merge", ylabel="ns for one take and one give, 256 B to 64 KiB")
    finish(figure, axes, file)


def draw_pairs(rows: Rows, file: Path) -> None:
    groups = {"T1/hot": "hot, 4 KiB", "T2/small": "10,000 live,\n256 B to 64 KiB", "T3/medium": "64 KiB to 32 MiB"}
    figure, axes = pyplot.subplots(figsize=(7, 4.2))
    width = 0.8 / len(CONTENDERS)
    for index, (who, (label, colour)) in enumerate(CONTENDERS.items()):
        x, y = points(rows, [(at + (index - 2) * width, f"{row}/{who}") for at, row in enumerate(groups)], "ns")
        bars = axes.bar(x, y, width, color=colour, label=label)
        axes.bar_label(bars, fmt="%.0f", fontsize=7)
    axes.set_yscale("log")
    axes.set_xticks(range(len(groups)), list(groups.values()))
    axes.set(ylabel="ns for one take and one give")
    finish(figure, axes, file)


def draw_threads(rows: Rows, file: Path) -> None:
    counts = [2**power for power in range(11)]
    figure, axes = pyplot.subplots(figsize=(7, 4.2))
    for who, (label, colour) in CONTENDERS.items():
        x, y = points(rows, [(n, f"T8/own_streams/{n}/{who}") for n in counts], "operations_per_second")
        axes.loglog(x, [value / 1e6 for value in y], "o-", color=colour, label=label)
    x, y = points(rows, [(n, f"T9/one_stream/{n}/kina") for n in counts], "operations_per_second")
    axes.loglog(x, [value / 1e6 for value in y], "s--", color=CONTENDERS["kina"][1], label="kina, one stream for all")
    axes.set_xticks(x, [str(int(value)) for value in x])
    axes.minorticks_off()
    axes.set(xlabel="threads, each on its own core", ylabel="million takes and gives a second")
    finish(figure, axes, file)


def finish(figure: Any, axes: Any, file: Path) -> None:
    axes.grid(True, which="major", linewidth=0.3)
    axes.legend(fontsize=7)
    figure.tight_layout()
    figure.savefig(file, metadata={"Date": None})
    pyplot.close(figure)


def main() -> None:
    result = Path(sys.argv[1])
    rows = json.loads(result.read_text())["rows"]
    matplotlib.rcParams["svg.hashsalt"] = "kina"  # the same picture from the same numbers
    draw_growth(rows, result.with_name(f"{result.stem}-growth.svg"))
    draw_pairs(rows, result.with_name(f"{result.stem}-pairs.svg"))
    draw_threads(rows, result.with_name(f"{result.stem}-threads.svg"))


main()
