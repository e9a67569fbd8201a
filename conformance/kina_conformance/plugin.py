"""The pytest side of the suite: options, collection rules, the `rt` fixture, one cleaned-up state per example."""

from __future__ import annotations

import functools
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import hypothesis
import pytest
from hypothesis import core
from hypothesis.internal.conjecture import engine

from .clauses import complaints
from .contract import contract
from .executor import Executor, Violation

EXAMPLES = {"quick": 8, "standard": 60}
SHRINKING_SECONDS = 5
DEVICE_LOOKS = 3  # calls of a test that are made once more on a simulated device, where there is one
FRESH_LOOKS = 3  # calls of a test whose new outs are made again on poisoned blocks
_session: dict[str, Executor] = {}


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("kina")
    group.addoption("--lib", default=os.environ.get("KINA_LIBRARY"), help="the library under test (or KINA_LIBRARY)")
    group.addoption("--tier", choices=sorted(EXAMPLES), default="quick", help="how many examples")
    group.addoption("--kina-seed", type=int, default=0, help="seed of the examples")
    group.addoption("--journal", default=None, help="file of the mapped journal (set by the runner)")


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "clause(id, hash): the clause that the test decides")
    config.addinivalue_line("markers", "case(rows): the known faults of DLPack elsewhere that the test looks for")
    config.addinivalue_line("markers", "memory_case(rows): the known faults of pools elsewhere that the test looks for")
    config.addinivalue_line(
        "markers", "needs(*features, devices=0): the test concerns features, or simulated devices, that may be lacking"
    )
    config.addinivalue_line("markers", "lacks(feature): the test asks a build that does not offer the feature")
    for tier, count in EXAMPLES.items():
        hypothesis.settings.register_profile(
            f"kina-{tier}",
            max_examples=count,
            stateful_step_count=30,
            deadline=None,
            database=None,
            print_blob=False,
            derandomize=False,
            report_multiple_bugs=False,
            phases=[hypothesis.Phase.explicit, hypothesis.Phase.generate, hypothesis.Phase.shrink],
            suppress_health_check=list(hypothesis.HealthCheck),
        )
    hypothesis.settings.load_profile(f"kina-{config.getoption('--tier')}")
    engine.MAX_SHRINKING_SECONDS = SHRINKING_SECONDS
    core.global_force_seed = config.getoption("--kina-seed")


def session() -> Executor:
    """The executor of this process, for code that no fixture reaches (state machines)."""
    return _session["rt"]


def _opened(config: pytest.Config) -> Executor:
    if "rt" not in _session:
        library = config.getoption("--lib")
        if not library:
            raise pytest.UsageError("no library under test: give --lib PATH or set KINA_LIBRARY")
        journal = config.getoption("--journal")
        _session["rt"] = Executor(library, Path(journal) if journal else None)
    return _session["rt"]


def marks_of(item: pytest.Item) -> list[tuple[str, str]]:
    """(clause id, hash) of a test, nearest first."""
    return [(str(m.args[0]), str(m.args[1]) if len(m.args) > 1 else "") for m in item.iter_markers("clause")]


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    wrong = [f"{item.nodeid} {text}" for item in items for text in complaints(marks_of(item), contract())]
    if wrong:
        raise pytest.UsageError("\n".join(wrong))
    if not config.getoption("collectonly"):
        _opened(config)


def missing_features(item: pytest.Item) -> list[str]:
    """What stands between the test and this library: features that it needs, or those whose lack it needs."""
    offers = session().offers
    needs = [str(feature) for mark in item.iter_markers("needs") for feature in mark.args]
    devices = max((int(mark.kwargs.get("devices", 0)) for mark in item.iter_markers("needs")), default=0)
    lacks = [str(mark.args[0]) for mark in item.iter_markers("lacks")]
    missing = [f"needs {f}" for f in needs if not offers(f)] + [
        f"needs a build without {f}" for f in lacks if offers(f)
    ]
    return missing + ([f"needs {devices} simulated devices"] if devices > session().device_count(12) else [])


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_protocol(item: pytest.Item, nextitem: pytest.Item | None) -> bool | None:
    """Leaves out the tests of features that the library does not offer; `test_absence.py` asks for their absence."""
    if not missing_features(item):
        return None
    item.session._setupstate.teardown_exact(nextitem)  # as a test that runs does for what follows
    return True


@pytest.fixture
def rt(pytestconfig: pytest.Config) -> Executor:
    """The library under test."""
    return _opened(pytestconfig)


@pytest.hookimpl(wrapper=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> Iterator[None]:
    """Each test, and inside a Hypothesis test each example, starts clean and must leave nothing behind."""
    executor = _session["rt"]
    test = pyfuncitem.obj
    handle = getattr(test, "hypothesis", None)
    if handle is not None and not getattr(handle.inner_test, "kina_wrapped", False):
        handle.inner_test = _per_example(handle.inner_test, executor)
    with executor.example():
        return (yield)


def _per_example(inner: Callable[..., Any], executor: Executor) -> Callable[..., Any]:
    @functools.wraps(inner)
    def example(*arguments: Any, **named: Any) -> Any:
        with executor.example():
            return inner(*arguments, **named)

    example.kina_wrapped = True  # type: ignore[attr-defined]
    return example


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Iterator[None]:
    """A status outside the tags fails the test in which it was seen, whatever the test asked."""
    executor = _session["rt"]
    executor.journal.test(item.nodeid)
    executor.witness.undeclared.clear()
    executor.fresh_looks = FRESH_LOOKS
    executor.device_looks = DEVICE_LOOKS if executor.offers("sim") else 0
    result = yield
    if executor.witness.undeclared:
        rows = ", ".join(f"{name} answered {status}" for name, status in sorted(set(executor.witness.undeclared)))
        raise Violation(f"not in the errors tag: {rows}", "KINA-STATUS-1")
    return result
