// SPDX-License-Identifier: Apache-2.0
// The formats that can be imported: a row each in formats.cpp, in the order in which they are
// asked.
#pragma once

#include <span>

#include "exchange/import/imported_run.h"
#include "exchange/parse/source_file.h"

namespace tessera::exchange {

struct ImportLimits {
  std::int64_t spans_max = 0;  // of all ranks together
};

struct Format {
  const char* name;
  /// Whether the content looks like it: from head() and tables() alone.
  bool (*recognises)(const SourceFile& source);
  /// Adds what the file tells. Fails with one sentence that names the file; never half silently.
  Status (*read)(SourceFile& source, const ImportLimits& limits, ImportedRun& run);
  /// Called once after all files, if any was of this format: what only all of them tell (missing
  /// ranks). May be null.
  Status (*conclude)(ImportedRun& run) = nullptr;
};

std::span<const Format> formats();

/// The first that recognises it. Fails: invalid_argument, with the names of all.
Result<const Format*> format_of(const SourceFile& source);

}  // namespace tessera::exchange
