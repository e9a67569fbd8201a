"""Ties a test to the clauses that it decides."""

from __future__ import annotations

import pytest

from .contract import Contract


def clause(clause_id: str, text_hash: str = "") -> pytest.MarkDecorator:
    """Marks a test with a clause and the hash of its sentence; `python -m kina_conformance.stamp` fills hashes in."""
    return pytest.mark.clause(clause_id, text_hash)


def complaints(marks: list[tuple[str, str]], contract: Contract) -> list[str]:
    """What is wrong with the clauses of one test; empty when nothing is."""
    if not marks:
        return ["names no clause"]
    found = []
    for clause_id, text_hash in marks:
        known = contract.clauses.get(clause_id)
        if known is None:
            found.append(f"names {clause_id}, which spec/ does not have")
        elif not text_hash:
            found.append(f"has no hash for {clause_id}: run python -m kina_conformance.stamp")
        elif text_hash != known.hash:
            found.append(
                f"is stale: {clause_id} has changed ({text_hash} became {known.hash}); "
                "read the clause, mend the test, then run python -m kina_conformance.stamp --stale"
            )
    return found
