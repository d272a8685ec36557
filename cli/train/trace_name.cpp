// SPDX-License-Identifier: Apache-2.0
#include "cli/train/trace_name.h"

#include "cli/text_file.h"
#include "tessera/storage/begins_as_trace.h"

namespace tessera::cli {

Status check_trace_name(const char* option, const std::string& path) {
  return check_overwrites(option, path, [](std::string_view begin) {
    return storage::begins_as_trace(begin) ? "" : "is no trace";
  });
}

}  // namespace tessera::cli
