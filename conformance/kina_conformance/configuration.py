"""The grammar of KINA_RESOURCE [KINA-RESOURCE-67]: a typo in the option `--resource` is no fault of the library."""

from __future__ import annotations

import re

BLANK = " \t"
BASES = {"cpu": ("host",), "cuda": ("cuda", "cuda_async"), "sim": ("sim",)}
ADAPTOR = re.compile(r"(?P<word>pool|logging|limit)[ \t]*\((?P<inside>.*)\)", re.S)


def complaint(text: str) -> str:
    """What keeps a text from being a value of KINA_RESOURCE; empty where nothing does."""
    seen: set[str] = set()
    for entry in filter(None, (part.strip(BLANK) for part in text.split(";"))):
        device, sign, resource = (word.strip(BLANK) for word in entry.partition("="))
        if device not in BASES or not sign:
            return f"{entry!r} does not begin with {', '.join(f'{name}=' for name in BASES)}"
        if device in seen:
            return f"{device} is named twice"
        seen.add(device)
        base = _base_of(resource)
        if base not in BASES[device]:
            wanted = " or ".join(BASES[device])
            return f"{base!r} is no resource of {device}: {wanted}, or pool(r), logging(r), limit(r,bytes) of one"
    return ""


def _base_of(resource: str) -> str:
    """What is left when all adaptors are taken off."""
    while adaptor := ADAPTOR.fullmatch(resource):
        inner = adaptor["inside"]
        if adaptor["word"] == "limit":
            inner, _, count = inner.rpartition(",")
            if not re.fullmatch(r"[ \t]*[0-9]+[ \t]*", count) or int(count) >= 2**64:
                return resource
        resource = inner.strip(BLANK)
    return resource
