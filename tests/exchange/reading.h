// SPDX-License-Identifier: Apache-2.0
// Reads files of tests/exchange/data by one format's reader.
#pragma once

#include "exchange/import/format.h"
#include "tests/require_ok.h"

namespace tessera::exchange {

using FormatReader = decltype(Format::read);

inline constexpr ImportLimits test_limits{.spans_max = 1'000'000};

inline std::string data_path(const std::string& name) {
  return std::string(TESSERA_SOURCE_DIR "/tests/exchange/data/") + name;
}

inline void read_into(ImportedRun& run, FormatReader reader, const std::string& path) {
  Result<SourceFile> source = SourceFile::open(path);
  test::require_ok(source.status());
  const auto format = format_of(*source);
  test::require_ok(format.status());
  CHECK((*format)->read == reader);
  test::require_ok(reader(*source, test_limits, run));
}

inline ImportedRun read_one(FormatReader reader, const std::string& name) {
  ImportedRun run;
  read_into(run, reader, data_path(name));
  return run;
}

}  // namespace tessera::exchange
