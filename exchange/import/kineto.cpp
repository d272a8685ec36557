// SPDX-License-Identifier: Apache-2.0
#include "exchange/import/kineto.h"

namespace tessera::exchange {

bool is_kineto(const SourceFile& source) {
  return source.head().find("\"traceEvents\"") != std::string_view::npos;
}

Status read_kineto(SourceFile& source, const ImportLimits&, ImportedRun&) {
  return source.error(Code::not_supported, "it cannot be read yet");
}

}  // namespace tessera::exchange
