"""The runner judges what is wrong on purpose: each verdict, each way to die, each exit code has been seen."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from xml.etree import ElementTree

import pytest

from kina_conformance import cli, runner
from kina_conformance.advice import advice
from kina_conformance.configuration import complaint
from kina_conformance.contract import contract
from runtimes import build

ROOT = Path(__file__).resolve().parents[1]


@dataclass
class Judged:
    """What one run of the command gave."""

    code: int
    text: str
    report: dict[str, Any]
    folder: Path

    @property
    def verdict(self) -> str:
        return self.text.strip().splitlines()[-1]

    def outcomes(self) -> dict[str, int]:
        return dict(self.report["summary"]["tests"])

    def messages(self, outcome: str) -> list[str]:
        return [test["message"] for test in self.report["tests"] if test["outcome"] == outcome]


def command(*arguments: str) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    return subprocess.run(
        [sys.executable, "-m", "kina_conformance", *arguments],
        env=environment,
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )


def judge(folder: Path, library: Path | str, *arguments: str) -> Judged:
    done = command("--lib", str(library), "--report", str(folder), "--tier", "quick", *arguments)
    report = folder / "report.json"
    text = done.stdout + done.stderr
    return Judged(done.returncode, text, json.loads(report.read_text()) if report.exists() else {}, folder)


@pytest.fixture(scope="module")
def wrong(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of the runtimes that do not survive being loaded."""
    folder = tmp_path_factory.mktemp("wrong")
    for name in ("crash_at_load", "exit_at_load"):
        build.build(folder, name)
    return folder


@pytest.fixture(scope="module")
def hostile(tmp_path_factory: pytest.TempPathFactory, library: Path) -> Path:
    """The folder of the runtimes that are right but for one function, which does what no library may."""
    folder = tmp_path_factory.mktemp("hostile")
    for name in ("crash", "hang", "exit", "print", "fork", "unwritten", "overflow", "sum_for_mean"):
        build.build(folder, name, str(library))
    return folder


@pytest.mark.parametrize(
    ("name", "outcome", "words"),
    [
        ("crash", "crash", "CRASH SIGSEGV in runtime_gpu_reduce("),
        ("hang", "hang", "HANG in runtime_gpu_reduce("),
        ("exit", "exit", "EXIT 0 in runtime_gpu_reduce("),
        ("print", "failed", "something was written to stdout or stderr: 'working"),
        ("fork", "failed", "a process was left behind"),
    ],
)
def test_a_hostile_function_is_reported_and_the_run_goes_on(
    hostile: Path, tmp_path: Path, name: str, outcome: str, words: str
) -> None:
    judged = judge(
        *(tmp_path, hostile / f"lib{name}.so", "--timeout", "2000"),
        *("--select", "test=*axis*", "--select", "chapter=device", "--jobs", "2"),
    )

    assert judged.code == 1, judged.text
    assert any(message.startswith(words) for message in judged.messages(outcome)), judged.messages(outcome)
    assert "Extension modules" not in judged.text and "Python error" not in judged.text, "a crash is not Python's"
    assert judged.outcomes()["passed"] > 20, "the tests that do not call it pass"
    assert "lost" not in judged.outcomes()
    device = [test for test in judged.report["tests"] if test["chapter"] == "device"]
    assert device and all(test["outcome"] in {"passed", "absent"} for test in device)


@pytest.mark.parametrize(
    ("name", "select", "words"),
    [
        ("unwritten", "test=*failed_input*unary*", "runtime_gpu_unary: elements of a fresh out were not written"),
        ("overflow", "test=*fill*", "wrote behind the memory of tensor"),
    ],
)
def test_bytes_that_are_not_written_or_lie_beside_are_seen(
    hostile: Path, tmp_path: Path, name: str, select: str, words: str
) -> None:
    judged = judge(tmp_path, hostile / f"lib{name}.so", "--select", select)

    assert judged.code == 1, judged.text
    assert any(words in message for message in judged.messages("failed")), judged.messages("failed")


def test_a_wrong_value_is_told_in_words_and_with_the_last_call(hostile: Path, tmp_path: Path) -> None:
    judged = judge(
        *(tmp_path, hostile / "libsum_for_mean.so", "--select", "clause=KINA-REDUCTION-10"),
        *("--select", "clause=KINA-REDUCTION-11"),
    )

    told = judged.messages("failed")
    assert len(told) > 1 and all("; the last call was runtime_gpu_reduce(out=" in message for message in told), told
    assert not [word for word in ("np.", "None, ", "Accuracy(", "Use -v") if any(word in line for line in told)], told
    assert any("allowed error (33 + log2(n)) * 2**-24 * sum_abs / n + 0.5 * ulp; " in message for message in told), told
    assert f"where most of the failing tests stopped: runtime_gpu_reduce ({len(told)})" in judged.text


