"""Rules on the header: tag lines, their words, the least set of statuses, the clauses that comments cite."""

from __future__ import annotations

import re
from collections.abc import Iterator

from kina_conformance.contract import OWNERS, TAGS

from .sources import CHAPTERS, HANDLES, HEADER, Finding, Prototype, Sources, Tags, cited, line_of

STREAMS = ("host", "enqueues", "synchronises", "host/enqueues")
ALLOCATIONS = ("handle", "host", "resource", "device")
THREADS = ("any", "calling")
OPERATIONS = CHAPTERS[CHAPTERS.index("movement") :]
ENUMERATIONS = ("KinaUnaryOp", "KinaBinaryOp", "KinaReduceOp", "KinaAccess", "KinaLogLevel", "KinaDtype")
LEAST_ROWS = 400
_TAG_LINE = re.compile(r"^ \* ([a-z]+): ")
_ERROR = re.compile(r"[A-Z_]+( KINA-[A-Z]+-\d+)+( injected)?")


def comment_line(prototype: Prototype) -> int:
    """The line on which the function's comment starts."""
    return prototype.line - 1 - prototype.comment.count("\n")


def tag_line(prototype: Prototype, tag: str) -> int:
    for number, text in enumerate(prototype.comment.splitlines()):
        if text.startswith(f" * {tag}:"):
            return comment_line(prototype) + number
    return prototype.line


def check_tag_lines(sources: Sources) -> Iterator[Finding]:
    """All eight, in order, at the end of the comment, one physical line each."""
    for name, prototype in sources.prototypes.items():
        lines = prototype.comment.splitlines()
        ending = [m[1] if (m := _TAG_LINE.match(text)) else "?" for text in lines[-1 - len(TAGS) : -1]]
        if not prototype.comment.startswith("/**") or tuple(ending) != TAGS:
            yield Finding(HEADER, prototype.line, f"{name}: the comment must end with the tag lines {', '.join(TAGS)}, "
                          f"in this order, one line each; it ends with {', '.join(ending) or 'nothing'}")  # fmt: skip
        elif len([text for text in lines if _TAG_LINE.match(text) and _TAG_LINE.match(text)[1] in TAGS]) > len(TAGS):  # type: ignore[index]
            yield Finding(HEADER, prototype.line, f"{name}: a tag stands twice; leave one line for each")


def check_tag_words(sources: Sources) -> Iterator[Finding]:
    features = {
        n.removeprefix("KINA_FEATURE_").lower() for n in sources.header.constants if n.startswith("KINA_FEATURE_")
    }
    for name, prototype, tags in tagged(sources):

        def wrong(tag: str, text: str, prototype: Prototype = prototype, name: str = name) -> Finding:
            return Finding(HEADER, tag_line(prototype, tag), f"{name}: {tag}: {text}")

        if not re.fullmatch(r"1\.\d+", tags.raw["since"]):
            yield wrong("since", f"'{tags.raw['since']}' is no minor version; write 1.0")
        if tags.feature not in features:
            yield wrong(
                "feature", f"'{tags.feature}' has no KINA_FEATURE_ enumerator; one of {', '.join(sorted(features))}"
            )
        if tags.stream not in STREAMS:
            yield wrong("stream", f"'{tags.stream}' is none of {', '.join(STREAMS)}")
        for word in sorted(tags.alloc - set(ALLOCATIONS)):
            yield wrong("alloc", f"'{word}' is none of {', '.join(ALLOCATIONS)}")
        if tags.thread not in THREADS:
            yield wrong("thread", f"'{tags.thread}' is none of {', '.join(THREADS)}")
        yield from (wrong("null", text) for text in _null_faults(sources, prototype, tags))
        yield from (wrong("owner", text) for text in _owner_faults(sources, prototype, tags))
        yield from (wrong("errors", text) for text in _error_faults(sources, prototype, tags))


def tagged(sources: Sources) -> Iterator[tuple[str, Prototype, Tags]]:
    for name, prototype in sources.prototypes.items():
        tags = sources.tags[name]
        if tags is not None:
            yield name, prototype, tags


