"""What a build does not offer it refuses: every function of an absent feature answers UNSUPPORTED."""

from __future__ import annotations

import pytest

from kina_conformance import Executor, clause
from kina_conformance.bases import BASES
from kina_conformance.contract import contract

OPTIONAL = [f for f in contract().functions.values() if f.feature != "core" and f.name in BASES]
FREE_OF_OTHERS = {
    "runtime_peer_open": {"peer": 0x5A5A5A5A5A5A},
    "runtime_peer_release": {"peer": 0x5A5A5A5A5A5A},
}


@pytest.mark.parametrize(
    "name", [pytest.param(f.name, marks=pytest.mark.lacks(f.feature), id=f.name) for f in OPTIONAL]
)
@clause("KINA-VERSION-5", "295dca90")
def test_a_function_of_an_absent_feature_is_unsupported(rt: Executor, name: str) -> None:
    """A function that needs a handle of the absent feature has no valid call; an invalid handle is refused first."""
    if name in FREE_OF_OTHERS:
        arguments = {"device_type": 1, "device_id": 0} if name == "runtime_peer_open" else {}
        call = rt.call(name, **FREE_OF_OTHERS[name], **arguments)
        call.refuses({"UNSUPPORTED", "INVALID_HANDLE"}, control=False)
        return
    BASES[name](rt).refuses("UNSUPPORTED", control=False)
