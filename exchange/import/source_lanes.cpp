// SPDX-License-Identifier: Apache-2.0
#include "exchange/import/source_lanes.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>

#include "exchange/import/torch_collectives.h"

namespace tessera::exchange {
namespace {

constexpr std::size_t lane_name_max = 160;  // characters of a label
constexpr std::size_t lanes_max = 1024;     // more are no streams but numbers that someone made up

/// Names of kernels without "void ", which says nothing.
std::string_view label_of(std::string_view name) {
  if (name.starts_with("void ")) name.remove_prefix(5);
  return name.substr(0, lane_name_max);
}

}  // namespace

std::int64_t step_in_name(std::string_view name) {
  constexpr std::string_view words[] = {"profilerstep", "training_step", "train_step", "step",
                                        "iteration",    "iter",          "batch"};
  std::string small;
  for (const char c : name.substr(0, 40)) {
    small += c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
  }
  for (const std::string_view word : words) {
    if (!small.starts_with(word)) continue;
    const std::size_t digit = small.find_first_not_of(" #:=_-([", word.size());
    if (digit == std::string::npos) return -1;
    std::int32_t number = -1;
    const auto read = std::from_chars(small.data() + digit, small.data() + small.size(), number);
    const bool over = read.ptr == small.data() + small.size() || *read.ptr < 'a' || *read.ptr > 'z';
    if (read.ec == std::errc() && number >= 0 && over) return number;
  }
  return -1;
}

SourceLanes::Lane& SourceLanes::lane_of(Use use, std::int64_t number) {
  Lanes& lanes = lanes_[use];
  const auto found = lanes.find(number);
  if (found != lanes.end()) return found->second;
  if (lanes.size() >= lanes_max) return lanes.begin()->second;
  Lane& lane = lanes[number];
  lane.index = static_cast<std::int32_t>(by_index_.size());
  by_index_.emplace_back(use, number);
  return lane;
}

void SourceLanes::add(Use use, Lane& lane, ImportedSpan span) {
  ++lane.spans;
  if (use == Use::stream && span.kind == OpKind::compute) ++lane.kernels;
  lane.busy += static_cast<double>(span.end - span.begin);
  span.lane = lane.index;  // until lanes are known
  rank_.spans.push_back(span);
}

void SourceLanes::kernel(std::int64_t stream, Time begin, Time end, std::string_view name) {
  ImportedSpan span{.begin = begin, .end = end, .name = run_.text(label_of(name))};
  if (!is_nccl_kernel(name)) return add(Use::stream, lane_of(Use::stream, stream), span);
  Lane& lane = lane_of(Use::nccl, stream);
  span.kind = OpKind::copy;
  if (const auto kind = collective_kind(name)) {
    span.kind = *kind;
    span.collective = static_cast<std::int32_t>(rank_.collectives.size());
    rank_.collectives.push_back({.group = lane.index,  // until lanes are known
                                 .algorithm = run_.text(nccl_algorithm(name))});
  } else {
    run_.lost("kinds of collectives whose kernels do not tell them");
  }
  add(Use::nccl, lane, span);
}

void SourceLanes::copy(std::int64_t stream, Time begin, Time end, std::string_view name,
                       Bytes bytes) {
  Lane& lane = lane_of(Use::stream, stream);
  ++lane.copies;
  add(Use::stream, lane,
      {.begin = begin,
       .end = end,
       .name = run_.text(label_of(name)),
       .kind = OpKind::copy,
       .bytes = bytes});
}

void SourceLanes::annotation(std::int64_t thread, Time begin, Time end, std::string_view name) {
  const std::int64_t step = step_in_name(name);
  if (step >= 0) steps_.try_emplace(step, ImportedStep{step, begin, end});
  add(Use::thread, lane_of(Use::thread, thread),
      {.begin = begin, .end = end, .name = run_.text(step >= 0 ? "step" : label_of(name))});
}

void SourceLanes::wait(Time begin, Time end, std::string_view name) {
  add(Use::waits, lane_of(Use::waits, 0),
      {.begin = begin, .end = end, .name = run_.text(label_of(name))});
}

/// The busiest gets the plain name.
void SourceLanes::name_lanes(Use use, const char* name, StreamRole role) {
  std::vector<Lane*> order;
  for (auto& [number, lane] : lanes_[use]) {
    if (lane.spans > 0 && lane.lane < 0) order.push_back(&lane);
  }
  std::stable_sort(order.begin(), order.end(),
                   [](const Lane* a, const Lane* b) { return a->busy > b->busy; });
  int nth = 0;
  for (Lane* lane : order) {
    const std::string numbered = ++nth == 1 ? std::string(name) : fmt::format("{} {}", name, nth);
    lane->lane = rank_.lane(numbered, role, run_);
  }
}

void SourceLanes::finish() {
  // Streams that only copy are named by that; all that is left computes.
  std::map<std::int64_t, std::int64_t> hidden;
  for (auto& [number, lane] : lanes_[Use::stream]) {
    if (lane.kernels == 0) continue;
    hidden[number] = lane.spans;
    lane.spans = 0;
  }
  name_lanes(Use::stream, "copy", StreamRole::copy);
  for (auto& [number, spans] : hidden) lanes_[Use::stream][number].spans = spans;
  name_lanes(Use::stream, "compute", StreamRole::compute);
  name_lanes(Use::nccl, "nccl", StreamRole::communication);
  name_lanes(Use::thread, "main thread, annotations", StreamRole::host);
  name_lanes(Use::waits, "host waits", StreamRole::host);
  std::vector<std::int32_t> lane_of_index;
  for (const auto& [use, number] : by_index_) lane_of_index.push_back(lanes_[use][number].lane);
  for (std::size_t i = first_span_; i < rank_.spans.size(); ++i) {
    rank_.spans[i].lane = lane_of_index[static_cast<std::size_t>(rank_.spans[i].lane)];
  }
  for (std::size_t i = first_collective_; i < rank_.collectives.size(); ++i) {
    const std::int32_t lane = lane_of_index[static_cast<std::size_t>(rank_.collectives[i].group)];
    const std::string& name = run_.text(rank_.lanes[static_cast<std::size_t>(lane)].name);
    rank_.collectives[i].group = run_.group({.name = name});
  }
  for (const auto& [number, step] : steps_) rank_.steps.push_back(step);
}

}  // namespace tessera::exchange
