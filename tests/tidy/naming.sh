#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Whether names are written as .clang-tidy says, in the libraries and the program. Looks at the units
# that the build has compiled, so it takes minutes and not hours; the preset `tidy` has all checks.
#
#   naming.sh BUILD_FOLDER        exit code 77 (skipped): clang-tidy is not installed
set -eu
cd "$1"
command -v clang-tidy >/dev/null || { echo "clang-tidy is not installed"; exit 77; }
sed -n 's/^ *"file": "\(.*\)".*/\1/p' compile_commands.json | grep -v '/tests/\|/examples/\|[.]cu$' |
  xargs -P 2 -n 2 clang-tidy -p . --quiet --checks='-*,readability-identifier-naming' \
    --header-filter='/(analysis|c|cli|engine|inspector|sim|storage|training)/' \
    --extra-arg=-Wno-everything --extra-arg=-Wno-error 2>&1 |
  grep -A3 'error:' && exit 1
exit 0
