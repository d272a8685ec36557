#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Whether every file has the form that .clang-format says.
#
#   format.sh SOURCE_FOLDER        exit code 77 (skipped): clang-format is not installed
set -eu
cd "$1"
command -v clang-format >/dev/null || { echo "clang-format is not installed"; exit 77; }
find analysis c cli engine examples inspector query sim storage tests training \
  \( -name '*.h' -o -name '*.cpp' -o -name '*.cu' \) -print0 2>/dev/null |
  xargs -0 -P 2 -n 100 clang-format --dry-run --Werror --ferror-limit=1 || {
  echo "run: git diff --name-only main | grep -E '[.](h|cpp|cu)$' | xargs clang-format -i"
  exit 1
}
