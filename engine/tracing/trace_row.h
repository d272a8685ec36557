// SPDX-License-Identifier: Apache-2.0
// An operation as the trace shows it, the same whoever carries it out.
#pragma once

#include <string>

#include "tessera/op.h"

namespace tessera {

/// `op` points into this row and into the Op's cause. `algorithm` and `after` are the backend's.
struct TraceRow {
  TraceRow(const Op& from, EventId event);
  TraceRow(const TraceRow&) = delete;
  TraceRow& operator=(const TraceRow&) = delete;

  std::string label;  // "all_gather model.layers.3"
  TraceOp op;
};

}  // namespace tessera
