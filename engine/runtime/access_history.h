// SPDX-License-Identifier: Apache-2.0
// The happens-before check of one buffer: every access must be ordered, by recorded waits, after
// the accesses it depends on.
//
// The idea: keep only accesses that a later one could still race with. An access that a later write
// covers is forgotten, since that write was itself ordered after it. Accesses of all ranks that
// have the buffer exist once; those of some ranks are kept beside them, in a cell of ranks that
// have behaved alike: a rank's history is what all did and what its cell did.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "engine/runtime/access_records.h"

namespace tessera {

/// Who acts on a buffer, and who has it; the first are among the second.
struct Acting {
  const RankSet& ranks;
  const RankSet& holders;

  bool all() const { return ranks == holders; }
};

class AccessHistory {
 public:
  /// Checks `access` by an op of `stream` on ranks that share `order`, before it is recorded.
  /// `group_size` is the range of its indices. Returns "" or what is wrong, as the end of a
  /// sentence about the new access.
  std::string check(const Access& access, StreamId stream, Index group_size,
                    const StreamOrder& order, const Acting& who) const;
  void record(const Access& access, Position position, const Accessor& accessor, const Acting& who);

  /// As a new buffer's.
  void clear();

  /// The first access on `ranks` that is not over when `event` happens (none: that any op is still
  /// owed), or nullptr.
  const Accessor* not_before(EventId event, const StreamOrder& order, const RankSet& ranks) const;
  /// The first collective of which one of `ranks` has not read the result, or nullptr.
  const Accessor* unread_collective(const RankSet& ranks) const;
  /// `ranks` have given the buffer back.
  void forget(const RankSet& ranks);

 private:
  struct Cell {
    RankSet ranks;
    AccessRecords records;
  };
  // From a rank, which is the key, to `end`.
  struct Range {
    Rank end;
    Cell* cell;
  };

  static bool initialised(const Access& read, Index index, const AccessRecords& shared,
                          const AccessRecords* own);
  std::string check_read(const Access& read, Index group_size, const Acting& who) const;
  std::vector<Cell*> touched(const RankSet& ranks) const;
  std::vector<Cell*> cells_of(const RankSet& ranks);
  void assign(const RankSet& ranks, Cell* cell);
  void record_of_all(const Access& access, Position position, const Accessor& accessor);
  void record_of_some(const Access& access, Position position, const Accessor& accessor,
                      const Acting& who);

  AccessRecords shared_;
  std::vector<std::unique_ptr<Cell>> cells_;
  std::map<Rank, Range> ranges_;  // of cells
};

}  // namespace tessera
