"""Turns the raw results of ci/bench into tables: every figure, its bar, and the peers of the same run.

Usage: bench_report.py FOLDER KIND THREADS. Reads FOLDER/raw, writes FOLDER/KIND.json and FOLDER/KIND.md.
"""

import json
import sys
from dataclasses import asdict, dataclass
from pathlib import Path

from bench_figures import PEERS, Figure, Results, figures, on_gpu


def processor() -> str:
    """The processor's own name; no name of the machine."""
    lines = Path("/proc/cpuinfo").read_text().splitlines()
    names = [line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")]
    return f"{len(names)} × {names[0]}" if names else "unknown"


def rounded(value: float) -> float:
    return float(f"{value:.4g}")


def shown(value: float | None) -> str:
    if value is None:
        return ""
    return f"{value:.3g}" if abs(value) < 1000 else f"{value:,.0f}"


@dataclass(frozen=True)
class Line:
    """What one figure came to. `ratio` is to the first of the peers; `frame` is what the row takes without the work."""

    id: str
    what: str
    unit: str
    value: float
    p99: float | None
    frame: float | None
    bar: float
    is_floor: bool
    is_met: bool
    ratio: float | None
    peers: dict[str, float]

    def cells(self) -> list[str]:
        verdict = "met" if self.is_met else "**below**" if self.is_floor else "**above**"
        return [
            self.id,
            f"{self.what} ({self.unit})",
            shown(self.value),
            shown(self.p99),
            shown(self.frame),
            f"{'≥' if self.is_floor else '≤'} {shown(self.bar)}",
            verdict,
            shown(self.ratio),
            *(shown(self.peers.get(peer)) for peer in PEERS),
        ]


def line_of(figure: Figure, results: Results) -> Line:
    value = figure.of(results, "kina")
    found = [peer for peer in PEERS if figure.row and results.has(figure.row, peer)]
    peers = {peer: rounded(figure.of(results, peer)) for peer in found}
    p99 = results.rows.get(f"{figure.part}:{figure.row}/kina", {}).get("single_p99_ns") if figure.has_tail else None
    return Line(
        id=figure.id,
        what=figure.what,
        unit=figure.unit,
        value=rounded(value),
        p99=None if p99 is None else rounded(p99),
        frame=rounded(figure.of(results, "harness")) if figure.row and results.has(figure.row, "harness") else None,
        bar=figure.bar,
        is_floor=figure.is_floor,
        is_met=figure.is_met(value),
        ratio=rounded(value / peers[found[0]]) if found and figure.unit == "ns" else None,
        peers=peers,
    )


def table(head: list[str], texts: int, lines: list[list[str]]) -> str:
    """Markdown; the first `texts` columns are words, the others numbers."""
    rule = ["---"] * texts + ["---:"] * (len(head) - texts)
    return "".join("| " + " | ".join(cells) + " |\n" for cells in [head, rule, *lines])


def threads_table(results: Results) -> str:
    """T8 and T9 as they were measured, each thread on a core of its own: nanoseconds of one thread's operation, and
    millions of operations per second of all."""
    peers = [peer for peer in PEERS if results.has("T8/own_streams/1", peer)]
    columns = [("T8/own_streams", who) for who in ["kina", *peers]] + [("T9/one_stream", "kina")]
    counts = [count for count in range(1, results.threads + 1) if results.has(f"T8/own_streams/{count}", "kina")]
    lines = [[str(n), *(threads_cell(results, f"{row}/{n}", who) for row, who in columns)] for n in counts]
    return table(["threads", "kina", *peers, "kina, one stream"], 0, lines)


def threads_cell(results: Results, row: str, who: str) -> str:
    return f"{shown(results.get(row, who=who))} ({results.get(row, 'operations_per_second', who=who) / 1e6:.3g})"


def text_of(report: dict[str, object], lines: list[Line], results: Results) -> str:
    text = (
        f"{report['processor']}, every thread pinned to a core. A locked addition takes {report['locked_add_ns']} ns here, "
        f"the frame of a row {report['frame_ns']} ns.\n\n"
    )
    head = ["", "figure", "measured", "p99", "frame", "bar", "", "ratio", *PEERS]
    text += table(head, 2, [line.cells() for line in lines])
    text += "\nT8 and T9: nanoseconds of an operation on each thread (millions of operations per second on all)\n\n"
    text += threads_table(results)
    gpu = on_gpu(results)
    if gpu:
        text += "\nOn the GPU, ns of the host's time, beside what the library takes for a tensor of the host\n\n"
        cells = [[what, shown(theirs), shown(ours), shown(theirs / ours)] for what, theirs, ours in gpu]
        text += table(["", f"PyTorch {results.torch}, CUDA", "kina", "×"], 1, cells)
    return text


def main() -> None:
    folder, kind, threads = Path(sys.argv[1]), sys.argv[2], int(sys.argv[3])
    results = Results(folder / "raw", threads)
    has_debug = (folder / "raw" / "debug.json").exists()
    lines = [line_of(figure, results) for figure in figures(threads, has_debug)]
    rows = {
        name: {key: rounded(value) for key, value in counters.items()}
        for name, counters in sorted(results.rows.items())
    }
    report: dict[str, object] = {
        "kind": kind,
        "processor": processor(),
        "threads": threads,
        "torch": results.torch,
        "locked_add_ns": rounded(results.get("machine/locked_add", who="harness")),
        "frame_ns": rounded(results.get("T1/hot", who="harness")),
        "figures": [asdict(line) for line in lines],
        "rows": rows,
    }
    (folder / f"{kind}.json").write_text(json.dumps(report, indent=1, ensure_ascii=False) + "\n")
    text = text_of(report, lines, results)
    (folder / f"{kind}.md").write_text(text)
    met = sum(line.is_met for line in lines)
    print(f"{text}\n{met} of {len(lines)} figures meet their bars: {threads} threads")


main()
