// SPDX-License-Identifier: Apache-2.0
// Bus bandwidth by size as a picture.
#pragma once

#include <string>
#include <vector>

#include "cli/collective/collective_rows.h"

namespace tessera::cli {

/// An SVG document: a line per table, sizes by powers of two.
std::string collective_plot(const std::string& title, const std::vector<CollectiveTable>& tables);

}  // namespace tessera::cli