def test_a_callback_is_shown_as_one_and_not_by_its_address(tmp_path: Path) -> None:
    judged = judge(
        tmp_path, compiled(tmp_path, command("skeleton").stdout), "--select", "test=*resource_custom-vtable*"
    )

    told = "\n".join(judged.messages("failed"))
    assert "vtable={allocate=a callback, deallocate=a callback}" in told and "<cdata" not in told, told


def test_a_function_that_only_another_chapter_tests_is_judged_by_that_one() -> None:
    def advised(*clauses: str) -> str:
        failure = "runtime_overlap(out=&out) answered INVALID_ARGUMENT, expected INVALID_HANDLE"
        outcome = runner.Outcome("test_cells.py::test", "cells", list(clauses), "failed", failure)
        run: Any = SimpleNamespace(outcomes=[outcome])
        verdict: Any = SimpleNamespace(code=1, failed_must=list(clauses))
        return advice(contract(), SimpleNamespace(), run, verdict)[-1]  # type: ignore[arg-type]

    assert advised("KINA-TENSOR-4").endswith("--select chapter=tensor judges what failed there")
    assert advised("KINA-TENSOR-4", "KINA-STORAGE-1").endswith("--select chapter=storage judges its chapter")


@pytest.mark.parametrize(
    ("name", "words"), [("crash_at_load", "CRASH SIGSEGV while"), ("exit_at_load", "EXIT 0 while")]
)
def test_a_library_that_does_not_survive_loading_is_not_testable(
    wrong: Path, tmp_path: Path, name: str, words: str
) -> None:
    judged = judge(tmp_path, wrong / f"lib{name}.so")

    assert judged.code == 4 and words in judged.verdict


def test_a_library_that_is_no_runtime_is_not_testable(tmp_path: Path) -> None:
    judged = judge(tmp_path, "libm.so.6")

    assert judged.code == 4
    assert judged.verdict.startswith("NOT TESTABLE: 88 of 88 functions are missing: runtime_abi_version, runtime_")


def compiled(folder: Path, source: str) -> Path:
    """A library from C, with the header of the contract."""
    (folder / "mine.c").write_text(source)
    includes = [f"-I{ROOT.parent / 'include'}", f"-I{ROOT.parent / '.venv/include'}"]
    flags = ["-std=c99", "-Wall", "-Wpedantic", "-Werror", "-shared", "-fPIC"]
    subprocess.run(["gcc", *flags, *includes, "mine.c", "-o", "libmine.so"], cwd=folder, check=True)
    return folder / "libmine.so"


def test_the_skeleton_is_testable_and_its_report_says_where_to_begin(tmp_path: Path) -> None:
    judged = judge(tmp_path, compiled(tmp_path, command("skeleton").stdout), "--select", "chapter=movement")

    assert judged.code == 1 and judged.outcomes()["failed"] > 50, judged.text
    assert "FAIL" in judged.text and judged.text.count("\nFAIL") <= 10 * len(judged.report["chapter_seconds"])
    assert "failures behind the first 10 of a chapter; the report lists all" in judged.text
    stopped, explained = judged.report["verdict"]["next"]
    assert stopped.startswith("where most of the failing tests stopped: runtime_copy ("), stopped
    assert explained.startswith("`kina-conformance explain runtime_copy` shows")
    assert f"next       {stopped}\n           {explained}\n" in judged.text
    assert stopped in (tmp_path / "report.html").read_text(encoding="utf-8")


def test_a_library_that_crashes_in_every_call_does_not_take_for_ever(tmp_path: Path) -> None:
    source = command("skeleton").stdout.replace("return KINA_ERROR_UNSUPPORTED;", "return *(volatile KinaStatus *)8;")
    arguments = ["--lib", str(compiled(tmp_path, source)), "--jobs", "1", "--select", "test=*a_value_of_another_size*"]
    program = f"from kina_conformance import cli, runner; runner.DEATHS_IN_A_ROW = 3; exit(cli.main({arguments!r}))"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)

    assert done.returncode == 1, done.stdout + done.stderr
    assert "no answer: CRASH SIGSEGV while the library was asked for its devices" in done.stdout
    assert done.stdout.count("\nCRASH") == 3, done.stdout
    assert "not tried: 3 tests in a row ended in runtime_device_count" in done.stdout
    assert "where most of the failing tests stopped: runtime_device_count (3)" in done.stdout


