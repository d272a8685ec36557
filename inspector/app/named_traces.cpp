// SPDX-License-Identifier: Apache-2.0
// What the name of a file means.
#include "tessera/analysis/compared_files.h"
#include "tessera/inspector/inspector.h"

namespace tessera::inspector {

Result<NamedTraces> named_traces(const std::string& path) {
  TESSERA_ASSIGN(const auto compared, analysis::read_compared_files(path));
  if (!compared) return NamedTraces{trace_file(path), ""};
  return NamedTraces{trace_file(compared->a), trace_file(compared->b)};
}

}  // namespace tessera::inspector
