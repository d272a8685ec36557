// SPDX-License-Identifier: Apache-2.0
// What is said of one operation on one rank, line by line: beside the mouse, and as copied text.
#pragma once

#include <string>
#include <vector>

#include "inspector/model/trace_model.h"

namespace tessera::inspector {

struct SpanLines {
  std::string title;
  std::vector<std::string> place, figures;  // of which rank and step it is, and what it took
};
/// REQUIRES: a span of `model`.
SpanLines span_lines(TraceModel& model, const SpanRef& span);

}  // namespace tessera::inspector
