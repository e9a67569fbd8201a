"""Rules on clauses, tables, the version script, freeze.c and the message catalogue."""

from __future__ import annotations

import re
from collections.abc import Iterator

from .sources import CLAUSE_LINE, ERRORS, FREEZE, HEADER, MAP, MESSAGES, Finding, Sources, cited, line_of

_OP_FAMILIES = {
    "KINA_UNARY_": "runtime_gpu_unary",
    "KINA_BINARY_": "runtime_gpu_binary",
    "KINA_REDUCE_": "runtime_gpu_reduce",
}


def check_clauses(sources: Sources) -> Iterator[Finding]:
    """Clause lines are well formed; ids are unique, of their chapter, and run from 1 without a gap."""
    for path in sources.chapter_files:
        text = sources.text(path)
        if not text:
            yield Finding(path, 1, "the chapter has no spec; write its clauses")
            continue
        chapter = path.removeprefix("spec/").removesuffix(".md").upper()
        numbers: list[int] = []
        for number, line in enumerate(text.splitlines(), 1):
            match = CLAUSE_LINE.match(line)
            if match is None:
                if re.match(r"\s*[-*]\s*\**\s*KINA-", line):
                    yield Finding(path, number, "not a clause line; write '- **KINA-CHAPTER-n** MUST: one sentence.'")
                continue
            if match[2] != chapter:
                yield Finding(path, number, f"{match[1]} belongs in spec/{match[2].lower()}.md")
            elif int(match[3]) in numbers:
                yield Finding(path, number, f"{match[1]} stands twice; a new clause takes the next free number")
            else:
                numbers.append(int(match[3]))
            if not match[5].endswith("."):
                yield Finding(path, number, f"{match[1]} must be one sentence on one line that ends with a full stop")
            for clause in cited(match[5]):
                if clause not in sources.clauses:
                    yield Finding(path, number, f"{match[1]} cites {clause}, which is not in spec/")
        for missing in sorted(set(range(1, max(numbers, default=0) + 1)) - set(numbers)):
            yield Finding(path, 1, f"KINA-{chapter}-{missing} is gone; ids are never taken away, restore the clause")


def check_same_sentence(sources: Sources) -> Iterator[Finding]:
    seen: dict[str, str] = {}
    for clause in sources.clauses.values():
        key = " ".join(clause.text.lower().split())
        if key in seen:
            yield Finding(clause.file, clause.line, f"{clause.id} says the same as {seen[key]}; cite that one instead")
        seen.setdefault(key, clause.id)


def check_statuses(sources: Sources) -> Iterator[Finding]:
    """spec/tables/statuses.toml, the enumerators and the library's own table are one list."""
    path = "spec/tables/statuses.toml"
    rows = sources.table("statuses").get("status", [])
    declared = {n: v for n, v in sources.header.constants.items() if n == "KINA_SUCCESS" or n.startswith("KINA_ERROR_")}
    categories = {
        n.removeprefix("KINA_CATEGORY_").lower() for n in sources.header.constants if n.startswith("KINA_CATEGORY_")
    }
    seen = {}
    for row in rows:
        name = str(row.get("name"))
        full = "KINA_SUCCESS" if name == "SUCCESS" else f"KINA_ERROR_{name}"
        line = sources.table_line("statuses", f'"{name}"')
        seen[full] = row
        if declared.get(full) != row.get("value"):
            yield Finding(
                path,
                line,
                f"{name} = {row.get('value')}, the header has {full} = {declared.get(full)}; statuses are frozen",
            )
        if row.get("category") not in categories:
            yield Finding(path, line, f"{name}: category '{row.get('category')}' has no KINA_CATEGORY_ enumerator")
        if not isinstance(row.get("retryable"), bool) or not row.get("cause"):
            yield Finding(path, line, f"{name}: give retryable (true or false) and cause")
        if any(tier not in (1, 2, 3, 4, 5) for tier in row.get("tier", [0])) or (name != "SUCCESS") != bool(
            row.get("tier")
        ):
            yield Finding(path, line, f"{name}: tier is a list of numbers from 1 to 5, empty for SUCCESS alone")
    for full in sorted(set(declared) - set(seen)):
        yield Finding(path, 1, f"{full} has no [[status]] row; add it")
    text = sources.text(ERRORS)
    for match in re.finditer(r'\{(KINA_(?:SUCCESS|ERROR_\w+)), "(\w+)", KINA_CATEGORY_(\w+), (true|false)\}', text):
        row = seen.get(match[1], {})
        if (row.get("name"), row.get("category"), row.get("retryable")) != (
            match[2],
            match[3].lower(),
            match[4] == "true",
        ):
            yield Finding(
                ERRORS, line_of(text, match.start()), f"{match[1]} differs from its row in {path}; make them alike"
            )


