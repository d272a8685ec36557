// SPDX-License-Identifier: Apache-2.0
// Communication of one rank by process group, kind and algorithm, or by unit, and all of its
// operations by kind and phase, in any range of time.
//
// The idea: people ask which group costs what, so a row is what one group does for one purpose,
// with rates by bytes over time (algbw) and per link (busbw), as nccl-tests define them, and the
// part of the time in which nothing is computed.
//
//   for (const GroupUsage& row : group_usage(trace, lanes, compute, step.first, step.second))
//     print(row.group, name_of(row.kind), row.bytes, row.exposed);
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "tessera/analysis/spans.h"

namespace tessera::analysis {

/// What a row is about.
enum class UsageBy : std::uint8_t {
  group,     // collectives of a process group, by kind and algorithm
  unit,      // collectives of a unit, by kind
  operation  // everything, by kind and phase: "backward compute"
};

/// Times are ns of the rank, rates bytes/s; 0 where there is none.
struct GroupUsage {
  std::string name;   // the unit or the operation; "" of groups
  std::string group;  // the communicator's name
  std::int32_t group_size = 0;
  OpKind kind = OpKind::all_gather;
  std::string algorithm;  // "" if unknown
  std::int64_t count = 0;
  Bytes bytes{};       // sum
  Time duration = 0;   // sum
  Time wait = 0;       // sum: until the last member had come
  Time transfer = 0;   // sum: from then on
  Time exposed = 0;    // sum: parts of both in which the rank computes nothing
  Time blocking = -1;  // sum: of these, parts for which compute stood still; -1: unknown
  double algorithm_bandwidth = 0;  // median over the spans
  double bus_bandwidth = 0;        // median over the spans
  double link_bandwidth = 0;       // what the links of a process group carry, if that is known
  std::int32_t costliest = -1;     // the op with the longest exposed part, or else the longest
};

/// What begins in [from, to) on the rank of `lanes`: the most exposed rows first, then those with
/// the longest transfers, equal ones by group and kind; all operations by their time.
std::vector<GroupUsage> group_usage(const Trace& trace, Lanes lanes, Lanes compute, Time from,
                                    Time to, UsageBy by = UsageBy::group);

/// One collective as a point of size and rate.
struct TransferPoint {
  Bytes bytes{};
  double bus_bandwidth = 0;
  double link_bandwidth = 0;  // as above
  OpKind kind = OpKind::all_gather;
  std::int32_t op = 0;
};

/// Those of [from, to) with a rate, at most `count`, evenly chosen.
std::vector<TransferPoint> transfer_points(const Trace& trace, Lanes lanes, Time from, Time to,
                                           std::size_t count);

/// Both of a range that is too long for memory, a part at a time.
///
///   UsageSum sum;
///   for (each part of the range) sum.add(trace, lanes, compute, part.first, part.second);
///   show(sum.rows(trace), sum.points(3000));
class UsageSum {
 public:
  explicit UsageSum(UsageBy by = UsageBy::group);
  ~UsageSum();

  /// What begins in [from, to); `lanes` and `compute` have these spans, all that hides them and
  /// what waited for them.
  void add(const Trace& trace, Lanes lanes, Lanes compute, Time from, Time to);
  /// As `group_usage`.
  std::vector<GroupUsage> rows(const Trace& trace) const;
  /// As `transfer_points`.
  std::vector<TransferPoint> points(std::size_t count) const;

 private:
  struct Sums;
  std::unique_ptr<Sums> sums_;
};

}  // namespace tessera::analysis
