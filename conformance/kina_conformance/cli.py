"""The command `kina-conformance`: run, skeleton, list, explain, coverage, doctor."""

from __future__ import annotations

import os

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # before NumPy: the runner forks

import argparse
import difflib
import fnmatch
import platform
import shlex
import sys
import time
import traceback
from collections import Counter
from pathlib import Path
from typing import Any

from kina.paths import header_path

from . import report as reports
from .advice import advice
from .configuration import complaint
from .contract import CHAPTERS, Contract, contract
from .library import Library, examine, feature_names
from .runner import Run, Runner
from .skeleton import skeleton
from .terminal import SHOWN, Screen, closing
from .verdict import INTERNAL, UNTESTABLE, USAGE, Verdict, Weakness, judge, refused, spec_hash, summary
from .version import VERSION
from .worker import Settings, collect

COMMANDS = ("run", "skeleton", "list", "explain", "coverage", "doctor")
EXITS = """\
exit codes, where several hold the first of 70, 64, 4, 1, 2, 5:
  0   conformant
  1   a MUST failed
  2   unknown: nothing failed, but tests were lost or did not come to a clause
  4   not testable: the library does not load, or functions are missing
  5   no claim: nothing failed, but too little was run for one
  64  the command line is wrong
  70  the suite is at fault, or the report could not be written
"""
SELECTORS = ("clause", "chapter", "test")


class Parser(argparse.ArgumentParser):
    """Usage errors end with 64."""

    def error(self, message: str) -> Any:
        self.print_usage(sys.stderr)
        self.exit(USAGE, f"{self.prog}: {message}\n")


def _positive(text: str) -> int:
    if not text.isdecimal() or int(text) == 0:
        raise argparse.ArgumentTypeError(f"{text!r} is no number above 0")
    return int(text)


