#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# The same options give the same bytes: traces of all schemes by this build (g++ -O1) and by another
# compiler's with more optimisation are compared byte by byte, and this program's first with its
# second.
#
#   compare_compilers.sh MODELS WORK_DIR TRACES OTHER_TRACES
#
# The last two are the program of traces.cpp. Exit code 77: no second compiler, skipped.
set -eu
models=$1
traces=$2/traces
this_build=$3
other_build=$4

if ! command -v clang++ >/dev/null; then
  echo "skipped: clang++ is missing; scripts/bootstrap installs it"
  exit 77
fi

rm -rf "$traces"
mkdir -p "$traces/first" "$traces/second" "$traces/other" "$traces/seed"
"$this_build" "$models" "$traces/first"
"$this_build" "$models" "$traces/second"
"$other_build" "$models" "$traces/other"
"$this_build" "$models" "$traces/seed" 8

failures=0
failed() {
  echo "FAILED: $*"
  failures=$((failures + 1))
}

for trace in "$traces"/first/*.tessera; do
  name=${trace##*/}
  cmp "$trace" "$traces/second/$name" || failed "$name differs when it is made again"
  cmp "$trace" "$traces/other/$name" || failed "$name differs between compilers"
  # What this would miss if it compared nothing: another seed must give other bytes.
  ! cmp -s "$trace" "$traces/seed/$name" || failed "$name is the same for --seed 7 and 8"
  echo "compared $name: $(cksum <"$trace")"
done
[ -e "$trace" ] || failed "no trace was written"
[ $failures -eq 0 ]
