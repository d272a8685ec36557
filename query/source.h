// SPDX-License-Identifier: Apache-2.0
// The trace behind the virtual tables of one connection, with what a row of them refers to.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "tessera/analysis/critical_path.h"

namespace tessera::query {

/// Which rows are asked for; those that do not fit may be given as well, as SQLite looks again.
struct Wanted {
  std::optional<Rank> rank;
  std::optional<std::int32_t> stream, op, step;
  // Spans that intersect [from, to), samples in it, ns.
  Time from, to;
};

/// Opened by the first query that needs it: a query of ordinary tables reads nothing else.
class Source {
 public:
  /// `verified`: the content hash of its tables was compared with the one they should have.
  Source(std::string path, bool verified) : path_(std::move(path)), verified_(verified) {}

  /// Reads of `rank_step` what is asked for: of 16,384 ranks and 1,000 steps it is 1.2 GB. Fails:
  /// as analysis::Trace::open.
  Result<const analysis::Trace*> trace();
  /// Of the typical step. REQUIRES: `trace` succeeded. Fails: as analysis::critical_path.
  Result<const analysis::CriticalPath*> critical_path();
  /// The steps of `rank_step` that are unpacked together, part 0 the first of them; shared by all
  /// who look at them, as questions join the table with itself. REQUIRES: `trace` succeeded, the
  /// trace has the part. Fails: as analysis::Trace::step_rows.
  Result<std::shared_ptr<const storage::RankSteps>> steps_of_part(std::int32_t part);
  static std::int32_t steps_per_part(const analysis::Trace& trace);
  /// "" if there is no such buffer. REQUIRES: `trace` succeeded.
  const storage::BufferRow& buffer(std::int32_t id) const;

 private:
  std::string path_;
  bool verified_;
  std::optional<Result<analysis::Trace>> trace_;
  std::vector<storage::BufferRow> buffers_;  // ascending id
  std::optional<Result<analysis::CriticalPath>> path_of_step_;
  // The parts that were asked for last, the latest first.
  std::vector<std::pair<std::int32_t, std::shared_ptr<const storage::RankSteps>>> parts_;
};

}  // namespace tessera::query