def check_dtypes(sources: Sources) -> Iterator[Finding]:
    path = "spec/tables/dtypes.toml"
    declared = {n: v for n, v in sources.header.constants.items() if n.startswith("KINA_DTYPE_")}
    seen = set()
    for row in sources.table("dtypes").get("dtype", []):
        full = str(row.get("enumerator"))
        seen.add(full)
        image = row.get("code", 0) | row.get("bits", 0) << 8 | 1 << 16
        if declared.get(full) != row.get("value") or row.get("value") != image:
            yield Finding(path, sources.table_line("dtypes", f'"{full}"'), f"{full}: value, code and bits must be those of the header, "
                          f"{declared.get(full)}")  # fmt: skip
    for full in sorted(set(declared) - seen):
        yield Finding(path, 1, f"{full} has no [[dtype]] row; add it")


def check_ops(sources: Sources) -> Iterator[Finding]:
    path = "spec/tables/ops.toml"
    dtypes = {str(row.get("name")) for row in sources.table("dtypes").get("dtype", [])}
    sets = sources.table("ops").get("set", {})
    accuracies = sources.table("ops").get("accuracy", {})
    seen = set()
    for number, row in enumerate(sources.table("ops").get("op", [])):
        function, enumerator = str(row.get("function")), row.get("enumerator")
        line = sources.table_line("ops", f'"{enumerator or function}"')
        seen.add((function, enumerator))
        if function not in sources.prototypes:
            yield Finding(path, line, f"[[op]] {number}: the header has no {function}")
        if enumerator is not None and enumerator not in sources.header.constants:
            yield Finding(path, line, f"{enumerator} is no enumerator of the header")
        for name in row.get("dtypes", []):
            if name not in sets and name not in dtypes:
                yield Finding(path, line, f"{enumerator or function}: '{name}' is neither a [set] nor a dtype")
        accuracy = row.get("accuracy")
        for name in accuracy.values() if isinstance(accuracy, dict) else [accuracy]:
            if name not in accuracies:
                yield Finding(path, line, f"{enumerator or function}: accuracy '{name}' is not in the table")
        if not row.get("determinism"):
            yield Finding(path, line, f"{enumerator or function}: say determinism")
    for name in sets:
        for dtype in sets[name]:
            if dtype not in dtypes and dtype not in sets:
                yield Finding(path, sources.table_line("ops", f"{name} ="), f"[set] {name}: '{dtype}' is no dtype")
    for constant in sources.header.constants:
        for prefix, function in _OP_FAMILIES.items():
            if constant.startswith(prefix) and constant != "KINA_REDUCE_KEEPDIMS" and (function, constant) not in seen:
                yield Finding(path, 1, f"{constant} of {function} has no [[op]] row; add it")


def check_untested(sources: Sources) -> Iterator[Finding]:
    path = "spec/tables/untested.toml"
    cited_by = {clause: test for test in sources.tests for clause, _ in test.clauses}
    for clause, row in sources.untested.items():
        line = sources.table_line("untested", f'"{clause}"')
        if clause not in sources.clauses:
            yield Finding(path, line, f"'{clause}' is not in spec/; take the row out")
        elif clause in cited_by:
            yield Finding(
                path, line, f"{clause} is cited by {cited_by[clause].file}:{cited_by[clause].line}; take the row out"
            )
        if len(str(row.get("reason", "")).split()) < 3:
            yield Finding(path, line, f"{clause}: give the reason in a few words")


def check_map(sources: Sources) -> Iterator[Finding]:
    """The version script lists the functions of the header, each in the node of the minor that brought it."""
    text = sources.text(MAP)
    exported: dict[str, tuple[str, int]] = {}
    node = ""
    for number, line in enumerate(text.splitlines(), 1):
        opened = re.match(r"(KINA_1\.\d+) \{", line)
        node = opened[1] if opened else node
        symbol = re.fullmatch(r"\s+(\w+);", line)
        if symbol and symbol[1] in exported:
            yield Finding(MAP, number, f"{symbol[1]} stands twice; a symbol has one node")
        elif symbol:
            exported[symbol[1]] = (node, number)
    for name, prototype in sources.prototypes.items():
        tags = sources.tags[name]
        wanted = f"KINA_{tags.raw['since']}" if tags is not None else "KINA_1.0"
        if name not in exported:
            yield Finding(MAP, 1, f"{name} ({HEADER}:{prototype.line}) is not listed; add it to {wanted}")
        elif exported[name][0] != wanted:
            yield Finding(MAP, exported[name][1], f"{name} stands in {exported[name][0]}, its tag says {wanted}")
    for name, (_, number) in exported.items():
        if name not in sources.prototypes:
            yield Finding(MAP, number, f"{name} is not declared by the header; take it out")
    if not re.search(r"local:\s*\*;", text):
        yield Finding(MAP, 1, "'local: *;' is missing: everything else must stay hidden")


