// SPDX-License-Identifier: Apache-2.0
// The operations of summon_full_params: gathering, moving, writing back and freeing full copies,
// all on the compute stream of any scheme. Files: this class's frame in summon_ops.cpp, then
// gather_copies.cpp, visit_copies.cpp and write_back_copies.cpp.
#pragma once

#include <functional>
#include <vector>

#include "engine/base/sharded_state.h"
#include "engine/summon/full_copy.h"
#include "engine/values/copies_by_route.h"

namespace tessera {

class SummonOps {
 public:
  /// rank0_only: rank 0 alone is a holder, that is, keeps full copies; otherwise all ranks are.
  SummonOps(ShardedState& state, bool rank0_only);

  const Model& model() const { return issuer_.model(); }
  const UnitAssignment& assignment() const { return state_.parts().units.assignment(); }
  std::string_view unit_name(std::size_t unit) const {
    return state_.parts().units.unit_name(unit);
  }

  /// Why the engine cannot be summoned now, for a message; "" if it can.
  std::string_view busy() const;
  bool is_summoned(std::size_t unit) const { return state_.parts().calls.is_summoned(unit); }
  /// Waits for the device. From here to `end` the engine does nothing else but to summon other
  /// units. REQUIRES: not busy; none of `units` is summoned.
  Status begin(const std::vector<std::size_t>& units);
  void end(const std::vector<std::size_t>& units);

  /// Gradients that only their owner has are not gathered.
  bool owners_have_gradients() const;
  /// The shards of a unit; gradients only if there are any now.
  SummonedUnit describe(std::size_t unit, bool with_grads) const;
  /// Gathers. On failure `close` frees what there is.
  Status open(SummonedUnit& unit, bool offload);
  /// The shards become their part of the holders' copies.
  Status write_back(SummonedUnit& unit);
  Status close(SummonedUnit& unit);

  /// Runs `body` with all elements of `parameter` on the holders, and waits for it.
  /// REQUIRES: source is one of copy's.
  Status visit(const FullCopy& copy, const FullCopySource& source, ParameterId parameter,
               bool writes, const std::function<void(Rank, std::span<float>)>& body);

 private:
  Numel numel(const FullCopy& copy) const { return copy.rank_part * copy.groups.size; }
  View whole(const FullCopy& copy) const {
    return View::whole(copy.buffer, copy.dtype, numel(copy));
  }
  View own_part(const FullCopy& copy, Numel offset, Numel numel) const;
  CopyBlocks from_unsharded(const FullCopy& copy, const FullCopySource& source) const;
  /// Every rank's own parts, by what their shards' memory needs.
  Status copy_own_parts(const FullCopy& copy, const std::vector<RoutedBlocks>& pieces);

  Result<BufferId> allocate(const FullCopy& copy, const char* suffix, Memory memory,
                            const RankSet& where);
  Result<EventId> submit(const FullCopy& copy, decltype(Op::what) what, const RankSet& where);
  Status release(BufferId buffer, EventId after, const RankSet& where);

  // gather_copies.cpp
  Status gather(FullCopy& copy);
  Status gather_shards(const FullCopy& copy);
  Status leave_with_holders(FullCopy& copy, bool offload);
  Status gather_again(const FullCopy& copy);

  // write_back_copies.cpp
  Status scatter(const FullCopy& copy);
  Status broadcast(const FullCopy& copy);
  Status write_back(const FullCopy& copy);

  ShardedState& state_;
  Issuer& issuer_;
  const RankSet everyone_;
  const RankSet holders_;
};

}  // namespace tessera