def references(sources: Sources, prototype: Prototype) -> list[str]:
    """Every pointer, handle and callback of a function, members of option structs included as `params.bias`."""
    found = []
    for parameter in prototype.parameters:
        kind = parameter.type
        if parameter.is_pointer or kind in HANDLES or kind.endswith("Callback"):
            found.append(parameter.name)
        struct = sources.structs.get(kind.removeprefix("const ").removesuffix(" *"))
        if struct is not None and kind.startswith("const ") and _has_size(sources, kind):
            found += [f"{parameter.name}.{f.name}" for f in struct.fields if f.is_reference]
    return found


def members(sources: Sources, prototype: Prototype) -> list[str]:
    """Members of output structs and of DLPack's tensor: a tag may speak of them, none must."""
    found = []
    for parameter in prototype.parameters:
        kind = parameter.type.removeprefix("const ").removesuffix(" *")
        if kind == "DLTensor":
            found += [f"{parameter.name}.{name}" for name in ("data", "shape", "strides")]
        elif kind in sources.structs:
            found += [f"{parameter.name}.{f.name}" for f in sources.structs[kind].fields if f.is_reference]
    return found


def _has_size(sources: Sources, kind: str) -> bool:
    struct = sources.structs.get(kind.removeprefix("const ").removesuffix(" *"))
    return kind.endswith(" *") and struct is not None and struct.fields[0].name == "struct_size"


def _null_faults(sources: Sources, prototype: Prototype, tags: Tags) -> Iterator[str]:
    for name in sorted(set(tags.null) - set(references(sources, prototype)) - set(members(sources, prototype))):
        yield f"'{name}' is no pointer or handle of the function; name one, or write none"


def _owner_faults(sources: Sources, prototype: Prototype, tags: Tags) -> Iterator[str]:
    wanted = references(sources, prototype)
    for name in wanted:
        if name not in tags.owner:
            yield f"'{name}' is missing; say {', '.join(OWNERS)}"
        elif tags.owner[name] not in OWNERS:
            yield f"'{name} {tags.owner[name]}' is none of {', '.join(OWNERS)}"
    for name in sorted(set(tags.owner) - set(wanted) - set(members(sources, prototype))):
        yield f"'{name}' is no pointer or handle of the function; take it out"


def _error_faults(sources: Sources, prototype: Prototype, tags: Tags) -> Iterator[str]:
    raw = tags.raw["errors"]
    if prototype.result != "KinaStatus":
        if raw != "none":
            yield "the function returns no KinaStatus; write none"
        return
    items = [item.strip() for item in raw.split(";")]
    seen: set[str] = set()
    for item in items:
        if not _ERROR.fullmatch(item):
            yield f"'{item}' is not of the form STATUS CLAUSE… [injected]"
            continue
        words = item.split()
        if words[0] in seen:
            yield f"{words[0]} stands twice; join its clauses"
        seen.add(words[0])
        if f"KINA_ERROR_{words[0]}" not in sources.header.constants or words[0] == "INTERNAL":
            yield f"{words[0]} is no status that a tag may name"
        for clause in words[1:]:
            if clause != "injected" and clause not in sources.clauses:
                yield f"{clause} is not in spec/; write the clause, or cite another"