def test_a_library_of_three_functions_is_told_how_to_get_the_others(tmp_path: Path) -> None:
    source = command("skeleton").stdout.replace("KinaStatus runtime_", "static inline KinaStatus mine_")
    judged = judge(tmp_path, compiled(tmp_path, source))

    assert judged.code == 4 and judged.verdict.startswith("NOT TESTABLE: 82 of 88 functions are missing")
    assert "`kina-conformance skeleton > mine.c` writes a source with all of them" in judged.text
    assert judged.report["verdict"]["exit_code"] == 4 and judged.report["library"]["missing"]
    error = ElementTree.parse(tmp_path / "junit.xml").find("testsuite[@name='verdict']/testcase/error")
    assert error is not None and error.get("message") == judged.verdict, "who reads no exit code sees it too"


@pytest.mark.parametrize("content", [b"", b"#!/bin/sh\n", None])
def test_a_file_that_is_no_library_is_not_testable(tmp_path: Path, content: bytes | None) -> None:
    path = tmp_path / "file.so"
    if content is not None:
        path.write_bytes(content)

    judged = judge(tmp_path, path)

    words = "is not a file" if content is None else "no library that can be loaded"
    assert judged.code == 4 and judged.verdict.startswith("NOT TESTABLE:")
    assert words in judged.verdict and "ctypes" not in judged.verdict


def test_a_name_without_a_slash_is_shown_alone_as_it_was_opened(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "here.so").write_bytes(b"no library")

    assert cli.main(["--lib", "here.so"]) == 4 and f"CDLL('{tmp_path}/here.so')" in capsys.readouterr().out
    assert cli.main(["--lib", "nowhere.so"]) == 4
    told = capsys.readouterr().out
    assert "there is no file nowhere.so here, and the loader finds none of that name" in told and "CDLL" not in told


def test_a_clean_selection_is_no_claim(library: Path, tmp_path: Path) -> None:
    judged = judge(tmp_path, library, "--select", "clause=KINA-VERSION-*")

    assert judged.code == 5, judged.text
    assert judged.verdict.startswith("CLEAN, BUT NO CLAIM: tier quick; only clause=KINA-VERSION-*")
    assert "%" not in judged.text


def test_the_resource_that_is_asked_for_is_configured(library: Path, tmp_path: Path) -> None:
    judged = judge(tmp_path, library, "--resource", "cpu=limit(host,0)", "--select", "clause=KINA-TENSOR-4")

    assert judged.code == 1 and "KINA-TENSOR-4" in judged.verdict, judged.text


@pytest.mark.parametrize(
    "text", ["cpu=hst", "gpu=host", "cpu", "cpu=pool(", "cpu=host;cpu=host", "cpu=pool(host))", "cpu=limit(host,1 0)"]
)
def test_a_resource_outside_the_grammar_is_a_usage_error(library: Path, text: str) -> None:
    done = command("--lib", str(library), "--resource", text)

    assert done.returncode == 64 and done.stdout == ""
    assert done.stderr.startswith(f"kina-conformance: --resource {text}: ")


@pytest.mark.parametrize(
    "text",
    [
        "",
        ";;",
        "cuda=cuda",
        "\tcpu=limit( pool ( host ) , 1000000 )\t; ;",
        "cpu=limit(pool(host),18446744073709551615)",
        "cuda=logging(pool(cuda_async));cpu=pool(host);sim=pool(sim)",
    ],
)
def test_what_the_grammar_allows_is_no_usage_error(text: str) -> None:
    assert complaint(text) == ""


def test_rows_on_stderr_are_no_fault_of_the_library(library: Path) -> None:
    done = command("--lib", str(library), "--resource", "cpu=logging(host)", "--select", "clause=KINA-MATMUL-4")

    assert (done.returncode, done.stdout) == (64, "")
    assert "writes to stderr" in done.stderr and "silence" in done.stderr


