// SPDX-License-Identifier: Apache-2.0
// Which spans of several ranks are one operation, and the rows of operations and spans.
//
// The idea: ranks of one run do alike, so the n-th span of the same name, kind, unit and stream in
// a step is the same operation on all of them; a collective is what was matched. Parts of the run
// are written one after the other, so that what has to be remembered is one step's.
#pragma once

#include <map>
#include <string>
#include <tuple>
#include <unordered_map>
#include <vector>

#include "exchange/import/match_collectives.h"
#include "exchange/import/step_sums.h"

namespace tessera::exchange {

class OpRows {
 public:
  /// Spans of ranks are sorted by lane and begin, and their steps are parts.
  OpRows(const ImportedRun& run, const CollectiveMatches& matches, const StepTable& steps,
         TraceSink& sink);

  /// Rows of streams and communicators.
  void declare();
  /// Operations and spans of everything.
  void write();

  /// Of one rank, in any order; after `write`.
  const std::vector<CollectiveTimes>& collectives(std::size_t rank) const {
    return collectives_[rank];
  }
  std::int64_t spans() const { return spans_; }
  /// Collectives whose members were not all imported, so that nobody knows who waited.
  std::int64_t without_wait() const { return without_wait_; }
  /// Units that ops name, in order of first use.
  const std::vector<TextId>& units() const { return units_; }

 private:
  struct Instance {
    Time ready = 0;
    std::int32_t seen = 0;
    std::int32_t size = 0;
  };
  struct Key {
    std::int32_t stream = 0, communicator = -1;
    TextId name = 0, unit = 0, module = 0;
    OpKind kind = OpKind::compute;
    Phase phase = Phase::none;
    Reason reason = Reason::none;
    std::int32_t nth = 0;
    bool operator==(const Key&) const = default;
  };
  struct KeyHash {
    std::size_t operator()(const Key& key) const;
  };
  using Ids = std::unordered_map<Key, std::int32_t, KeyHash>;

  void find_ready();
  std::int32_t stream_of(const ImportedRank& rank, std::int32_t lane) const;
  std::int32_t communicator_of(std::int32_t group) const;
  Key key_of(const ImportedRank& rank, const ImportedSpan& span) const;
  std::int32_t op_of(std::size_t rank, const ImportedSpan& span);
  std::int32_t new_op(const ImportedRank& rank, const ImportedSpan& span, const Key& key);
  void write_part(std::int32_t part);
  void write_span(std::size_t rank, const ImportedSpan& span, std::int32_t op);

  const ImportedRun& run_;
  const CollectiveMatches& matches_;
  const StepTable& steps_;
  TraceSink& sink_;
  std::map<TextId, std::int32_t> streams_;                                      // by name
  std::map<std::pair<std::string, std::int32_t>, std::int32_t> communicators_;  // description, size
  std::vector<std::int32_t> communicator_of_group_;
  std::vector<Instance> instances_;
  std::vector<std::vector<std::size_t>> order_;  // by rank: spans by part and begin
  std::vector<std::size_t> next_;                // by rank: of order_
  std::vector<std::vector<CollectiveTimes>> collectives_;
  std::vector<TextId> units_;
  std::vector<bool> unit_known_;
  std::int32_t ops_ = 0;
  std::int64_t spans_ = 0, without_wait_ = 0;
  // Of the part being written.
  Ids ids_;
  std::unordered_map<Key, std::int32_t, KeyHash> counts_;  // nth: rank or group
  std::map<std::pair<std::int32_t, std::int32_t>, std::int32_t> op_of_matched_;  // and stream
};

}  // namespace tessera::exchange