def least_statuses(sources: Sources, prototype: Prototype, tags: Tags) -> dict[str, str]:
    """The statuses that follow from the signature, each with its reason."""
    least: dict[str, str] = {}
    kinds = [p.type for p in prototype.parameters]
    inputs = [k for k in kinds if k.startswith("const KinaTensor *")]
    is_operation = prototype.chapter in OPERATIONS
    members = [m.rsplit(".", 1)[1] for m in references(sources, prototype) if "." in m]

    def add(condition: bool, reason: str, *statuses: str) -> None:
        if condition:
            least.update({status: reason for status in statuses if status not in least})

    add(any(k.endswith("*") for k in kinds), "a pointer can be NULL", "INVALID_ARGUMENT")
    add(any(k in HANDLES for k in kinds) or bool(inputs) or {"bias", "stream"} & set(members) != set(),
        "a handle or tensor can be stale", "INVALID_HANDLE")  # fmt: skip
    add("KinaTensor *" in kinds and (is_operation or prototype.parameters[0].name == "tensor"),
        "a tensor can be stale", "INVALID_HANDLE")  # fmt: skip
    add(bool(tags.alloc), "it allocates", "OUT_OF_MEMORY")
    add(is_operation and (len(inputs) > 1 or "const KinaTensor * const *" in kinds), "an operation has two inputs",
        "DEVICE_MISMATCH", "FAILED_INPUT")  # fmt: skip
    add(is_operation and "KinaTensor *" in kinds, "an operation writes a tensor of the caller's", "READ_ONLY")
    add(is_operation and prototype.parameters[0].name == "out", "out can overlap an input", "OVERLAP")
    add(any(_has_size(sources, k) for k in kinds), "a parameter has struct_size", "VERSION")
    add("device_type" in [p.name for p in prototype.parameters], "a device type may have no devices", "UNSUPPORTED")
    add("device_id" in [p.name for p in prototype.parameters], "a device id can be outside", "INVALID_ARGUMENT")
    add(any(k in ENUMERATIONS for k in kinds), "an enumerator can be unknown", "UNSUPPORTED")
    add("flags" in [p.name for p in prototype.parameters], "a flag bit can be unknown", "UNSUPPORTED")
    add(tags.feature != "core", "the feature can be absent", "UNSUPPORTED")
    add("ndim" in [p.name for p in prototype.parameters], "a shape can be wrong", "INVALID_SHAPE")
    add(tags.stream != "host", "a device works", "DEVICE", "DEVICE_LOST")
    return least if prototype.result == "KinaStatus" else {}


def check_least_statuses(sources: Sources) -> Iterator[Finding]:
    rows = sources.table("status").get("exception", [])
    exceptions = {(row.get("function", ""), row.get("status", "")): str(row.get("reason", "")) for row in rows}
    used = set()
    for name, prototype, tags in tagged(sources):
        for status, reason in least_statuses(sources, prototype, tags).items():
            if status in tags.errors:
                continue
            used.add((name, status))
            if (name, status) not in exceptions:
                yield Finding(HEADER, tag_line(prototype, "errors"), f"{name}: errors: {status} is missing ({reason}); add it "
                              "with its clauses, or an [[exception]] with a reason to spec/tables/status.toml")  # fmt: skip
    for key, why in exceptions.items():
        line = sources.table_line("status", f'"{key[0]}"')
        if key not in used:
            yield Finding(
                "spec/tables/status.toml", line, f"{' '.join(key)}: nothing demands this exception; take it out"
            )
        elif len(why.split()) < 3:
            yield Finding("spec/tables/status.toml", line, f"{' '.join(key)}: give the reason in a few words")


def check_row_count(sources: Sources) -> Iterator[Finding]:
    count = sum(len(tags.errors) for tags in sources.tags.values() if tags is not None)
    if count < LEAST_ROWS:
        yield Finding(HEADER, 1, f"the tags have {count} (function, status) rows, at least {LEAST_ROWS} are promised; "
                      "some tag has lost a status")  # fmt: skip


def check_citations(sources: Sources) -> Iterator[Finding]:
    """Prose cites clauses that exist."""
    for number, text in enumerate(sources.header_text.splitlines(), 1):
        if text.startswith(" * errors:"):
            continue
        for clause in cited(text):
            if clause not in sources.clauses:
                yield Finding(HEADER, number, f"{clause} is not in spec/; write the clause, or cite another")


def check_chapters(sources: Sources) -> Iterator[Finding]:
    """The header has the chapters of the spec, in order, and each has functions."""
    marks = [
        (m[1], line_of(sources.header_text, m.start()))
        for m in re.finditer(r"^/\* ==== (\w+) ====", sources.header_text, re.M)
    ]
    words = [word for word, _ in marks]
    if words != ["types", *CHAPTERS]:
        yield Finding(
            HEADER,
            marks[0][1] if marks else 1,
            f"the sections must be types, {', '.join(CHAPTERS)}; they are {', '.join(words)}",
        )
    for chapter in CHAPTERS:
        if not any(p.chapter == chapter for p in sources.prototypes.values()):
            yield Finding(HEADER, dict(marks).get(chapter, 1), f"chapter {chapter} declares no function")


RULES = (
    check_chapters,
    check_tag_lines,
    check_tag_words,
    check_least_statuses,
    check_row_count,
    check_citations,
)
