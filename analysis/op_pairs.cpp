// SPDX-License-Identifier: Apache-2.0
#include "analysis/op_pairs.h"

#include <algorithm>
#include <map>

namespace tessera::analysis {
namespace {

using Indices = std::vector<std::int32_t>;

bool imported(const Trace& trace) { return trace.run().backend == "import"; }

bool takes_time(OpKind kind) { return kind != OpKind::wait && kind != OpKind::mark; }

/// What is paired of [first, end), by step: operations of two steps are never the same ones.
std::map<std::int32_t, Indices> by_step(const OpTable& table, std::int32_t first, std::int32_t end,
                                        bool collectives) {
  std::map<std::int32_t, Indices> steps;
  for (std::size_t i = 0; i < table.size(); ++i) {
    const std::int32_t step = table.step(i);
    if (step < first || step >= end) continue;
    const OpKind kind = table.look(i).kind;
    if (collectives ? is_collective(kind) : takes_time(kind)) {
      steps[step].push_back(static_cast<std::int32_t>(i));
    }
  }
  return steps;
}

/// Pairs what has the same look, or one that differs in its reason, by its number among its like;
/// what is left stays in `left_a`, `left_b`.
void pair_left(const OpTable& a, const OpTable& b, bool with_reason, Indices& left_a,
               Indices& left_b, std::vector<OpPair>& pairs) {
  const auto like = [with_reason](const OpTable& table, std::int32_t index) {
    const auto i = static_cast<std::size_t>(index);
    return with_reason ? table.look_place(i) : table.look(i).alike;
  };
  const auto sort = [&](const OpTable& table, Indices& indices) {
    std::stable_sort(indices.begin(), indices.end(), [&](std::int32_t x, std::int32_t y) {
      return like(table, x) < like(table, y);
    });
  };
  sort(a, left_a);
  sort(b, left_b);
  Indices only_a, only_b;
  auto of_a = left_a.begin(), of_b = left_b.begin();
  while (of_a != left_a.end() && of_b != left_b.end()) {
    const std::int32_t like_a = like(a, *of_a), like_b = like(b, *of_b);
    if (like_a == like_b) {
      pairs.push_back({*of_a++, *of_b++, with_reason});
    } else if (like_a < like_b) {
      only_a.push_back(*of_a++);
    } else {
      only_b.push_back(*of_b++);
    }
  }
  only_a.insert(only_a.end(), of_a, left_a.end());
  only_b.insert(only_b.end(), of_b, left_b.end());
  left_a = std::move(only_a);
  left_b = std::move(only_b);
}

}  // namespace

bool pairs_only_collectives(const Trace& a, const Trace& b) { return imported(a) != imported(b); }

OpPairs pair_ops(const OpTable& a, const OpTable& b, bool collectives_only, std::int32_t first,
                 std::int32_t end) {
  OpPairs pairs;
  pairs.collectives_only = collectives_only;
  auto steps_a = by_step(a, first, end, collectives_only);
  auto steps_b = by_step(b, first, end, collectives_only);
  for (const auto& [step, of_b] : steps_b) steps_a[step];  // both have all
  for (auto& [step, left_a] : steps_a) {
    Indices& left_b = steps_b[step];
    pair_left(a, b, true, left_a, left_b, pairs.pairs);
    pair_left(a, b, false, left_a, left_b, pairs.pairs);
    pairs.only_a.insert(pairs.only_a.end(), left_a.begin(), left_a.end());
    pairs.only_b.insert(pairs.only_b.end(), left_b.begin(), left_b.end());
  }
  return pairs;
}

}  // namespace tessera::analysis
