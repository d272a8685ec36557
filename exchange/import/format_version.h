// SPDX-License-Identifier: Apache-2.0
// Which versions of a format are known, and the one warning about files of another.
//
//   tell_version(text, {"dumps of PyTorch's Flight Recorder", {2, 0}, {2, 10}}, run);
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "exchange/import/imported_run.h"
#include "exchange/parse/sqlite_file.h"

namespace tessera::exchange {

using FormatVersion = std::pair<int, int>;

/// The first two numbers: {2, 10} of "2.10", {4, 0} of "v4.0", {1, 0} of "1.0.2-chakra.0.0.4" and
/// of "1"; nothing without a number.
std::optional<FormatVersion> format_version(std::string_view text);

struct KnownVersions {
  const char* files;  // "logs of NCCL's Inspector"
  FormatVersion first, last;
};

/// Warns of files that say another version than those. A later one may have fields that nobody
/// reads here, or other meanings of those that are read: what is known of it is imported.
void tell_version(std::string_view said, const KnownVersions& known, ImportedRun& run);

/// The same of a database whose `table` has rows of a `name_column` and a "value".
struct VersionRow {
  std::string table;
  const char *name_column, *name;
};
/// Says nothing of a database without that table or row. Fails: as SqliteFile::rows.
Status tell_database_version(const SqliteFile& file, const VersionRow& at,
                             const KnownVersions& known, ImportedRun& run);

}  // namespace tessera::exchange
