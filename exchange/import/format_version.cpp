// SPDX-License-Identifier: Apache-2.0
#include "exchange/import/format_version.h"

#include <fmt/format.h>

#include <algorithm>

#include "exchange/parse/table_columns.h"

namespace tessera::exchange {
namespace {

std::string text_of(FormatVersion version) {
  return fmt::format("{}.{}", version.first, version.second);
}

}  // namespace

std::optional<FormatVersion> format_version(std::string_view text) {
  constexpr int most = 1 << 20;
  constexpr const char* digits = "0123456789";
  int numbers[2] = {0, 0};
  std::size_t at = text.find_first_of(digits);
  if (at == text.npos) return {};
  for (int& number : numbers) {
    while (at < text.size() && text[at] >= '0' && text[at] <= '9') {
      number = std::min(most, number * 10 + (text[at++] - '0'));
    }
    const bool more =
        at + 1 < text.size() && text[at] == '.' && text[at + 1] >= '0' && text[at + 1] <= '9';
    if (!more) break;
    ++at;
  }
  return FormatVersion(numbers[0], numbers[1]);
}

void tell_version(std::string_view said, const KnownVersions& known, ImportedRun& run) {
  const std::optional<FormatVersion> version = format_version(said);
  if (version && *version >= known.first && *version <= known.last) return;
  const std::string range =
      known.first == known.last
          ? text_of(known.last)
          : fmt::format("{} to {}", text_of(known.first), text_of(known.last));
  run.warn(fmt::format(
      "{} are of {}, known is {}: what that one calls otherwise or has anew is "
      "not seen",
      known.files, version ? "version " + text_of(*version) : "an unnamed version", range));
}

Status tell_database_version(const SqliteFile& file, const VersionRow& at,
                             const KnownVersions& known, ImportedRun& run) {
  TESSERA_ASSIGN(const TableColumns about, TableColumns::of(file, at.table));
  if (!about.has_all({at.name_column, "value"})) return {};
  return file.rows(fmt::format("SELECT value FROM {} WHERE {} = '{}' LIMIT 1", about.quoted(),
                               at.name_column, at.name),
                   [&](const SqliteRow& row) {
                     tell_version(row.text(0), known, run);
                     return Status();
                   });
}

}  // namespace tessera::exchange