def test_a_report_that_cannot_be_written_is_a_usage_error_before_the_run(library: Path, tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    for folder in (tmp_path / "file", tmp_path / "file" / "below"):
        done = command("--lib", str(library), "--report", str(folder), "--select", "clause=KINA-MATMUL-4")

        assert (done.returncode, done.stdout) == (64, "")
        assert done.stderr.startswith(f"kina-conformance: --report {folder}: ")


def test_a_verdict_is_not_lost_with_its_report(
    library: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def full(*_arguments: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("kina_conformance.report.write", full)
    code = cli.main(["--lib", str(library), "--select", "clause=KINA-VERSION-1", "--report", str(tmp_path)])
    told = capsys.readouterr()

    assert code == 70 and told.out.strip().endswith("CLEAN, BUT NO CLAIM: only clause=KINA-VERSION-1"), told.out
    assert told.err == f"kina-conformance: the report could not be written to {tmp_path}: No space left on device\n"


def test_a_profile_that_the_library_lacks_is_not_met(library: Path, tmp_path: Path) -> None:
    judged = judge(tmp_path, library, "--profile", "full", "--select", "chapter=version")

    assert judged.code == 1 and "profile full demands" in judged.verdict and "cuda" in judged.verdict


def test_the_reports_say_the_same_in_three_forms(library: Path, tmp_path: Path) -> None:
    judged = judge(tmp_path, library, "--select", "chapter=version")

    cases = ElementTree.parse(tmp_path / "junit.xml").getroot().findall("testsuite/testcase")
    page = (tmp_path / "report.html").read_text(encoding="utf-8")
    assert len(cases) == len(judged.report["tests"])
    skipped = sum(case.find("skipped") is not None for case in cases)
    assert skipped == judged.outcomes().get("absent", 0) > 0, "what was not tried has not passed"
    assert page.split("<body>")[1].lstrip().startswith("<svg"), "the clause matrix is the first thing on the page"
    assert page.count("<rect") >= len(judged.report["clauses"])
    assert "http://" not in page and "https://" not in page, "nothing comes from outside"


@pytest.mark.parametrize(
    "arguments",
    [
        ("run",),
        ("--lib", "x", "--tier", "enormous"),
        ("--lib", __file__, "--timeout", "0"),
        ("--lib", __file__, "--jobs", "-1"),
        (),
        ("list", "--select", "colour=red"),
        ("list", "--select", "chapter=nothing"),
        ("list", "--select", "chapter=version", "--select", "chapter!=version"),
        ("explain", "KINA-NOTHING-1"),
        ("frobnicate",),
    ],
)
def test_a_wrong_command_line_is_a_usage_error(arguments: tuple[str, ...]) -> None:
    assert command(*arguments).returncode == 64


@pytest.mark.parametrize(
    ("arguments", "typed"),
    [
        (("some.so",), "some.so"),
        (("./my runtime/libmine.so.1", "--tier", "quick"), "'./my runtime/libmine.so.1'"),
        (("lib", "libmine.dylib"), "libmine.dylib"),
        (("lib", "x"), "./libyours.so"),
    ],
)
def test_a_library_where_the_command_should_be_is_told_what_to_type(arguments: tuple[str, ...], typed: str) -> None:
    done = command(*arguments)

    assert done.returncode == 64 and f"type: kina-conformance --lib {typed}\n" in done.stderr, done.stderr


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("list", "--select", "chapter=versoin"), "did you mean chapter=version?"),
        (("list", "--select", "chapter=nothing"), "chapters are absence, cells, device, "),
        (("list", "--select", "clause=KINA-MATMUL-999"), "kina-conformance list names all tests"),
        (("explain", "MATMUL-4"), "did you mean KINA-MATMUL-4?"),
        (("explain", "gpu_matmul"), "did you mean runtime_gpu_matmul?"),
        (("explain", "nothing"), "a clause is named like KINA-MATMUL-4, a function like runtime_gpu_matmul"),
    ],
)
def test_a_name_that_is_nobodys_is_answered_with_what_there_is(arguments: tuple[str, ...], words: str) -> None:
    done = command(*arguments)

    assert done.returncode == 64 and words in done.stderr, done.stderr


def test_help_has_a_line_for_each_exit_code() -> None:
    told = command("--help").stdout

    for line in ("  0   conformant", "  1   a MUST failed", "  4   not testable", "  5   no claim", "  70  "):
        assert f"\n{line}" in told, told


