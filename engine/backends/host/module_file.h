// SPDX-License-Identifier: Apache-2.0
// Where modules lie that the program opens at run time.
#pragma once

#include <filesystem>
#include <optional>
#include <string>

namespace tessera {

/// The module `file` ("libtessera_mpi.so") in `folder` if that is not empty, else in that of the
/// environment variable TESSERA_MODULES if there is one, else beside the program, in its
/// ../lib/tessera, or in tessera/ beside the shared library that has this code; none if it is not
/// there.
std::optional<std::filesystem::path> find_module(const std::string& file,
                                                 const std::string& folder);

}  // namespace tessera
