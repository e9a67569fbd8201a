"""report.json, and junit.xml and report.html made from it."""

from __future__ import annotations

import json
from dataclasses import asdict
from html import escape
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

from .contract import CHAPTERS, Contract
from .library import Library
from .runner import Run
from .verdict import SUCCESS, UNCLAIMABLE, Verdict, spec_hash, summary
from .version import VERSION

COLOURS = {"fail": "#c62828", "pass": "#2e7d32", "absent": "#b0bec5", "unreached": "#f9a825", "untested": "#eceff1"}
_CELL, _LEFT, _ROW = 15, 96, 22


def build(
    contract: Contract, library: Library, run: Run, verdict: Verdict, settings: dict[str, Any], following: list[str]
) -> dict[str, Any]:
    """The whole report as plain data."""
    return {
        "suite": {"version": VERSION, "spec": spec_hash(contract)},
        "settings": settings,
        "library": library.as_dict(),
        "verdict": {"exit_code": verdict.code, "line": verdict.line, "next": following},
        "summary": summary(contract, verdict, run),
        "clauses": [
            {
                "id": clause.id,
                "level": clause.level,
                "text": clause.text,
                "hash": clause.hash,
                "state": verdict.states[clause.id],
                "reason": contract.untested.get(clause.id, ""),
                "tests": [o.test for o in run.outcomes if clause.id in o.clauses],
            }
            for clause in contract.clauses.values()
        ],
        "tests": [asdict(outcome) for outcome in run.outcomes],
        "status_rows": {
            "seen": verdict.rows_seen,
            "unseen": verdict.rows_unseen,
            "waiting": verdict.rows_waiting,
        },
        "chapter_seconds": run.chapter_seconds,
        "internal_errors": run.internal,
    }