def test_a_fault_of_the_suite_is_no_verdict(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(cli, "contract", lambda: 1 // 0)

    assert cli.main(["explain", "KINA-STATUS-23"]) == 70
    assert "ZeroDivisionError" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("list", "--select", "clause=KINA-VERSION-1"), "KINA-VERSION-1 "),
        (("explain", "KINA-STATUS-23"), "runtime_gpu_reduce answers INVALID_ARGUMENT"),
        (("explain", "runtime_gpu_reduce"), "owner    out produce, in borrow"),
        (("explain", "kina-status-23"), "runtime_gpu_reduce answers INVALID_ARGUMENT"),
        (("explain", "RUNTIME_GPU_REDUCE"), "owner    out produce, in borrow"),
        (
            ("skeleton",),
            "KinaStatus runtime_alloc(KinaTensor *out, const int64_t *shape, int32_t ndim, KinaDtype dtype",
        ),
        (("coverage",), "clauses has a test, or a reason"),
        (("doctor",), "88 functions (88 with tags)"),
        (("doctor",), f"header     {ROOT.parent / 'include'}/kina_runtime.h\n"),
    ],
)
def test_the_other_commands_answer(arguments: tuple[str, ...], words: str) -> None:
    done = command(*arguments)

    assert done.returncode == 0 and words in done.stdout, done.stdout + done.stderr


def test_a_chapter_is_all_tests_that_decide_its_clauses() -> None:
    whole, part = (command("list", "--select", f"chapter={word}").stdout for word in ("resource", "resource_limit"))

    assert all(f"test_{file}.py" in whole for file in ("resource", "resource_limit", "resource_pool", "process"))
    assert "test_resource_limit.py" in part and "test_resource_pool.py" not in part


def test_what_is_left_out_is_left_out_of_all_that_is_chosen() -> None:
    def listed(*patterns: str) -> list[str]:
        options = [option for pattern in patterns for option in ("--select", pattern)]
        return command("list", *options).stdout.splitlines()

    limits, fewer = listed("chapter=resource_limit"), listed("test!=*bound*", "chapter=resource_limit", "test!=*room*")

    assert fewer == [line for line in limits if "bound" not in line and "room" not in line] != limits
    assert set(fewer) < set(listed("test!=*bound*", "test!=*room*")) < set(listed())


def test_the_doctor_looks_at_the_library_before_the_suite() -> None:
    done = command("doctor", "--lib", "libm.so.6")

    assert done.returncode == 4, done.stdout + done.stderr
    assert "library    libm.so.6" in done.stdout and "tests " not in done.stdout


@pytest.mark.parametrize(
    ("devices", "words"),
    [
        ("", "no kDLExtDev: there is no device of type 12 (sim): KINA_SIM_DEVICES=2 in the environment adds two"),
        ("two", "no kDLExtDev: there is no device of type 12 (sim): KINA_SIM_DEVICES is bad at character 1: a number"),
        ("2", "devices    kDLCPU 1, kDLExtDev 2\n"),
    ],
)
def test_the_doctor_and_the_run_say_why_a_device_is_absent(
    library: Path, monkeypatch: pytest.MonkeyPatch, devices: str, words: str
) -> None:
    monkeypatch.setenv("KINA_SIM_DEVICES", devices)
    doctor = command("doctor", "--lib", str(library))
    run = command("--lib", str(library), "--select", "clause=KINA-VERSION-1")

    assert words in doctor.stdout, doctor.stdout
    assert " ".join(words.split()) in " ".join(run.stdout.split()), run.stdout


@pytest.mark.parametrize(
    ("mark", "words"),
    [
        ("", "names no clause"),
        ('@clause("KINA-NOTHING-1", "00000000")', "which spec/ does not have"),
        ('@clause("KINA-VERSION-1", "00000000")', "is stale"),
        ('@clause("KINA-VERSION-1")', "has no hash"),
    ],
)
def test_collection_refuses_a_test_that_is_not_tied_to_the_contract(tmp_path: Path, mark: str, words: str) -> None:
    text = f"from kina_conformance import clause\n\n{mark}\ndef test_something(rt):\n    pass\n"
    (tmp_path / "test_wrong.py").write_text(text)

    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "kina_conformance.plugin", "--collect-only", str(tmp_path)],
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        check=False,
    )

    assert done.returncode == 4 and words in done.stderr + done.stdout, done.stdout + done.stderr


def test_a_machine_that_stood_still_is_no_hang(monkeypatch: pytest.MonkeyPatch) -> None:
    now = 0.0
    monkeypatch.setattr("kina_conformance.runner.time.monotonic", lambda: now)
    worker = object.__new__(runner.Worker)
    worker.journal = SimpleNamespace(state=lambda: (1, 0, True, 1.0, "", ""))  # type: ignore[assignment]
    worker.current, worker.watched_call, worker.watched_seconds, worker.looked = None, None, 0.0, 0.0
    assert not worker.overdue(10.0)
    for _ in range(2):  # it stands still and goes on, again
        now += 60.0
        assert not worker.overdue(10.0)
    for _ in range(10):
        now += 0.9
        last = worker.overdue(10.0)
    assert last
