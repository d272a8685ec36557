#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# The same options give the same bytes, whatever compiled them: traces of all schemes are made and
# their sums compared with those in bytes.txt, which is one for all compilers, optimisations and
# sanitizers. Another seed must give other bytes.
#
#   same_bytes.sh PROGRAM MODELS WORK_DIR       PROGRAM: of traces.cpp
set -eu
program=$1
models=$2
work=$3/traces
sums=$(dirname "$0")/bytes.txt

rm -rf "$work"
mkdir -p "$work/made" "$work/seed"
"$program" "$models" "$work/made"
"$program" "$models" "$work/seed" 8

failures=0
failed() {
  echo "FAILED: $*"
  failures=$((failures + 1))
}

(cd "$work/made" && cksum *.tessera) >"$work/bytes.txt"
for trace in "$work"/made/*.tessera; do
  name=${trace##*/}
  # What this would miss if it compared nothing.
  ! cmp -s "$trace" "$work/seed/$name" || failed "$name is the same for seeds 7 and 8"
done
diff "$sums" "$work/bytes.txt" ||
  failed "other bytes than those of bytes.txt; if all compilers shall make these from now on:
  cp $work/bytes.txt $sums"
[ $failures -eq 0 ]
