"""What the ELF file of the library promises: exports, versions, SONAME, flags, thread-local storage, undefined symbols.

Usage: ci/exports [LIBRARY]...; without one, build/release/libkina.so.1. Runs its own self-test first: for each rule a
tiny library that breaks exactly this rule must be refused for exactly this reason.
"""

import re
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from elftools.elf.elffile import ELFFile

ROOT = Path(__file__).resolve().parent.parent
NODE, SONAME, TLS_BYTES = "KINA_1.0", "libkina.so.1", 256
NEEDED = {"libc.so.6", "libm.so.6", "ld-linux-x86-64.so.2", "ld-linux-aarch64.so.1"}
SANITIZERS = {"libasan.so.8", "libubsan.so.1", "libtsan.so.2", "libasan.so.6", "libtsan.so.0"}
R_AARCH64_TLS_TPREL = 1030
# What a sanitizer's runtime brings: its own functions, the operators new and delete, guards of statics, and atexit.
SANITIZER_SYMBOLS = re.compile(
    r"__(asan|ubsan|tsan|sanitizer|interceptor)_|_Z(n[wa]|d[la])|__cxa_guard_(abort|acquire|release)$|atexit$"
)
START_FILES = {  # what the compiler's own start files refer to
    "__cxa_finalize",
    "__gmon_start__",
    "_ITM_deregisterTMCloneTable",
    "_ITM_registerTMCloneTable",
    "__tls_get_addr",
}
DF_STATIC_TLS, DF_1_NODELETE = 0x10, 0x8


def declared() -> set[str]:
    """The functions that the header declares."""
    return set(re.findall(r"^KINA_API[^;(]*?\b(runtime_\w+)\(", (ROOT / "include/kina_runtime.h").read_text(), re.M))


def allowed_undefined() -> dict[str, str]:
    """name -> reason, from ci/undefined.txt."""
    rows = {}
    for number, line in enumerate((ROOT / "ci/undefined.txt").read_text().splitlines(), 1):
        if line and not line.startswith("#"):
            name, _, reason = line.partition(" ")
            if not re.fullmatch(r"[A-Za-z_]\w*", name) or not reason.strip():
                sys.exit(f"ci/undefined.txt:{number}: wants 'symbol  reason', without a wildcard")
            rows[name] = reason.strip()
    return rows


def problems(path: Path, functions: set[str], allowed: dict[str, str]) -> list[tuple[str, str]]:
    """(rule, message) for each broken rule."""
    with path.open("rb") as file:
        elf: Any = ELFFile(file)
        tags: dict[str, Any] = {}
        needed = set()
        for tag in elf.get_section_by_name(".dynamic").iter_tags():
            tags[tag.entry.d_tag] = tag
            if tag.entry.d_tag == "DT_NEEDED":
                needed.add(tag.needed)
        sanitized = bool(needed & SANITIZERS)
        versions = elf.get_section_by_name(".gnu.version")
        definitions = elf.get_section_by_name(".gnu.version_d")
        nodes = {}
        for definition, names in definitions.iter_versions() if definitions else []:
            nodes[definition["vd_ndx"]] = next(iter(names)).name
        exported: dict[str, str] = {}
        undefined, unique = set(), set()
        for index, symbol in enumerate(elf.get_section_by_name(".dynsym").iter_symbols()):
            name, binding = symbol.name, symbol["st_info"]["bind"]
            if not name or binding == "STB_LOCAL":
                continue
            if binding in ("STB_LOOS", "STB_GNU_UNIQUE"):
                unique.add(name)
            if symbol["st_shndx"] == "SHN_UNDEF":
                undefined.add(name)
            elif not (symbol["st_shndx"] == "SHN_ABS" and name in nodes.values()):
                version = versions.get_symbol(index)["ndx"] if versions else 1
                exported[name] = nodes.get(version & 0x7FFF, "") if isinstance(version, int) else ""
        segments = {segment["p_type"]: segment for segment in elf.iter_segments()}
        # The linker for AArch64 sets no DF_STATIC_TLS; there the relocation of the initial-exec model tells.
        relocations = elf.get_section_by_name(".rela.dyn") if elf["e_machine"] == "EM_AARCH64" else None
        static_tls = (
            any(r["r_info_type"] == R_AARCH64_TLS_TPREL for r in relocations.iter_relocations())
            if relocations
            else False
        )

    found = []

    def require(condition: object, rule: str, message: str) -> None:
        if not condition:
            found.append((rule, message))

    soname = tags["DT_SONAME"].soname if "DT_SONAME" in tags else None
    flags = tags["DT_FLAGS"].entry.d_val if "DT_FLAGS" in tags else 0
    flags_1 = tags["DT_FLAGS_1"].entry.d_val if "DT_FLAGS_1" in tags else 0
    thread_local = segments.get("PT_TLS")
    extra, missing = sorted(exported.keys() - functions), sorted(functions - exported.keys())
    unlisted = sorted(n for n in undefined - allowed.keys() if not (sanitized and SANITIZER_SYMBOLS.match(n)))
    misversioned = sorted(name for name, node in exported.items() if name in functions and node != NODE)
    require(not extra, "extra", f"exports what the header does not declare: {extra[:8]}")
    require(not missing, "missing", f"does not export: {missing[:8]}")
    require(not misversioned, "node", f"not under {NODE}: {misversioned[:8]}")
    require(soname == SONAME, "soname", f"SONAME is {soname}, not {SONAME}")
    require(flags_1 & DF_1_NODELETE, "nodelete", "not linked with -z nodelete")
    if thread_local is not None:
        size = thread_local["p_memsz"]
        # A sanitizer's red zones pad thread-local variables; the bound is for what is installed.
        require(
            size <= TLS_BYTES or sanitized, "tls-size", f"{size} bytes of thread-local storage, at most {TLS_BYTES}"
        )
        require(
            flags & DF_STATIC_TLS or static_tls,
            "tls-model",
            "thread-local storage is not initial-exec (no DF_STATIC_TLS)",
        )
    require(not unique, "unique", f"STB_GNU_UNIQUE symbols keep the library from being unique: {sorted(unique)[:8]}")
    stray = sorted(needed - NEEDED - SANITIZERS)
    require(
        not stray,
        "needed",
        f"needs {stray}; libstdc++ and libgcc are linked statically, all else is opened at run time",
    )
    require(not unlisted, "undefined", f"undefined and not in ci/undefined.txt: {unlisted[:8]}")
    stack = segments.get("PT_GNU_STACK")
    require(stack is not None and not stack["p_flags"] & 1, "stack", "asks for an executable stack")
    require("DT_RPATH" not in tags and "DT_RUNPATH" not in tags, "runpath", "carries a run path")
    require("DT_TEXTREL" not in tags, "textrel", "relocates its code")
    return found


