"""KINA_RESOURCE and the defaults that it sets, each in a process of its own."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from kina_conformance import Executor, clause
from kina_conformance.memory_cases import memory_case
from kina_conformance.resources import child

# Small enough to start in a blink: asks for the current resource twice and allocates a tensor.
PROBE = """
import ctypes, sys
library = ctypes.CDLL(sys.argv[1])
def text(address):
    return ctypes.string_at(address).decode("utf-8", "replace") if address else ""
for _ in range(2):
    resource, info, error = ctypes.c_void_p(), (ctypes.c_uint64 * 21)(168), (ctypes.c_uint64 * 12)(96)
    status = library.runtime_resource_current(ctypes.byref(resource), 1, 0)
    library.runtime_resource_info(info, resource) if status == 0 else library.runtime_last_error(error)
    print(status, text(info[3]), text(error[8]), text(error[11]), sep="|")
tensor, shape = (ctypes.c_uint64 * 12)(), (ctypes.c_int64 * 1)(3)
print(library.runtime_alloc(tensor, shape, 1, ctypes.c_uint32(int(sys.argv[2])), 1, 0, None))
"""


class Answer:
    """What a process with that `KINA_RESOURCE` says of its default."""

    def __init__(self, rt: Executor, text: str | None) -> None:
        environment = {name: value for name, value in os.environ.items() if name != "KINA_RESOURCE"}
        if text is not None:
            environment["KINA_RESOURCE"] = text
        arguments = [os.path.abspath(rt.lib.path), str(rt.constant("KINA_DTYPE_F32"))]
        done = subprocess.run(
            [sys.executable, "-S", "-E", "-c", PROBE, *arguments],
            env=environment,
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
        assert done.returncode == 0 and done.stderr == "", done
        first, second, alloc = done.stdout.splitlines()
        assert first == second
        status, self.name, self.clause, self.message = first.split("|")
        self.status, self.alloc = rt.lib.status_name(int(status)), rt.lib.status_name(int(alloc))


@clause("KINA-RESOURCE-67", "4f6dbc45")
@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("cpu=host", "host"),
        ("cpu=pool(host)", "pool(host)"),
        ("cpu=limit(host,1000000)", "limit(host)"),
        ("\tcpu=limit( pool ( host ) , 1000000 )\t; ;", "limit(pool(host))"),
        ("cpu=limit(pool(host),18446744073709551615)", "limit(pool(host))"),
        ("cpu=pool(pool(limit(host,99000000)))", "pool(pool(limit(host)))"),
        (" cpu = pool ( host ) ; ", "pool(host)"),
        ("cpu=pool(host);cuda=pool(cuda_async)", "pool(host)"),
        ("cuda=logging(pool(cuda));cpu=pool(host);sim=pool(sim)", "pool(host)"),
        (";;cpu=pool(host);", "pool(host)"),
    ],
)
def test_the_environment_sets_the_default(rt: Executor, text: str, name: str) -> None:
    answer = Answer(rt, text)

    assert (answer.status, answer.alloc, answer.name) == ("SUCCESS", "SUCCESS", name)


@clause("KINA-RESOURCE-67", "4f6dbc45")
@pytest.mark.parametrize("text", ["", " ", ";", "cuda=cuda"])
def test_an_empty_string_changes_nothing(rt: Executor, text: str) -> None:
    assert Answer(rt, text).name == Answer(rt, None).name


@clause("KINA-RESOURCE-67", "4f6dbc45")
def test_logging_in_the_string_writes_text_to_stderr(rt: Executor) -> None:
    code = """
tensor = rt.tensor("f32", (25,), owned=True)
rt.call("runtime_free", tensor).succeeds()
"""
    done = child(rt, code, KINA_RESOURCE="cpu=logging(pool(host))")

    rows = [dict(pair.split("=", 1) for pair in line.split(" ")) for line in done.stderr.splitlines()]
    assert done.returncode == 0
    assert [(row["event"], row["bytes"]) for row in rows] == [("allocate", "100"), ("deallocate", "100")]
    assert {row["resource_name"] for row in rows} == {"logging(pool(host))"}


@clause("KINA-RESOURCE-67", "4f6dbc45")
def test_a_limit_in_the_string_holds(rt: Executor) -> None:
    code = """
