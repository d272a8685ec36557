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
  w.scratch = arena.bytes(plan.math().scratch());  // first: cuBLASLt wants it at 256 bytes
  w.x = arena.floats(stream);
  w.dx = apart ? arena.floats(stream) : w.x;
  w.dy = arena.floats(stream);
  w.y = {w.dy, s.dtype};
  w.tokens = arena.take(3 * s.tokens(), DType::int32).as<std::int32_t>();
  if (s.documents) w.begins = arena.take(3 * s.tokens(), DType::int32).as<std::int32_t>();
  w.rotary = arena.floats(2 * (plan.rotary.numel() + plan.window_rotary.numel()));
  if (plan.parallel) w.held = arena.floats(stream);
  if (plan.repeats_norms) {
    w.normal = arena.take(stream, s.dtype);
    w.norm_weight = arena.floats(s.width);
    w.norm_bias = arena.floats(s.width);
  }
  out.bytes = arena.used();
  return out;
}

namespace {

// The places of `numbers`, sorted by (number, place).
void sort_places(std::span<const std::int32_t> numbers, std::span<std::int32_t> places) {
  std::iota(places.begin(), places.end(), 0);
  std::stable_sort(places.begin(), places.end(), [&](std::int32_t a, std::int32_t b) {
    return numbers[static_cast<std::size_t>(a)] < numbers[static_cast<std::size_t>(b)];
  });
}

}  // namespace

TokenArrays::TokenArrays(const Shape& shape) : count(static_cast<std::size_t>(shape.tokens())) {
  tokens.resize(3 * count);
  begins.resize(3 * count);
}

TokenBatch TokenArrays::batch() {
  return {std::span(tokens).first(count), std::span(tokens).subspan(count, count),
          std::span(begins).first(count)};
}

void TokenArrays::finish(const Plan& plan) {
  const TokenBatch given = batch();
  const auto length = static_cast<std::int32_t>(plan.shape.length);
  for (std::size_t k = 0; k < count; ++k) {
    const std::int32_t place = static_cast<std::int32_t>(k) % length;
    const bool known = given.inputs[k] >= 0 && given.inputs[k] < plan.vocabulary &&
                       given.targets[k] >= no_target && given.targets[k] < plan.vocabulary;
    TESSERA_ASSERT(known, "tokens of the vocabulary");
    TESSERA_ASSERT(given.begins[k] >= 0 && given.begins[k] <= place, "a document has begun before");
    TESSERA_ASSERT(plan.shape.documents || (given.begins[k] == 0 && given.targets[k] != no_target),
                   "LanguageModelOptions::documents says that there are some");
    begins[count + k] = place - given.begins[k];
  }
  sort_places(given.inputs, std::span(tokens).last(count));
  sort_places(std::span(begins).subspan(count, count), std::span(begins).last(count));
}

std::vector<float> rotary_of(const Plan& plan) {
  std::vector<float> all;
  for (const kernels::RotaryTable* table : {&plan.rotary, &plan.window_rotary}) {
    all.insert(all.end(), table->cosine.begin(), table->cosine.end());
    all.insert(all.end(), table->sine.begin(), table->sine.end());
  }
  return all;
}

}  // namespace tessera::language
