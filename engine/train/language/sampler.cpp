// SPDX-License-Identifier: Apache-2.0
#include "engine/train/language/sampler.h"

#include <fmt/format.h>

#include <algorithm>

#include "engine/kernels/parallel.h"
#include "engine/train/language/workspace.h"

namespace tessera::language {
namespace {

// A plan is made for multiples of this, so that a growing text needs few.
constexpr std::int64_t length_step = 64;
constexpr std::size_t alignment = 64;

struct AlignedBytes {
  std::vector<std::byte> bytes;

  std::byte* room(Bytes count) {
    bytes.resize(static_cast<std::size_t>(count.value) + alignment);
    const auto address = reinterpret_cast<std::uintptr_t>(bytes.data());
    return bytes.data() + (alignment - address % alignment) % alignment;
  }
};

}  // namespace

Status Sampler::check(std::span<const std::span<const float>> parameters,
                      std::span<const std::int32_t> tokens) const {
  if (tokens.empty()) return Status(Code::invalid_argument, "sampling needs at least one token");
  const auto length = static_cast<std::int64_t>(tokens.size());
  if (model_.sequence_length_max > 0 && length > model_.sequence_length_max) {
    return Status(Code::invalid_argument,
                  fmt::format("{} tokens are more than the {} positions of {}", length,
                              model_.sequence_length_max, model_.name));
  }
  for (std::size_t k = 0; k < model_.parameters.size(); ++k) {
    const Parameter& p = model_.parameters[k];
    const auto given = k < parameters.size() ? parameters[k].size() : 0;
    if (static_cast<std::int64_t>(given) == p.numel().value) continue;
    return Status(Code::invalid_argument, fmt::format("parameter {} has {} elements, given are {}",
                                                      p.name, p.numel().value, given));
  }
  return {};
}

Result<Plan*> Sampler::plan_for(std::int64_t length) {
  length = (length + length_step - 1) / length_step * length_step;
  if (model_.sequence_length_max > 0) length = std::min(length, model_.sequence_length_max);
  std::unique_ptr<Plan>& plan = plans_[length];
  if (plan == nullptr) {
    TESSERA_ASSIGN(plan, Plan::make(model_, {.length = length, .threads = threads_}));
  }
  return plan.get();
}

Result<std::vector<float>> Sampler::next_logits(std::span<const std::span<const float>> parameters,
                                                std::span<const std::int32_t> tokens) {
  TESSERA_TRY(check(parameters, tokens));
  kernels::limit_threads(threads_);
  TESSERA_ASSIGN(Plan* const plan, plan_for(static_cast<std::int64_t>(tokens.size())));
  for (const std::int32_t token : tokens) {
    if (token >= 0 && token < plan->vocabulary) continue;
    return Status(Code::invalid_argument, fmt::format("token {} is none of the {} of {}", token,
                                                      plan->vocabulary, model_.name));
  }
  const kernels::MatmulShape last{
      .n = plan->vocabulary, .k = plan->shape.width, .b_transposed = true};
  TESSERA_TRY(plan->host.prepare(last));
  AlignedBytes held[3];
  const WorkspaceLayout sizes = workspace_at(nullptr, *plan, false);
  Call call;
  call.math = &plan->host;
  call.work = workspace_at(held[0].room(sizes.bytes), *plan, false).work;
  std::fill_n(call.work.tokens, plan->shape.tokens(), 0);
  std::copy(tokens.begin(), tokens.end(), call.work.tokens);
  const std::vector<float> rotary = rotary_of(*plan);
  std::copy(rotary.begin(), rotary.end(), call.work.rotary);
  for (const ModuleId id : model_.forward) {
    const PlannedLayer& planned = plan->layers.at(id);
    call.parameters.clear();
    for (ParameterId p : planned.parameters) {
      call.parameters.push_back(std::as_bytes(parameters[static_cast<std::size_t>(p.value)]));
    }
    if (id == plan->last) break;
    call.saved = held[1].room(planned.layer->saves());
    call.temporary = held[2].room(planned.layer->temporary(false));
    planned.layer->forward(call);
  }
  std::vector<float> logits(static_cast<std::size_t>(plan->vocabulary));
  const auto at = static_cast<std::int64_t>(tokens.size() - 1) * plan->shape.width;
  plan->host.product(last, call.work.y.from(at).data, call.parameters.back().data(), logits.data(),
                     nullptr, call.work.scratch);
  return logits;
}

}  // namespace tessera::language
