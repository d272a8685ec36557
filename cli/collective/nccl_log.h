// SPDX-License-Identifier: Apache-2.0
// Reads what nccl-tests and rccl-tests print, of any version, also behind the names that mpirun and
// srun put before lines.
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

/// What one program printed.
struct NcclLog {
  std::optional<OpKind> kind;  // where the log says
  int ranks = 0;               // lines "#  Rank ..."; 0: none
  std::vector<NcclLogRow> rows;
  int wrong = 0;        // rows whose results were wrong, which are left out
  int unread = 0;       // lines that begin like rows and are none
  std::string failure;  // what the program failed with
};

/// One for each program that ran, at least one. Other lines are skipped. Fails: invalid_argument
/// (there is no row; a row whose time and bandwidth contradict each other), naming `source`.
Result<std::vector<NcclLog>> parse_nccl_logs(std::string_view text, const std::string& source);

/// What of the log a user should know, a sentence each.
std::vector<std::string> warnings_of(const NcclLog& log, const std::string& source);

}  // namespace tessera::cli
