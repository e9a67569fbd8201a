"""The command `skeleton`: a library in C that exports every function and offers none, to start a runtime from."""

from __future__ import annotations

from kina.header import Prototype

from .contract import CHAPTERS, Contract

_HEAD = """/* A library that exports every function of the Kina runtime ABI and offers none of them. Chapter by chapter:

     cc -shared -fPIC -I FOLDER mine.c -o libmine.so     FOLDER holds kina_runtime.h and dlpack/dlpack.h
     kina-conformance --lib ./libmine.so --tier quick --select chapter=version
     kina-conformance explain runtime_alloc

   The header is the manual, `kina-conformance doctor` says where it lies; `explain` shows the clauses. What stays
   unfinished answers UNSUPPORTED. */
#include <kina_runtime.h>
"""
_ANSWERS = {
    "runtime_abi_version": "return KINA_ABI_VERSION;",
    "runtime_version_string": 'return "mine 0.1";',
    "runtime_has_feature": "return feature == KINA_FEATURE_CORE;",
    "runtime_status_name": 'return "UNKNOWN";',
    "runtime_last_error_message": 'return "";',
    "runtime_clear_last_error": "",
}


def skeleton(contract: Contract) -> str:
    """The source text."""
    parts = [_HEAD]
    for chapter in CHAPTERS:
        own = [f.prototype for f in contract.functions.values() if f.chapter == chapter]
        parts.append(f"/* {chapter} */\n\n" + "".join(map(_function, own)))
    return "\n".join(parts)


def _function(prototype: Prototype) -> str:
    parameters = ", ".join(f"{p.type} {p.name}".replace("* ", "*") for p in prototype.parameters) or "void"
    result = f"{prototype.result} ".replace("* ", "*")
    answer = _ANSWERS.get(prototype.name, "return KINA_ERROR_UNSUPPORTED;")
    return f"{result}{prototype.name}({parameters}) {{ {answer} }}\n".replace("{  }", "{}")
