// SPDX-License-Identifier: Apache-2.0
// What can be said about one span: durations, bandwidth, what was exposed, why it ran.
#pragma once

#include <string>
#include <vector>

#include "inspector/model/trace_model.h"

namespace tessera::inspector {

struct SpanFacts {
  Time begin = 0;
  Time duration = 0;
  Time wait = 0;      // collectives: until the last member arrived
  Time transfer = 0;  // collectives: from then on
  Time exposed = 0;   // collectives: parts in which the rank's compute stream does nothing
  double busbw = 0;   // bytes per second, 0 if it has none
  double algbw = 0;
  Time kernel = 0;          // collectives: on the device, as the communication library says
  double kernel_busbw = 0;  // by that time
  double flops_per_s = 0;   // compute
  bool collective = false;
};

SpanFacts facts_of(TraceModel& model, const SpanRef& span);

/// busbw as nccl-tests define it (doc/PERFORMANCE.md): algbw times (n-1)/n for all_gather and
/// reduce_scatter, 2(n-1)/n for all_reduce, 1 otherwise.
double bus_factor(OpKind kind, std::int32_t group_size);

/// The parts of [begin, end) in which no compute stream of the rank runs.
std::vector<std::pair<Time, Time>> exposed_parts(TraceModel& model, const SpanRef& span);

/// "all_gather": how a kind is written for people; copies say what they do.
std::string title_of(const storage::OpRow& op);
/// "model.layers.17" -> "layers.17": the end of a path that tells siblings apart.
std::string short_name(const std::string& path);
/// Units between a prefetch and its first use; -1 if the op is no prefetch or is never used.
std::int32_t prefetch_distance(TraceModel& model, const SpanRef& span);

}  // namespace tessera::inspector
