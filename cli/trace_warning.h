// SPDX-License-Identifier: Apache-2.0
// What has to be said about a trace before anything in it is shown.
#pragma once

#include <string>

#include "tessera/storage/trace_reader.h"

namespace tessera::cli {

/// One line on stderr if the recording is unfinished: until when it reaches.
void warn_of_trace(const std::string& path, const storage::TraceInfo& info);

/// For `storage::TraceWriterOptions::warn`: one line on stderr.
void warn_of_recording(const std::string& sentence);

/// ns, of a clock that only ascends.
Time steady_time();

}  // namespace tessera::cli
