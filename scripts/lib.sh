# SPDX-License-Identifier: Apache-2.0
# Shared by demo and test, which source it: short progress lines, output only when something fails.

name=$(basename "$0")
started=$(date +%s)
log=build/$name.log
jobs=${CMAKE_BUILD_PARALLEL_LEVEL:-$(nproc)}
mkdir -p build

# Some tests build the library again, with the same flags in another folder.
if command -v ccache >/dev/null; then
  export CMAKE_CXX_COMPILER_LAUNCHER="${CMAKE_CXX_COMPILER_LAUNCHER-ccache}" CCACHE_NOHASHDIR=1
fi

say() { echo "$name: [$(($(date +%s) - started)) s] $*"; }

# Runs a command; its output goes to the log and is shown only if it fails: what failed first (the
# assertions of tests, the commands of a build stand far above the end), then the end.
quietly() {
  "$@" >"$log" 2>&1 && return
  grep -A 12 'FAILED:' "$log" | head -n 80 >&2
  tail -n 60 "$log" >&2
  say "failed: $*   (whole output: $log)" >&2
  exit 1
}

# build PRESET [cmake --build arguments...]: configures and builds in build/PRESET.
# $configure_options: more for the first of the two.
build() {
  preset=$1
  shift
  say "building preset $preset with $jobs jobs"
  quietly cmake --preset "$preset" ${configure_options-}
  quietly cmake --build --preset "$preset" --parallel "$jobs" "$@"
}