def check_freeze(sources: Sources) -> Iterator[Finding]:
    text = sources.text(FREEZE)
    values = {
        m[1]: (m[2], line_of(text, m.start())) for m in re.finditer(r"^FREEZE_VALUE\((\w+), (.+)\);$", text, re.M)
    }
    fields = {
        (m[1], m[2]): (int(m[3]), line_of(text, m.start()))
        for m in re.finditer(r"^FREEZE_FIELD\((\w+), (\w+), (\d+), \d+\);$", text, re.M)
    }
    sizes = {
        m[1]: (int(m[2]), line_of(text, m.start())) for m in re.finditer(r"^FREEZE_SIZE\((\w+), (\d+)\);$", text, re.M)
    }
    for name, value in sources.header.constants.items():
        if not name.startswith("KINA_"):
            continue
        if name not in values:
            yield Finding(FREEZE, 1, f"{name} is not asserted; add FREEZE_VALUE({name}, {value});")
        elif _number(values[name][0]) != value:
            yield Finding(
                FREEZE,
                values[name][1],
                f"{name} is asserted as {values[name][0]}, the header has {value}; nothing frozen changes",
            )
    for name in sorted(set(values) - set(sources.header.constants)):
        yield Finding(FREEZE, values[name][1], f"{name} is not in the header; nothing frozen goes, restore it there")
    for struct in sources.structs.values():
        if sizes.get(struct.name, (0, 0))[0] != struct.size:
            yield Finding(
                FREEZE,
                sizes.get(struct.name, (0, 1))[1],
                f"FREEZE_SIZE({struct.name}, {struct.size}) is missing or differs from {HEADER}:{struct.line}",
            )
        for item in struct.fields:
            offset, line = fields.get((struct.name, item.name), (-1, 1))
            if offset != item.offset:
                yield Finding(
                    FREEZE,
                    line,
                    f"FREEZE_FIELD of {struct.name}.{item.name} is missing or differs from offset {item.offset} at {HEADER}:{item.line}",
                )
    for struct_name, field_name in fields:
        known = sources.structs.get(struct_name)
        if struct_name.startswith("Kina") and (known is None or field_name not in [f.name for f in known.fields]):
            yield Finding(
                FREEZE, fields[struct_name, field_name][1], f"{struct_name}.{field_name} is not in the header"
            )
    yield from _signatures(sources, text)


def _number(text: str) -> int | None:
    digits = re.fullmatch(r"(0x[0-9A-Fa-f]+|\d+)u?", text)
    if digits:
        return int(digits[1], 0)
    return -(2**31) if text == "(-2147483647 - 1)" else None


def _signatures(sources: Sources, text: str) -> Iterator[Finding]:
    frozen = {
        m[2]: (m[0], line_of(text, m.start())) for m in re.finditer(r"^(\w[\w *]*?)(runtime_\w+)\(.*\);$", text, re.M)
    }
    plain = re.sub(r"/\*.*?\*/", "", sources.header_text, flags=re.S)
    declared = {
        m[2]: " ".join(m[0].removeprefix("KINA_API ").split())
        for m in re.finditer(r"^KINA_API ([\w *]+?)(runtime_\w+)\([^;]*\);", plain, re.M)
    }
    for name, signature in declared.items():
        if name not in frozen:
            yield Finding(FREEZE, 1, f"the signature of {name} is not asserted; add '{signature}'")
        elif frozen[name][0] != signature:
            yield Finding(
                FREEZE,
                frozen[name][1],
                f"{name} is declared otherwise in the header: '{signature}'; nothing frozen changes",
            )
    for name in sorted(set(frozen) - set(declared)):
        yield Finding(FREEZE, frozen[name][1], f"{name} is not in the header; nothing frozen goes, restore it there")


def check_messages(sources: Sources) -> Iterator[Finding]:
    """No two rows of the message catalogue are alike, and each has a status of the contract."""
    text = sources.text(MESSAGES)
    seen: dict[str, int] = {}
    for match in re.finditer(r'^KINA_MESSAGE\((\w+),\s*(\w+),\s*((?:"[^"]*"\s*)+)\)', text, re.M):
        words, line = " ".join(re.findall(r'"([^"]*)"', match[3])), line_of(text, match.start())
        if words in seen:
            yield Finding(MESSAGES, line, f"{match[1]} reads like the row in line {seen[words]}; messages are distinct")
        seen.setdefault(words, line)
        if match[2] not in sources.header.constants:
            yield Finding(MESSAGES, line, f"{match[1]}: {match[2]} is no status of the header")


def check_code_citations(sources: Sources) -> Iterator[Finding]:
    """Clause ids in the library's sources exist."""
    for path in sorted((sources.root / "impl").rglob("*")):
        if path.suffix not in {".cpp", ".h", ".def"}:
            continue
        for number, text in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
            for clause in re.findall(r"\bKINA-[A-Z]+-\d+\b", text):
                if clause not in sources.clauses:
                    yield Finding(
                        str(path.relative_to(sources.root)),
                        number,
                        f"{clause} is not in spec/; cite the clause that is broken here",
                    )


RULES = (
    check_clauses,
    check_same_sentence,
    check_statuses,
    check_dtypes,
    check_ops,
    check_untested,
    check_map,
    check_freeze,
    check_messages,
    check_code_citations,
)
