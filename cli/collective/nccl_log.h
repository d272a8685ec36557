// SPDX-License-Identifier: Apache-2.0
// Reads what nccl-tests print.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "tessera/op.h"
#include "tessera/status.h"

namespace tessera::cli {

struct NcclLogRow {
  Bytes bytes{};
  double us = 0;  // out of place
};

struct NcclLog {
  std::optional<OpKind> kind;  // where the log says
  int ranks = 0;               // lines "#  Rank ..."; 0: none
  std::vector<NcclLogRow> rows;
};

/// Lines that are no rows are skipped. Fails: invalid_argument, if there is no row, naming
/// `source`.
Result<NcclLog> parse_nccl_log(std::string_view text, const std::string& source);

}  // namespace tessera::cli