def parser() -> Parser:
    """The command line."""
    top = Parser(
        prog="kina-conformance",
        description="Judges a shared library against the Kina runtime ABI. `--lib LIB` alone runs everything.",
        epilog=EXITS,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    top.add_argument("--version", action="version", version=f"kina-conformance {VERSION}")
    commands = top.add_subparsers(dest="command", metavar="{" + ",".join(COMMANDS) + "}", parser_class=Parser)
    run = commands.add_parser("run", help="judge a library (the default)")
    run.add_argument("--lib", required=True, help="the shared library under test")
    run.add_argument("--profile", default="auto", help="auto (what the library claims), full, or core+dlpack+…")
    run.add_argument("--tier", choices=("quick", "standard"), default="standard", help="how many examples")
    run.add_argument(
        "--select",
        action="append",
        default=[],
        metavar="clause=KINA-MATMUL-*",
        help="or chapter=, test=; != leaves out",
    )
    run.add_argument("--resource", metavar="TEXT", help="KINA_RESOURCE of the tests; not that of this process")
    run.add_argument("--seed", type=int, default=0, help="seed of the examples")
    run.add_argument("--jobs", type=_positive, default=os.cpu_count() or 1, help="worker processes")
    run.add_argument("--timeout", type=_positive, default=10_000, metavar="MS", help="longest call, in milliseconds")
    run.add_argument("--report", type=Path, metavar="DIR", help="write report.json, junit.xml and report.html there")
    run.add_argument("--format", choices=("auto", "plain"), default="auto", help="auto: moving bars on a terminal")
    commands.add_parser("skeleton", help="a C source with every function, to start a runtime from")
    listing = commands.add_parser("list", help="the tests and the clauses that they decide")
    listing.add_argument("--select", action="append", default=[], metavar="clause=KINA-MATMUL-*")
    explain = commands.add_parser("explain", help="a clause, or a function with its tags")
    explain.add_argument("name", help="KINA-MATMUL-4 or runtime_gpu_matmul")
    commands.add_parser("coverage", help="clauses and statuses without a test")
    doctor = commands.add_parser("doctor", help="the machine, the suite, and a library if one is given")
    doctor.add_argument("--lib")
    return top


def main(arguments: list[str] | None = None) -> int:
    """The entry point; the answer is the exit code."""
    words = list(sys.argv[1:] if arguments is None else arguments)
    if words and words[0].startswith("--") and words[0] not in {"--help", "--version"}:
        words.insert(0, "run")
    try:
        if not words:
            return _complain(f"what to do is missing\n{parser().format_help()}")
        if not words[0].startswith("-") and words[0] not in COMMANDS:
            return _complain(_no_command(words))
        options = parser().parse_args(words)
        actions = {"run": _run, "list": _list, "explain": _explain, "coverage": _coverage, "doctor": _doctor}
        actions |= {"skeleton": _skeleton}
        return actions[options.command](options)
    except BrokenPipeError:
        return 0
    except Exception:  # Python's own answer to it is 1, which would say that a MUST failed
        traceback.print_exc()
        return INTERNAL
    except SystemExit as end:
        return int(end.code or 0) if not isinstance(end.code, str) else _complain(end.code)


def _complain(text: str) -> int:
    print(f"kina-conformance: {text}", file=sys.stderr)
    return USAGE


def _no_command(words: list[str]) -> str:
    """What to type instead: most often the path of a library stands where the command should."""
    guess = next((word for word in words if os.path.exists(word) or ".so" in word or ".dylib" in word), "./libyours.so")
    return (
        f"there is no command {words[0]!r}\nto judge a library, type: kina-conformance --lib {shlex.quote(guess)}\n"
        f"the commands are {', '.join(COMMANDS)}; kina-conformance --help says what they do"
    )


def _tests() -> list[dict[str, Any]]:
    tests, problem = collect()
    if problem:
        print(f"kina-conformance: the suite cannot be collected\n{problem}", file=sys.stderr)
        raise SystemExit(INTERNAL)
    return tests


def _chapters(test: dict[str, Any]) -> set[str]:
    """The subject of its file, and the chapters of the contract whose clauses it decides."""
    subject = Path(test["file"]).stem.removeprefix("test_")
    return {subject, *(clause.split("-")[1].lower() for clause in test["clauses"])}


def selected(tests: list[dict[str, Any]], patterns: list[str]) -> list[dict[str, Any]]:
    """The tests that match any pattern, all without one, but those that match a pattern with `key!=`."""
    chosen, left_out = set[str](), set[str]()
    for pattern in patterns:
        key, _, value = pattern.partition("=")
        word = key.removesuffix("!")
        if word not in SELECTORS or not value:
            raise SystemExit(f"--select {pattern}: use {', '.join(f'{s}=' for s in SELECTORS)} with a pattern")
        matched = {
            test["id"]
            for test in tests
            for text in {
                "clause": test["clauses"],
                "chapter": _chapters(test),
                "test": [test["id"].split("::", 1)[-1]],
            }[word]
            if fnmatch.fnmatchcase(text, value)
        }
        if not matched:
            raise SystemExit(f"--select {pattern}: no test matches it; {_what_there_is(tests, key, word, value)}")
        (chosen if key == word else left_out).update(matched)
    left = [test for test in tests if test["id"] in (chosen or {test["id"]}) - left_out]
    if not left:
        raise SystemExit(f"--select {' '.join(patterns)}: no test is left")
    return left


def _what_there_is(tests: list[dict[str, Any]], key: str, word: str, value: str) -> str:
    if word != "chapter":
        return "kina-conformance list names all tests"
    chapters = sorted(set[str]().union(*map(_chapters, tests)))
    near = difflib.get_close_matches(value, chapters, 1)
    return f"did you mean {key}={near[0]}?" if near else f"chapters are {', '.join(chapters)}"


def wanted_features(profile: str, library: Library) -> tuple[frozenset[str], list[str]]:
    """The features to judge, and what of the profile the library does not offer."""
    known = feature_names()
    if profile == "auto":
        return frozenset(library.features) | {"core"}, []
    words = known if profile == "full" else profile.split("+")
    unknown = [word for word in words if word not in known]
    if unknown:
        raise SystemExit(f"--profile {profile}: unknown {', '.join(unknown)}; known are {', '.join(known)}")
    wanted = frozenset(words) | {"core"}
    return wanted, sorted(wanted - set(library.features))


def _run(options: argparse.Namespace) -> int:
    problem = complaint(options.resource or "")
    if problem:
        raise SystemExit(f"--resource {options.resource}: {problem}")
    if "logging" in (options.resource or ""):
        raise SystemExit(f"--resource {options.resource}: logging writes to stderr, and the tests demand silence")
    if options.report is not None:
        _make(options.report)
    agreed = contract()
    library = examine(options.lib)
    screen = Screen(options.format == "auto" and sys.stdout.isatty())
    screen.head(VERSION, spec_hash(agreed), options.seed, library)
    if library.refusal:
        return _close(options, screen, agreed, library, Run(), refused(agreed, library))
    features, lacking = wanted_features(options.profile, library)
    everything = _tests()
    tests = [t for t in selected(everything, options.select) if _in_profile(t, features, library)]
    settings = Settings(options.lib, options.tier, options.seed, features, options.resource)
    weak = _weakness(options, features, library)
    runner = Runner(settings, tests, options.jobs, options.timeout / 1000, screen.test)
    screen.begin(Counter(batch.chapter for batch in runner.queue for _ in batch.tests))
    run = runner.complete()
    screen.finish()
    verdict = judge(agreed, library, run, weak, complete=not weak)
    if lacking and verdict.code in {0, 2, 5}:
        verdict.code, verdict.line = 1, f"NOT CONFORMANT: profile {options.profile} demands {', '.join(lacking)}"
    return _close(options, screen, agreed, library, run, verdict)


def _close(
    options: argparse.Namespace, screen: Screen, agreed: Contract, library: Library, run: Run, verdict: Verdict
) -> int:
    """The report, the counts, what to do next, and the verdict, which is the last line."""
    lost = ""
    following = advice(agreed, library, run, verdict)
    if options.report is not None:
        told = {"tier": options.tier, "seed": options.seed, "profile": options.profile, "select": options.select}
        told |= {"resource": options.resource, "jobs": options.jobs}
        told |= {"finished": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())}
        lost = _written(reports.build(agreed, library, run, verdict, told, following), options.report)
        screen.line(f"report     {lost or options.report / 'report.html'}")
    for line in closing(agreed, verdict, run, summary(agreed, verdict, run)) if run.outcomes else []:
        screen.line(line)
    if screen.hidden:
        where = "the report lists all" if options.report is not None else "--report DIR lists all"
        screen.line(f"hidden     {screen.hidden} failures behind the first {SHOWN} of a chapter; {where}")
    for word, line in zip(("next", *[""] * len(following)), following, strict=False):
        screen.line(f"{word:<10} {line}")
    screen.line(f"\n{verdict.line}")
    if lost:  # after the verdict, which is not lost with it
        print(f"kina-conformance: {lost}", file=sys.stderr)
    return INTERNAL if lost else verdict.code