def self_test(folder: Path, functions: set[str]) -> list[str]:
    """For each rule, a library that breaks it alone."""
    names = sorted(functions)
    body = "\n".join(f"void {name}(void) {{}}" for name in names)
    script = f"{NODE} {{ global: {'; '.join(names)}; local: *; }};"
    unique = 'template <class T> struct Box { static inline int value = 0; }; extern "C" int* keep() { return &Box<int>::value; }'
    tls = (
        '__thread int kina_tls[{0}] __attribute__((tls_model("{1}"))); int *kina_use(int i) {{ return kina_tls + i; }}'
    )
    good = ["-Wl,-soname,libkina.so.1", "-Wl,-z,nodelete", "-Wl,-z,noexecstack"]
    cases: dict[str, tuple[str, str, list[str], str]] = {
        "": (body, script, good, "c"),
        "extra": (body + "\nvoid stray(void) {}", script.replace("global:", "global: stray;"), good, "c"),
        "missing": (body.replace(f"void {names[0]}(void) {{}}", ""), script.replace(f" {names[0]};", ""), good, "c"),
        "node": (body, script.replace(NODE, "KINA_0.9"), good, "c"),
        "soname": (body, script, good[1:], "c"),
        "nodelete": (body, script, [good[0], good[2]], "c"),
        "tls-size": (body + "\n" + tls.format(100, "initial-exec"), script, good, "c"),
        "tls-model": (body + "\n" + tls.format(4, "global-dynamic"), script, good, "c"),
        "unique": (
            f'extern "C" {{ {body} }}\n{unique}',
            script.replace("global:", "global: _ZN3BoxIiE5valueE;"),
            good,
            "c++",
        ),
        "needed": (body, script, [*good, "-Wl,--no-as-needed", "-lstdc++"], "c"),
        "undefined": (body + "\nint system(const char *); int kina_use(void) { return system(0); }", script, good, "c"),
        "stack": (body, script, [*good[:2], "-Wl,-z,execstack"], "c"),
        "runpath": (body, script, [*good, "-Wl,-rpath,/tmp"], "c"),
    }
    wrong = []
    for rule, (source, version_script, options, language) in cases.items():
        (folder / "source").write_text(source)
        (folder / "map").write_text(version_script)
        library = folder / "library.so"
        command = [
            "g++" if language == "c++" else "gcc",
            "-x",
            language,
            "-shared",
            "-fPIC",
            "-w",
            str(folder / "source"),
            "-x",
            "none",
        ]
        subprocess.run([*command, f"-Wl,--version-script={folder / 'map'}", *options, "-o", str(library)], check=True)
        allowed = dict.fromkeys(START_FILES, "")
        rules = {found for found, _ in problems(library, functions, allowed)} - (
            {"extra"} if rule == "unique" else set()
        )
        if rules != ({rule} if rule else set()):
            wrong.append(
                f"self-test: the library for rule '{rule or 'none broken'}' was refused for {sorted(rules) or 'nothing'}"
            )
    print(f"  self-test: {len(cases) - len(wrong)} of {len(cases)} libraries judged right")
    return wrong


def main(arguments: list[str]) -> int:
    functions, allowed = declared(), allowed_undefined()
    listed = set(re.findall(r"^\s+(runtime_\w+);", (ROOT / "include/kina_runtime.map").read_text(), re.M))
    difference = sorted(functions ^ listed)
    failures = [f"header and version script differ in {difference}"] if difference or not functions else []
    with tempfile.TemporaryDirectory() as folder:
        failures += self_test(Path(folder), functions)
    libraries = [Path(a) for a in arguments] or [ROOT / "build/release" / SONAME]
    for library in libraries:
        failures += [f"{library}: {message} [{rule}]" for rule, message in problems(library, functions, allowed)]
    for failure in failures:
        print(f"  FAIL  {failure}")
    print(f"{max(13 + 13 * len(libraries) - len(failures), 0)} passed, {len(failures)} failed")
    return bool(failures)


sys.exit(main(sys.argv[1:]))