for size in (1000, 1001):
    print(rt.call("runtime_memory_allocate", current(rt), size, 0, None).status())
"""
    assert child(rt, code, KINA_RESOURCE="cpu=limit(host,1000)").stdout.split() == ["SUCCESS", "OUT_OF_MEMORY"]


@clause("KINA-RESOURCE-67", "4f6dbc45")
@clause("KINA-RESOURCE-49", "ed45cc7d")
def test_a_limit_of_0_in_the_string_refuses_every_byte(rt: Executor) -> None:
    code = """
for size in (0, 1):
    print(rt.call("runtime_memory_allocate", current(rt), size, 0, None).status())
"""
    assert child(rt, code, KINA_RESOURCE="cpu=limit(host,0)").stdout.split() == ["SUCCESS", "OUT_OF_MEMORY"]


@memory_case("P18")
@clause("KINA-RESOURCE-14", "cf445a91")
def test_null_restores_what_the_environment_says(rt: Executor) -> None:
    code = """
before = current(rt)
mine = host(rt)
rt.call("runtime_resource_set_default", None, **HOST, resource=mine).succeeds()
assert Info(rt, current(rt)).name == "host"
previous = rt.call("runtime_resource_set_default", **HOST, resource=None).succeeds().previous
assert previous == borrowed(rt, mine)
assert current(rt) == before
print(Info(rt, current(rt)).name)
"""
    assert child(rt, code, KINA_RESOURCE="cpu=pool(host)").stdout.strip() == "pool(host)"


@clause("KINA-RESOURCE-68", "2f0a39f2")
@clause("KINA-RESOURCE-69", "790b109d")
@pytest.mark.parametrize(
    "text",
    [
        "host",
        "gpu=host",
        "cpu",
        "cpu=",
        "cpu=hst",
        "cpu=pool",
        "cpu=pool(host",
        "cpu=pool(host))",
        "cpu=pool()",
        "cpu=host(host)",
        "cpu=limit(host)",
        "cpu=limit(host,)",
        "cpu=limit(host,1 000)",
        "cpu=ho st",
        "c pu=host",
        "cpu=limit(host,-5)",
        "cpu=limit(host,18446744073709551616)",
        "cpu=cuda",
        "cpu=pool(cuda_async)",
        "cpu=host;cpu=host",
        "cpu=host cuda=cuda",
        "cpu=host;cuda=host",
        "cpu=host;cuda=pool(cuda",
        "cpu=pool(" * 3,
        "cpu=" + "pool(" * 5000 + "host" + ")" * 5000,
        "cpu=\xff\xfe",
    ],
)
def test_a_bad_string_is_an_error_at_the_first_need(rt: Executor, text: str) -> None:
    answer = Answer(rt, text)

    assert (answer.status, answer.alloc, answer.clause) == ("INVALID_ARGUMENT", "INVALID_ARGUMENT", "KINA-RESOURCE-69")
    assert any(letter.isdigit() for letter in answer.message), "the message says where"


@clause("KINA-RESOURCE-69", "790b109d")
def test_calls_that_need_no_default_work_under_a_bad_string(rt: Executor) -> None:
    code = """
mine = host(rt)
deallocate(rt, mine, allocate(rt, mine, 100), 100)
scope = rt.call("runtime_resource_push", mine).succeeds().out
rt.call("runtime_free", rt.tensor("f32", (3,), owned=True)).succeeds()
rt.call("runtime_scope_pop", scope).succeeds()
wanting = rt.call("runtime_resource_set_default", **HOST, resource=mine)
print(wanting.status())
rt.call("runtime_resource_set_default", None, **HOST, resource=mine).succeeds()
assert current(rt) == borrowed(rt, mine)
rt.call("runtime_free", rt.tensor("f32", (3,), owned=True)).succeeds()
rt.call("runtime_resource_set_default", None, **HOST, resource=None).succeeds()
print(rt.call("runtime_resource_current", **HOST).status())
"""
    done = child(rt, code, KINA_RESOURCE="cpu=pool(")

    assert done.returncode == 0, done.stderr
    assert done.stdout.split() == ["INVALID_ARGUMENT", "INVALID_ARGUMENT"]
