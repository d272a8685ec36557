// SPDX-License-Identifier: Apache-2.0
// Names of files of which each rank has its own: "run.{rank}.tessera".
#pragma once

#include <string>

#include "tessera/types.h"

namespace tessera {

bool names_rank(const std::string& path);
/// "run.3.tessera"; `path` itself where it does not name a rank.
std::string name_of_rank(const std::string& path, Rank rank);

}  // namespace tessera
