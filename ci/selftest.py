"""The suite judged: wrong libraries fail on many clauses, hostile ones are one result each, strangers are not testable.

Usage: selftest.py LIBRARY; LIBRARY is the real one, behind which the hostile ones hide.
"""

import json
import os
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
WORK = ROOT / "build/selftest"
FLOOR = 100  # clauses on which a library that always answers the same must fail
DEATHS = {"crash": ("crash", "SIGSEGV"), "hang": ("hang", ""), "exit": ("exit", "")}


def built(name: str, forward: str = "") -> Path:
    command = [sys.executable, "conformance/runtimes/build.py", str(WORK / ("forward" if forward else "plain")), name]
    subprocess.run(
        command + (["--forward", forward] if forward else []), cwd=ROOT, check=True, stdout=subprocess.DEVNULL
    )
    return WORK / ("forward" if forward else "plain") / f"lib{name}.so"


def judged(library: Path | str, name: str, *arguments: str) -> tuple[int, str, dict[str, Any]]:
    """Exit code, output and report of one run."""
    report = WORK / f"report-{name}"
    command = [sys.executable, "-m", "kina_conformance", "run", "--lib", str(library), "--format", "plain"]
    command += ["--tier", "quick", "--report", str(report), *arguments]
    environment = os.environ | {"PYTHONPATH": str(ROOT / "conformance")}
    done = subprocess.run(command, cwd=WORK, env=environment, capture_output=True, text=True, check=False)
    file = report / "report.json"
    return done.returncode, done.stdout + done.stderr, json.loads(file.read_text()) if file.exists() else {}


class Checks:
    passed = failed = 0

    def expect(self, what: str, holds: bool, told: str = "") -> None:
        self.passed += holds
        self.failed += not holds
        print(f"  {'ok   ' if holds else 'FAIL '} {what}")
        if not holds and told:
            print("\n".join(f"        {line}" for line in told.splitlines()[-20:]))


def constant_answers(checks: Checks) -> None:
    for name in ("success", "unsupported", "invalid_argument"):
        code, told, report = judged(built(name), name)
        failed = sum(clause["state"] == "fail" for clause in report.get("clauses", []))
        checks.expect(
            f"a library that always answers {name.upper()} fails {failed} clauses, at least {FLOOR}",
            code == 1 and failed >= FLOOR,
            told,
        )


def deaths(checks: Checks, real: str) -> None:
    for name, (outcome, word) in DEATHS.items():
        code, told, report = judged(built(name, real), name, "--select", "chapter=reduction", "--timeout", "2000")
        outcomes = Counter(test["outcome"] for test in report.get("tests", []))
        checks.expect(
            f"a library with a {name} in runtime_gpu_reduce: {dict(outcomes)}, and the run goes on",
            code == 1 and outcomes[outcome] > 0 and outcomes["passed"] > 0 and word in told,
            told,
        )


def strangers(checks: Checks) -> None:
    code, told, _ = judged("libm.so.6", "libm")
    checks.expect("libm is not testable, and the missing functions are named", code == 4 and "runtime_" in told, told)
    code, told, _ = judged(WORK / "no-such-file.so", "nothing")
    checks.expect("a file that does not exist is not testable", code == 4 and "no-such-file" in told, told)
    for name in ("crash_at_load", "exit_at_load"):
        code, told, _ = judged(built(name), name)
        checks.expect(f"a library with {name} is not testable", code == 4, told)


def wheel(checks: Checks, real: str) -> None:
    """The wheel alone, away from the sources, sees header, contract and suite."""
    pip = [sys.executable, "-m", "pip", "--quiet", "--disable-pip-version-check"]
    target = WORK / "site"
    subprocess.run(["rm", "-rf", str(target), str(WORK / "wheels")], check=True)
    make = [*pip, "wheel", "--no-deps", "--no-build-isolation", "-w", str(WORK / "wheels"), str(ROOT / "conformance")]
    done = subprocess.run(make, capture_output=True, text=True, check=False)
    files = sorted((WORK / "wheels").glob("*.whl"))
    checks.expect("the suite is one wheel", done.returncode == 0 and len(files) == 1, done.stdout + done.stderr)
    if len(files) != 1:
        return
    subprocess.run([*pip, "install", "--no-deps", "--target", str(target), str(files[0])], check=True)
    command = [sys.executable, "-m", "kina_conformance", "run", "--lib", real, "--tier", "quick"]
    command += ["--select", "chapter=version", "--format", "plain"]
    environment = os.environ | {"PYTHONPATH": str(target)}
    done = subprocess.run(command, cwd="/", env=environment, capture_output=True, text=True, check=False)
    checks.expect("and judges a library away from the sources", done.returncode == 5, done.stdout + done.stderr)


def main(real: str) -> int:
    WORK.mkdir(parents=True, exist_ok=True)
    checks = Checks()
    constant_answers(checks)
    deaths(checks, real)
    strangers(checks)
    wheel(checks, real)
    print(f"{checks.passed} passed, {checks.failed} failed, 0 skipped")
    return bool(checks.failed)


sys.exit(main(str(Path(sys.argv[1]).resolve())))
