// SPDX-License-Identifier: Apache-2.0
#include "analysis/op_pairs.h"

#include <map>
#include <string>
#include <tuple>

namespace tessera::analysis {
namespace {

// Step, micro-batch, unit, module, kind, phase and reason.
using Likeness = std::tuple<std::int32_t, std::int32_t, std::string_view, std::string_view, OpKind,
                            Phase, Reason>;
using ByLikeness = std::map<Likeness, std::vector<std::size_t>>;

bool imported(const Trace& trace) { return trace.run().backend == "import"; }

bool takes_time(OpKind kind) { return kind != OpKind::wait && kind != OpKind::mark; }

Likeness likeness_of(const storage::OpRow& op, bool with_reason) {
  return {op.step,
          op.micro_batch,
          op.unit,
          op.module,
          op.kind,
          op.phase,
          with_reason ? op.reason : Reason::none};
}

ByLikeness by_likeness(const std::vector<storage::OpRow>& ops,
                       const std::vector<std::size_t>& indices, bool with_reason) {
  ByLikeness groups;
  for (const std::size_t i : indices) groups[likeness_of(ops[i], with_reason)].push_back(i);
  return groups;
}

/// What is paired of [first, end), by step: operations of two steps are never alike, and those of
/// one are few however long the run is.
std::map<std::int32_t, std::vector<std::size_t>> by_step(const std::vector<storage::OpRow>& ops,
                                                         std::int32_t first, std::int32_t end,
                                                         bool collectives) {
  std::map<std::int32_t, std::vector<std::size_t>> steps;
  for (std::size_t i = 0; i < ops.size(); ++i) {
    const bool within = ops[i].step >= first && ops[i].step < end;
    const bool wanted = collectives ? is_collective(ops[i].kind) : takes_time(ops[i].kind);
    if (within && wanted) steps[ops[i].step].push_back(i);
  }
  return steps;
}

/// Pairs what is alike, by its number among its like; what is left stays in `left_a`, `left_b`.
void pair_left(const std::vector<storage::OpRow>& a, const std::vector<storage::OpRow>& b,
               bool with_reason, std::vector<std::size_t>& left_a, std::vector<std::size_t>& left_b,
               std::vector<OpPair>& pairs) {
  const ByLikeness of_a = by_likeness(a, left_a, with_reason);
  ByLikeness of_b = by_likeness(b, left_b, with_reason);
  left_a.clear();
  left_b.clear();
  for (const auto& [like, indices] : of_a) {
    std::vector<std::size_t>& others = of_b[like];
    const std::size_t both = std::min(indices.size(), others.size());
    for (std::size_t i = 0; i < indices.size(); ++i) {
      if (i < both) pairs.push_back({indices[i], others[i], with_reason});
      if (i >= both) left_a.push_back(indices[i]);
    }
    others.erase(others.begin(), others.begin() + static_cast<std::ptrdiff_t>(both));
  }
  for (const auto& [like, indices] : of_b) {
    left_b.insert(left_b.end(), indices.begin(), indices.end());
  }
}

}  // namespace

bool pairs_only_collectives(const Trace& a, const Trace& b) { return imported(a) != imported(b); }

OpPairs pair_ops(const Trace& a, const Trace& b, std::int32_t first, std::int32_t end) {
  return pair_ops(a.ops(), b.ops(), pairs_only_collectives(a, b), first, end);
}

OpPairs pair_ops(const std::vector<storage::OpRow>& a, const std::vector<storage::OpRow>& b,
                 bool collectives_only, std::int32_t first, std::int32_t end) {
  OpPairs pairs;
  pairs.collectives_only = collectives_only;
  auto steps_a = by_step(a, first, end, collectives_only);
  auto steps_b = by_step(b, first, end, collectives_only);
  for (const auto& [step, of_b] : steps_b) steps_a[step];  // both have all
  for (auto& [step, left_a] : steps_a) {
    std::vector<std::size_t>& left_b = steps_b[step];
    pair_left(a, b, true, left_a, left_b, pairs.pairs);
    pair_left(a, b, false, left_a, left_b, pairs.pairs);
    pairs.only_a.insert(pairs.only_a.end(), left_a.begin(), left_a.end());
    pairs.only_b.insert(pairs.only_b.end(), left_b.begin(), left_b.end());
  }
  return pairs;
}

}  // namespace tessera::analysis