def _written(report: dict[str, Any], folder: Path) -> str:
    """Writes the report; the answer is what kept it from being written."""
    try:
        reports.write(report, folder)
    except OSError as error:
        return f"the report could not be written to {folder}: {error.strerror}"
    return ""


def _make(folder: Path) -> None:
    """Before the run, so that no verdict is lost to a folder that cannot be written."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise SystemExit(f"--report {folder}: {error.strerror}") from error
    if not os.access(folder, os.W_OK | os.X_OK):
        raise SystemExit(f"--report {folder}: it cannot be written")


def _in_profile(test: dict[str, Any], features: frozenset[str], library: Library) -> bool:
    """Tests of features outside the profile are left out; those of absent features answer `absent`."""
    return all(need in features or need not in library.features for need in test["needs"])


def _weakness(options: argparse.Namespace, features: frozenset[str], library: Library) -> Weakness:
    reasons = []
    if options.tier != "standard":
        reasons.append(f"tier {options.tier}")
    if options.resource is not None:
        reasons.append(f"KINA_RESOURCE={options.resource}")
    if options.select:
        reasons.append(f"only {' '.join(options.select)}")
    narrower = sorted(set(library.features) - features)
    if narrower:
        reasons.append(f"profile leaves out {', '.join(narrower)}")
    return Weakness(reasons)


def _skeleton(_options: argparse.Namespace) -> int:
    print(skeleton(contract()), end="")
    return 0


def _list(options: argparse.Namespace) -> int:
    for test in selected(_tests(), options.select):
        print(f"{' '.join(test['clauses']):<24} {test['id']}")
    return 0


def _explain(options: argparse.Namespace) -> int:
    agreed = contract()
    if options.name.upper() in agreed.clauses:
        return _explain_clause(agreed, options.name.upper())
    function = agreed.functions.get(options.name.lower())
    if function is None:
        return _complain(f"neither a clause nor a function: {options.name}; {_meant(agreed, options.name)}")
    prototype = function.prototype
    arguments = ", ".join(f"{p.type} {p.name}".replace("* ", "*") for p in prototype.parameters) or "void"
    print(f"{prototype.result} {prototype.name}({arguments})    chapter {function.chapter}")
    for name, value in (function.tags.raw if function.tags else {}).items():
        print(f"  {name:<8} {value}")
    named = {c for row in (function.tags.errors.values() if function.tags else []) for c in row.clauses}
    for clause in (c for c in agreed.clauses.values() if c.id in named):
        print(f"  {clause.id:<20} {clause.text}")
    return 0


def _meant(agreed: Contract, name: str) -> str:
    names = {known.lower(): known for known in [*agreed.clauses, *agreed.functions]}
    asked = [f"{prefix}{name.lower()}" for prefix in ("", "kina-", "runtime_")]
    found = next((names[word] for word in asked if word in names), None)
    found = found or next((names[near] for near in difflib.get_close_matches(name.lower(), names, 1, 0.8)), None)
    if found is None:
        return "a clause is named like KINA-MATMUL-4, a function like runtime_gpu_matmul"
    return f"did you mean {found}?"


def _explain_clause(agreed: Contract, name: str) -> int:
    clause = agreed.clauses[name]
    print(f"{clause.id} {clause.level}  spec/{clause.file}:{clause.line}  hash {clause.hash}\n  {clause.text}")
    if name in agreed.untested:
        print(f"  not testable: {agreed.untested[name]}")
    for function in agreed.functions.values():
        for row in function.tags.errors.values() if function.tags else []:
            if name in row.clauses:
                print(f"  {function.name} answers {row.status}{' (injected)' if row.injected else ''}")
    for test in _tests():
        if name in test["clauses"]:
            print(f"  decided by {test['id']}")
    return 0


def _coverage(_options: argparse.Namespace) -> int:
    """Static: what has no test at all. What a run reached is in its report."""
    agreed, tests = contract(), _tests()
    cited = {clause for test in tests for clause in test["clauses"]}
    print(f"{'chapter':<12} {'clauses':>8} {'tested':>8} {'reasoned':>9} {'missing':>8} {'tests':>7} {'rows':>6}")
    gaps: list[str] = []
    for chapter in CHAPTERS:
        own = [c for c in agreed.clauses.values() if c.chapter == chapter]
        missing = [c.id for c in own if c.id not in cited and c.id not in agreed.untested]
        functions = [f for f in agreed.functions.values() if f.chapter == chapter]
        rows = sum(len(f.tags.errors) for f in functions if f.tags)
        count = sum(Path(t["file"]).stem == f"test_{chapter}" for t in tests)
        tested = sum(c.id in cited for c in own)
        reasoned = sum(c.id in agreed.untested for c in own)
        print(f"{chapter:<12} {len(own):>8} {tested:>8} {reasoned:>9} {len(missing):>8} {count:>7} {rows:>6}")
        gaps += missing
    if gaps:
        print(f"\nwithout test and without reason: {', '.join(gaps)}")
    else:
        print(f"\neach of {len(agreed.clauses)} clauses has a test, or a reason why no test can decide it")
    return 0


def _doctor(options: argparse.Namespace) -> int:
    agreed = contract()
    tagged = sum(f.tags is not None for f in agreed.functions.values())
    print(f"suite      {VERSION}, spec {spec_hash(agreed)}, Python {platform.python_version()} on {platform.machine()}")
    print(f"contract   {len(agreed.functions)} functions ({tagged} with tags), {len(agreed.clauses)} clauses")
    print(f"header     {header_path()}")
    if options.lib:
        library = examine(options.lib)
        print(f"library    {library.path}: {library.refusal or f'{library.version}, ABI {library.abi_version}'}")
        if library.refusal:
            return UNTESTABLE
        print(f"features   {' '.join(library.features) or 'none'}")
        print("\n           ".join(library.device_lines()).replace("devices ", "devices    ", 1))
    tests, problem = collect()  # last: it takes longest
    print(f"tests      {problem or len(tests)}")
    return INTERNAL if problem else 0


__all__ = ["Run", "main"]

if __name__ == "__main__":
    sys.exit(main())