def write(report: dict[str, Any], folder: Path) -> None:
    """All three files."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "report.json").write_text(json.dumps(report, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    (folder / "junit.xml").write_bytes(junit(report))
    (folder / "report.html").write_text(html(report), encoding="utf-8")


def junit(report: dict[str, Any]) -> bytes:
    """One testcase per test, one suite per chapter; a verdict that no test shows is a case of its own."""
    root = ElementTree.Element("testsuites", name="kina-conformance")
    chapters: dict[str, list[dict[str, Any]]] = {}
    for test in report["tests"]:
        chapters.setdefault(test["chapter"], []).append(test)
    for chapter, tests in chapters.items():
        bad = [t for t in tests if t["outcome"] == "failed"]
        errors = [t for t in tests if t["outcome"] in {"crash", "hang", "exit", "lost"}]
        absent = [t for t in tests if t["outcome"] == "absent"]
        groups = {"tests": tests, "failures": bad, "errors": errors, "skipped": absent}
        suite = ElementTree.SubElement(
            root, "testsuite", {"name": chapter, **{k: str(len(v)) for k, v in groups.items()}}
        )
        for test in tests:
            case = ElementTree.SubElement(
                suite,
                "testcase",
                classname=f"kina.{chapter}",
                name=test["test"].split("::", 1)[-1],
                time=f"{test['seconds']:.3f}",
            )
            if test["outcome"] == "passed":
                continue
            kind = {"absent": "skipped", "failed": "failure"}.get(test["outcome"], "error")
            element = ElementTree.SubElement(case, kind, message=_plain(test["message"])[:300])
            element.text = _plain(f"{' '.join(test['clauses'])}\n{test['message']}\n{test['example']}")
    shown = any(test["outcome"] not in {"passed", "absent"} for test in report["tests"])
    if report["verdict"]["exit_code"] not in {SUCCESS, UNCLAIMABLE} and not shown:
        suite = ElementTree.SubElement(root, "testsuite", name="verdict", tests="1", failures="0", errors="1")
        case = ElementTree.SubElement(suite, "testcase", classname="kina.verdict", name="verdict", time="0.000")
        ElementTree.SubElement(case, "error", message=_plain(report["verdict"]["line"]))
    return b'<?xml version="1.0" encoding="utf-8"?>\n' + ElementTree.tostring(root)


def _plain(text: str) -> str:
    """Without the characters that XML cannot hold."""
    return "".join(c if c in "\n\t" or c >= " " else "?" for c in text)


def matrix(report: dict[str, Any]) -> str:
    """The clause matrix: a row per chapter, a square per clause."""
    rows: dict[str, list[dict[str, Any]]] = {}
    for clause in report["clauses"]:
        rows.setdefault(clause["id"].split("-")[1].lower(), []).append(clause)
    widest = max((len(row) for row in rows.values()), default=1)
    parts = []
    for y, chapter in enumerate(c for c in CHAPTERS if c in rows):
        parts.append(f'<text x="{_LEFT - 8}" y="{y * _ROW + 13}" text-anchor="end">{chapter}</text>')
        for x, clause in enumerate(rows[chapter]):
            title = escape(f"{clause['id']} {clause['level']}: {clause['state']}\n{clause['text']}")
            box = f'x="{_LEFT + x * _CELL}" y="{y * _ROW}" width="{_CELL - 2}" height="16" rx="2"'
            fill = COLOURS[clause["state"]]
            parts.append(f'<a href="#{clause["id"]}"><rect {box} fill="{fill}"><title>{title}</title></rect></a>')
    width, height = _LEFT + widest * _CELL + 4, len(rows) * _ROW + 4
    return (
        f'<svg viewBox="0 0 {width} {height}" width="{width}" height="{height}" role="img" '
        f'aria-label="clause matrix" font-size="13" font-family="sans-serif">{"".join(parts)}</svg>'
    )


def _legend() -> str:
    words = {
        "fail": "broken",
        "pass": "holds",
        "absent": "feature absent",
        "unreached": "not reached",
        "untested": "no test can decide it",
    }
    return " ".join(
        f'<span class="key"><i style="background:{COLOURS[state]}"></i>{word}</span>' for state, word in words.items()
    )


def _failures(report: dict[str, Any]) -> str:
    parts = []
    for test in report["tests"]:
        if test["outcome"] in {"passed", "absent"}:
            continue
        clauses = " ".join(dict.fromkeys(test["clauses"] + ([test["broken"]] if test["broken"] else [])))
        body = escape("\n".join(filter(None, [test["message"], test["example"], test["where"]])))
        parts.append(
            f"<details open><summary><b>{escape(test['outcome'])}</b> {escape(clauses)} "
            f"{escape(test['test'].split('::', 1)[-1])}</summary><pre>{body}</pre></details>"
        )
    return "".join(parts) or "<p>None.</p>"


def _clauses(report: dict[str, Any]) -> str:
    rows = []
    for clause in report["clauses"]:
        names = list(dict.fromkeys(t.split("::", 1)[-1].split("[")[0] for t in clause["tests"]))
        more = f" and {len(names) - 5} more" if len(names) > 5 else ""
        tests = escape(", ".join(names[:5]) + more or clause["reason"])
        rows.append(
            f'<tr id="{clause["id"]}"><td><i style="background:{COLOURS[clause["state"]]}"></i></td>'
            f"<td>{clause['id']}</td><td>{clause['level']}</td><td>{escape(clause['text'])}</td><td>{tests}</td></tr>"
        )
    return "".join(rows)


def _facts(report: dict[str, Any]) -> str:
    library, counts, settings = report["library"], report["summary"], report["settings"]
    rows = counts["status_rows"]
    facts = {
        "library": library["path"],
        "sha256": library["sha256"],
        "build id": library["build_id"],
        "ABI": library["abi_version"],
        "version": library["version"],
        "features": ", ".join(library["features"]),
        "devices": ", ".join(f"{name} {count}" for name, count in library["devices"].items()),
        "suite": f"{report['suite']['version']}, spec {report['suite']['spec']}",
        "settings": ", ".join(f"{k} {v}" for k, v in settings.items() if v not in (None, [])),
        "tests": ", ".join(f"{count} {word}" for word, count in counts["tests"].items()),
        "calls": f"{counts['calls']:,}, {counts['distinct_calls']:,} distinct, {counts['failing_calls']:,} refused",
        "status rows": f"{rows['seen']} seen, {rows['unseen']} not seen, {rows['waiting']} waiting",
        "time": f"{counts['seconds']} s",
    }
    return "".join(f"<tr><th>{key}</th><td>{escape(str(value))}</td></tr>" for key, value in facts.items() if value)


def _seconds(report: dict[str, Any]) -> str:
    times = sorted(report["chapter_seconds"].items(), key=lambda item: -item[1])
    longest = max((s for _, s in times), default=1.0) or 1.0
    bars = [
        f'<text x="{_LEFT - 8}" y="{y * _ROW + 13}" text-anchor="end">{chapter}</text>'
        f'<rect x="{_LEFT}" y="{y * _ROW}" width="{max(1, 400 * s / longest):.0f}" height="16" fill="#5c6bc0"/>'
        f'<text x="{_LEFT + 408 * s / longest + 8:.0f}" y="{y * _ROW + 13}">{s:.1f} s</text>'
        for y, (chapter, s) in enumerate(times)
    ]
    return (
        f'<svg width="620" height="{len(times) * _ROW}" font-size="13" font-family="sans-serif">{"".join(bars)}</svg>'
    )


_STYLE = """body{font:15px/1.45 sans-serif;margin:2em;max-width:1200px;color:#222}
table{border-collapse:collapse}td,th{padding:2px 10px 2px 0;text-align:left;vertical-align:top}
i{display:inline-block;width:12px;height:12px;border-radius:2px;margin-right:5px}.key{margin-right:1.2em}
pre{background:#f5f5f5;padding:8px;white-space:pre-wrap}.verdict{font-size:20px;font-weight:bold}svg{max-width:100%}"""


def html(report: dict[str, Any]) -> str:
    """One page without outside files; the matrix comes first."""
    return f"""<!doctype html>
<html lang="en"><head><meta charset="utf-8"><title>Kina conformance: {escape(report["library"]["path"])}</title>
<style>{_STYLE}</style></head><body>
{matrix(report)}
<p>{_legend()}</p>
<p class="verdict">{escape(report["verdict"]["line"])}</p>
<p>{"<br>".join(map(escape, report["verdict"]["next"]))}</p>
<h2>Failures</h2>{_failures(report)}
<h2>The run</h2><table>{_facts(report)}</table>
<h2>Time</h2>{_seconds(report)}
<h2>Clauses</h2><table>{_clauses(report)}</table>
</body></html>
"""
