# shellcheck shell=bash disable=SC2034
# Sourced by every script in ci/: where things are, which tools to take, how to speak.
set -euo pipefail
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
cd "$root"
venv="$root/.venv"
python="$venv/bin/python"
jobs=$(nproc)
export LC_ALL=C.UTF-8

say() { printf '%s\n' "$*"; }
die() { printf '%s: %s\n' "${0##*/}" "$*" >&2; exit 1; }

[ -w "$root" ] || die "$root cannot be written, and builds and reports lie in it: clone the repository where you may write"

# first_command NAME...: the first that is here; the first of all where none is, for the message that it is missing.
first_command() {
  local name
  for name in "$@"; do command -v "$name" >/dev/null && break; done
  command -v "$name" >/dev/null || name=$1
  printf '%s\n' "$name"
}

# What ci/setup brings: said at once where it has not run, rather than by whatever misses it first.
require_setup() {
  local tool
  for tool in cmake ninja "${CXX:-g++}" "$python"; do
    command -v "$tool" >/dev/null || command -v "${tool%% *}" >/dev/null || # CXX may hold arguments
      die "$tool is missing: run ci/setup once, it installs what is needed${CXX:+ (CXX is set to $CXX)}"
  done
}

# C++20 as the project uses it needs g++ 12; where the default is older, a versioned one is taken.
if [ -z "${CXX:-}" ] && command -v g++ >/dev/null && [ "$(g++ -dumpversion | cut -d. -f1)" -lt 12 ]; then
  CXX=$(first_command g++-{12,13,14})
  export CXX CC=${CXX/g++/gcc}
fi
clang=$(first_command clang-{14,15,16,17,18,19}) # as ci/packages.sh takes the first of them
clang_tidy=$(first_command clang-tidy-{14,15,16,17,18,19})
clang_format=$(first_command clang-format-14 "$venv/bin/clang-format")
if command -v ccache >/dev/null; then
  export CMAKE_C_COMPILER_LAUNCHER=ccache CMAKE_CXX_COMPILER_LAUNCHER=ccache
fi

# progress LOG: passes a build's output on to LOG and says every ten seconds how far it is.
progress() {
  local line said=$SECONDS
  while IFS= read -r line; do
    printf '%s\n' "$line" >&3
    if [[ $line =~ ^\[([0-9]+)/([0-9]+)\] ]] && [ $((SECONDS - said)) -ge 10 ]; then
      said=$SECONDS
      say "  step ${BASH_REMATCH[1]} of ${BASH_REMATCH[2]} of the build"
    fi
  done 3>"$1"
}

# build PRESET [TARGET...]: configures the preset in build/PRESET and builds the targets. Of what that prints it shows no more
# than how far it is, unless it fails.
build() {
  local preset=$1 folder log made_for
  folder="build/$1" log="build/$1.log"
  shift
  require_setup
  mkdir -p build
  made_for=$(sed -n 's/^CMAKE_HOME_DIRECTORY:INTERNAL=//p' "$folder/CMakeCache.txt" 2>/dev/null || true)
  if ! [ "$made_for" -ef "$root" ]; then # the checkout has moved: CMake would refuse
    rm -rf "$folder/CMakeCache.txt" "$folder/CMakeFiles"
  fi
  if ! { cmake --preset "$preset" && cmake --build "$folder" -j "$jobs" ${1:+--target "$@"}; } 2>&1 | progress "$log"; then
    { grep -E -A 12 '^FAILED|CMake Error|CMake Warning|ninja: error|No space left' "$log" || tail -n 20 "$log"; } | head -n 60 >&2 || true
    die "the build of preset $preset failed; its log is $log.
If the lines above blame no source of yours, ci/setup installs what a build needs, and after rm -rf $folder it starts afresh"
  fi
}

# The closing line of every check: ci/test adds these up.
passed=0 failed=0 absent=0 # absent: what asks for a device, feature or package that is not here
pass() { passed=$((passed + 1)); say "  ok    $*"; }
fail() { failed=$((failed + 1)); say "  FAIL  $*"; }
# expect WHAT COMMAND...: counts one check; the command's output is shown only when it fails.
expect() {
  local what=$1 output
  shift
  if output=$("$@" 2>&1); then pass "$what"; else fail "$what"; printf '%s\n' "$output" | sed 's/^/        /'; fi
}
# expect_failure WHAT TEXT COMMAND...: passes only if the command fails and says TEXT.
expect_failure() {
  local what=$1 text=$2 output
  shift 2
  if output=$("$@" 2>&1); then
    fail "$what: the command succeeded"
  elif [[ $output == *"$text"* ]]; then
    pass "$what"
    return
  else
    fail "$what: it failed without saying \"$text\""
  fi
  printf '%s\n' "$output" | tail -n 20 | sed 's/^/        /'
}
summary() { say "$passed passed, $failed failed, $absent absent"; [ "$failed" -eq 0 ]; }

# judge NAME CODE LIBRARY ARGUMENT...: runs kina-conformance and counts its tests; it must end with CODE (5: clean, but too
# little for a claim). The report lies in build/report-NAME.
judge() {
  local report="$root/build/report-$1" wanted=$2 library=$3 code=0 good bad lacking
  shift 3
  rm -rf "$report"
  PYTHONPATH="$root/conformance" "$python" -m kina_conformance run --lib "$library" --report "$report" --format plain "$@" || code=$?
  read -r good bad lacking < <("$python" ci/counts.py "$report/report.json")
  passed=$((passed + good)) failed=$((failed + bad)) absent=$((absent + lacking))
  if [ "$code" -ne "$wanted" ]; then fail "kina-conformance ended with $code, not $wanted"; fi
}

# pytests NAME ARGUMENT...: runs tests of the Python side and counts them by pytest's closing line.
pytests() {
  local log="$root/build/pytest-$1.log"
  shift
  KINA_LIBRARY="$root/build/release/libkina.so.1" KINA_PROGRAMS="$root/build/release/programs" PYTHONPATH="$root/conformance" \
    "$python" -m pytest -q -p no:cacheprovider --color=no "$@" >"$log" 2>&1 || true
  tail -n 40 "$log"
  count() { tail -n 1 "$log" | awk -v word="$1" '{ for (i = 2; i <= NF; i++) if ($i ~ "^" word) sum += $(i - 1) } END { print sum + 0 }'; }
  passed=$((passed + $(count passed))) failed=$((failed + $(count failed) + $(count error))) absent=$((absent + $(count skipped)))
  [ "$passed" -gt 0 ] || fail "no test ran"
}
