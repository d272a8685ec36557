// SPDX-License-Identifier: Apache-2.0
// How operations and paths are written for people.
#pragma once

#include <string>

#include "tessera/storage/trace_reader.h"

namespace tessera::inspector {

/// "all_gather": a kind; copies and the engine's own work say what they do.
std::string title_of(const storage::OpRow& op);
/// "model.layers.17" -> "layers.17": the end of a path that tells siblings apart.
std::string short_name(const std::string& path);
/// The module that an op works for, or its unit.
const std::string& subject_of(const storage::OpRow& op);
/// What the tool calls it that an imported run is from, "aten::linear"; "" of other runs, and of
/// collectives, of which more is known than a name.
std::string foreign_name(const TraceRun& run, const storage::OpRow& op);
/// "h.2" comes before "h.10".
bool in_natural_order(const std::string& a, const std::string& b);

}  // namespace tessera::inspector
