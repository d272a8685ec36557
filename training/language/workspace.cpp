// SPDX-License-Identifier: Apache-2.0
#include "training/language/workspace.h"

#include <algorithm>
#include <numeric>

namespace tessera::language {

WorkspaceLayout workspace_at(std::byte* base, Plan& plan, bool apart) {
  const Shape& s = plan.shape;
  const std::int64_t stream = s.tokens() * s.width;
  Arena arena(base);
  WorkspaceLayout out;
  Workspace& w = out.work;
  w.x = arena.floats(stream);
  w.dx = apart ? arena.floats(stream) : w.x;
  w.dy = arena.floats(stream);
  w.y = {w.dy, s.dtype};
  w.tokens = arena.take(3 * s.tokens(), DType::int32).as<std::int32_t>();
  w.rotary = arena.floats(2 * plan.rotary.numel());
  w.scratch = arena.bytes(plan.math().scratch());
  out.bytes = arena.used();
  return out;
}

std::vector<std::int32_t> split_tokens(const Plan& plan, std::span<const std::int32_t> given) {
  const Shape& s = plan.shape;
  std::vector<std::int32_t> inputs, targets;
  for (std::size_t k = 0; k < given.size(); ++k) {
    TESSERA_ASSERT(given[k] >= 0 && given[k] < plan.vocabulary, "tokens of the vocabulary");
    const auto place = static_cast<std::int64_t>(k) % (s.length + 1);
    if (place < s.length) inputs.push_back(given[k]);
    if (place > 0) targets.push_back(given[k]);
  }
  std::vector<std::int32_t> by_id(inputs.size());
  std::iota(by_id.begin(), by_id.end(), 0);
  std::stable_sort(by_id.begin(), by_id.end(), [&](std::int32_t a, std::int32_t b) {
    return inputs[static_cast<std::size_t>(a)] < inputs[static_cast<std::size_t>(b)];
  });
  std::vector<std::int32_t> all = std::move(inputs);
  all.insert(all.end(), targets.begin(), targets.end());
  all.insert(all.end(), by_id.begin(), by_id.end());
  return all;
}

std::vector<float> rotary_of(const Plan& plan) {
  std::vector<float> all = plan.rotary.cosine;
  all.insert(all.end(), plan.rotary.sine.begin(), plan.rotary.sine.end());
  return all;
}

}  // namespace tessera::language
