// SPDX-License-Identifier: Apache-2.0
// Which lanes spans of a device's streams and a host's threads go to, where a source tells only
// their numbers.
//
// The idea: lanes are named by use, as numbers differ between ranks. What a stream is for is known
// when all of its spans are.
#pragma once

#include <map>

#include "exchange/import/imported_run.h"

namespace tessera::exchange {

class SourceLanes {
 public:
  /// Both must outlive it.
  SourceLanes(ImportedRank& rank, ImportedRun& run) : rank_(rank), run_(run) {}

  /// A kernel of a stream; those of NCCL and RCCL are told by their names and become collectives.
  void kernel(std::int64_t stream, Time begin, Time end, std::string_view name);
  /// A copy or a memset. `bytes`: 0 if unknown.
  void copy(std::int64_t stream, Time begin, Time end, std::string_view name, Bytes bytes);
  /// An annotation of a thread; names that number a step mark one, too.
  void annotation(std::int64_t thread, Time begin, Time end, std::string_view name);
  /// The host waits for the device.
  void wait(Time begin, Time end, std::string_view name);

  /// Puts all of them into lanes of the rank. Last call.
  void finish();

 private:
  enum class Use : std::uint8_t { stream, nccl, thread, waits };
  struct Lane {
    std::int32_t index = 0;  // in order of first use
    std::int64_t kernels = 0, copies = 0, spans = 0;
    double busy = 0;         // ns
    std::int32_t lane = -1;  // of the rank, when it is known
  };
  using Lanes = std::map<std::int64_t, Lane>;

  Lane& lane_of(Use use, std::int64_t number);
  void add(Use use, Lane& lane, ImportedSpan span);
  void name_lanes(Use use, const char* name, StreamRole role);

  ImportedRank& rank_;
  ImportedRun& run_;
  std::map<Use, Lanes> lanes_;
  std::vector<std::pair<Use, std::int64_t>> by_index_;
  std::size_t first_span_ = rank_.spans.size();
  std::size_t first_collective_ = rank_.collectives.size();
  std::map<std::int64_t, ImportedStep> steps_;
};

/// The number in "step 3", "ProfilerStep#3", "iteration_3", "Iter: 3"; -1: names no step.
std::int64_t step_in_name(std::string_view name);

/// Waits for a device that are shorter say nothing.
inline constexpr Time host_wait_min = 50'000;
/// What all others are, among what is left out.
inline constexpr std::string_view calls_of_runtime = "calls of the runtime";

}  // namespace tessera::exchange
