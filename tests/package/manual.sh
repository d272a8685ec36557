#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Does what docs/embedding.md says, literally, in an empty folder with an installed Tessera.
#   manual.sh PREFIX FOLDER [mpi]
set -eu
root=$(cd "$(dirname "$0")/../.." && pwd)
. "$root/tests/package/block.sh"
prefix=$1 folder=$2 mpi=${3-}
manual=$root/docs/embedding.md
rm -rf "$folder"
mkdir -p "$folder/cmake" "$folder/pkg-config" "$folder/c"
ln -s "$prefix" "$folder/tessera"
HOME=$folder
export HOME CMAKE_BUILD_TYPE=None
block "$manual" '## Install' 2 >"$folder/exports.sh"
. "$folder/exports.sh"
[ "$(command -v tessera)" = "$folder/tessera/bin/tessera" ]

runs() {
  said=$("$@" ./my_program)
  echo "$said" | tail -n 1
}
cd "$folder/cmake"
block "$manual" '## C++' 1 >CMakeLists.txt
block "$manual" '## C++' 3 >main.cpp
cmake . >configured
! grep -A 5 Warning configured
cmake --build . >/dev/null
runs env
[ -z "$mpi" ] || runs mpirun -n 4
cd "$folder/pkg-config"
cp ../cmake/main.cpp .
block "$manual" '## C++' 2 >build.sh
sh -e ./build.sh
runs env
[ "$(pkg-config --variable=modules tessera | xargs realpath)" = "$(realpath "$TESSERA_MODULES")" ]

cd "$folder/c"
cp "$root/examples/train_c.c" main.c
block "$manual" '## C' 1 >CMakeLists.txt
cmake . >/dev/null
cmake --build . >/dev/null
runs env
rm my_program
block "$manual" '## C' 2 >build.sh
sh -e ./build.sh
runs env
echo "the manual works"
