#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# The same options give the same bytes: traces of this build (g++ -O1) and of another compiler's
# with more optimisation are compared byte by byte, and this program's first run with its second.
#
#   compare_compilers.sh SOURCE_DIR WORK_DIR TESSERA OTHER_TESSERA
#
# Exit code 77: no second compiler, skipped.
set -eu
source_dir=$1
work_dir=$2
this_build=$3
other_build=$4

if ! command -v clang++ >/dev/null; then
  echo "skipped: clang++ is missing; scripts/bootstrap installs it"
  exit 77
fi

failures=0
traces=$work_dir/traces
rm -rf "$traces"
mkdir -p "$traces"

# simulate PROGRAM TRACE OPTIONS...: the name of the trace file must not matter either.
simulate() {
  program=$1
  trace=$2
  shift 2
  # 3: simulated, but the run needs more memory than there is; the trace says so and counts too.
  "$program" simulate "$@" --quiet -o "$trace" || [ $? -eq 3 ]
}

same() {
  cmp "$1" "$2" && return
  echo "FAILED: $1 and $2 differ (options: $3)"
  failures=$((failures + 1))
}

# compare NAME OPTIONS...: this build, this build again, and the other.
compare() {
  set_name=$1
  shift
  simulate "$this_build" "$traces/$set_name.first.tessera" "$@"
  simulate "$this_build" "$traces/$set_name.second.tessera" "$@"
  simulate "$other_build" "$traces/$set_name.clang.tessera" "$@"
  for other in second clang; do
    same "$traces/$set_name.first.tessera" "$traces/$set_name.$other.tessera" "$*"
  done
  echo "compared $set_name: $(cksum <"$traces/$set_name.first.tessera")"
}

models=$source_dir/examples/models
compare jitter "$models/llama-3-8b.json" --cluster dgx-h100 --nodes 2 --scheme fully_shard \
  --steps 2 --seed 7 --jitter 0.02
compare slow_rank "$models/mistral-7b.json" --cluster dgx-a100 --nodes 4 --scheme fully_shard \
  --steps 2 --seed 8 --jitter 0.01 --slow-rank 5:1.2
compare gpt2 "$models/gpt2.json" --cluster dgx-a100 --nodes 1 --scheme fully_shard \
  --steps 3 --seed 9
compare zero3 "$models/gpt2.json" --cluster dgx-h100 --nodes 2 --scheme zero3 --steps 3 --seed 10 \
  --jitter 0.01
compare owners "$models/gpt2.json" --cluster dgx-h100 --nodes 1 --scheme sharded_data_parallel \
  --steps 2 --seed 11 --jitter 0.01

# What the comparison would miss if it compared nothing: another seed must give other bytes.
simulate "$this_build" "$traces/other_seed.tessera" "$models/llama-3-8b.json" --cluster dgx-h100 \
  --nodes 2 --scheme fully_shard --steps 2 --seed 8 --jitter 0.02
if cmp -s "$traces/jitter.first.tessera" "$traces/other_seed.tessera"; then
  echo "FAILED: --seed 7 and --seed 8 give the same trace"
  failures=$((failures + 1))
fi

[ $failures -eq 0 ]
