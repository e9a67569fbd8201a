# shellcheck shell=bash disable=SC2034
# Which packages ci/setup asks for. Releases number some of them differently: of each row the first that apt here knows is
# taken; NAME>=VERSION counts only where it is at least that. ci/setup-choice runs this for three releases.

package_rows=(
  ca-certificates ccache cmake gcc git ninja-build pkg-config shellcheck
  "g++>=12 g++-12 g++-13 g++-14"              # C++20 as the project uses it needs 12
  "g++-aarch64-linux-gnu>=12 g++-12-aarch64-linux-gnu g++-13-aarch64-linux-gnu" # ci/crossbuild
  "clang-14 clang-15 clang-16 clang-17 clang-18 clang-19"
  "clang-tidy-14 clang-tidy-15 clang-tidy-16 clang-tidy-17 clang-tidy-18 clang-tidy-19"
  libbenchmark-dev                            # benchmarks
  libgtest-dev                                # unit tests
  libmimalloc-dev                             # the benchmarks' peer
  libopenblas0-serial                         # products of the host device, opened at the first one
  valgrind
)
python_row="python3>=3.11 python3.11 python3.12 python3.13"

# first_known ROW: the first package of a row that apt would install; the first of all, and failure, where there is none.
# Candidates are looked up in `candidates`, a table that `read_candidates` has filled.
first_known() {
  local word name version
  for word in $1; do
    name=${word%%>=*} version=${candidates[${word%%>=*}]:-}
    [ -n "$version" ] || continue
    if [ "$name" != "$word" ] && [ "$(printf '%s\n' "${word##*>=}" "${version#*:}" | sort -V | head -n 1)" != "${word##*>=}" ]; then
      continue
    fi
    printf '%s\n' "$name"
    return
  done
  name=${1%% *}
  printf '%s\n' "${name%%>=*}"
  return 1
}

# read_candidates: what apt would install of all that could be asked for; "(none)" is nothing.
read_candidates() {
  local names name version
  declare -gA candidates=()
  read -ra names <<<"${package_rows[*]} $python_row clang-format-14 libtorch-dev python3-torch"
  while read -r name version; do candidates[$name]=$version; done < <(
    apt-cache policy "${names[@]%%>=*}" 2>/dev/null | awk '/^[^ ].*:$/ { name = substr($1, 1, length($1) - 1) } $1 == "Candidate:" && $2 !~ /^\(/ { print name, $2 }'
  )
}

# choose_packages: sets `packages`, `unknown` (rows of which apt knows none), `interpreter`, and `from_pip`: what is taken from
# PyPI because the distribution has none that fits.
choose_packages() {
  local row name
  packages=() unknown=() from_pip=()
  read_candidates
  for row in "${package_rows[@]}" "$python_row"; do
    name=$(first_known "$row") || unknown+=("$row")
    packages+=("$name")
  done
  interpreter=/usr/bin/$name
  packages+=("$name-venv")
  # The layout is that of clang-format 14, and no other's is the same.
  if first_known clang-format-14 >/dev/null; then packages+=(clang-format-14); else from_pip+=(clang-format==14.0.6); fi
  # PyTorch, the demo's second reader and a peer of the benchmarks, is the distribution's where that is for this Python.
  if [ "$name" = python3 ] && first_known python3-torch >/dev/null && first_known libtorch-dev >/dev/null; then
    packages+=(libtorch-dev python3-torch)
  else
    from_pip+=(torch==2.5.1)
  fi
}
