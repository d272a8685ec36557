// SPDX-License-Identifier: Apache-2.0
// Imports of a test: files in a folder of its own, and the trace that they become.
#pragma once

#include <fstream>
#include <string>
#include <vector>

#include "tessera/analysis/trace.h"
#include "tessera/exchange/import.h"
#include "tests/require_ok.h"
#include "tests/temporary_folder.h"

namespace tessera::test {

/// A recorded file of these tests.
inline std::string recorded(const std::string& name) {
  return std::string(TESSERA_SOURCE_DIR) + "/tests/exchange/data/" + name;
}

class Imports {
 public:
  std::string path(const std::string& name) const { return folder_.path() + "/" + name; }
  /// Writes a file and returns its path.
  std::string file(const std::string& name, const std::string& content) const {
    std::ofstream(path(name), std::ios::binary) << content;
    return path(name);
  }
  Result<exchange::Imported> import(const std::vector<std::string>& files,
                                    const exchange::ImportOptions& options = {}) const {
    return exchange::import_traces(files, path("out.tessera"), options);
  }
  analysis::Trace trace() const {
    return require_value(analysis::Trace::open(path("out.tessera")));
  }

 private:
  TemporaryFolder folder_;
};

}  // namespace tessera::test
