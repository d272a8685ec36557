// SPDX-License-Identifier: Apache-2.0
// What a stack changes of the work that a model's modules do.
#include <algorithm>
#include <cmath>

#include "tessera/sim/stack_profile.h"

namespace tessera::sim {
namespace {

constexpr double eight_bit = 1, half = 2, single = 4;  // bytes of an element
constexpr double chunks = 8;  // of a chunked loss, as Liger and torchtune have by default

void less(Polynomial& bytes, double per_token) {
  bytes.linear = std::max(0.0, bytes.linear - per_token);
}

// A model counts an eager loss: 14 bytes moved per logit, and 6 kept, in bf16 and fp32.
void change_loss(ModuleCost& cost, StackProfile::Loss loss) {
  if (loss == StackProfile::Loss::eager || cost.logits == 0) return;
  // Read twice, for the maximum and the sum; read and written in backward.
  less(cost.elementwise_bytes, (14 - 2 * half) * cost.logits);
  less(cost.activation_bytes, single * cost.logits);
  cost.in_place = half * cost.logits;
  if (loss == StackProfile::Loss::fused) return;
  // A chunk's logits live until they are gradients (Liger's kernel computes them in forward).
  less(cost.activation_bytes, half * cost.logits);
  cost.in_place = half * cost.logits / chunks;
  cost.activation_bytes.linear += cost.in_place;
}

// Gate and up, and down from their product.
bool is_gated(const std::vector<LinearShape>& l) {
  return l.size() >= 3 && l[0].in == l[1].in && l[0].out == l[1].out && l[2].in == l[0].out &&
         l[2].out == l[0].in;
}

// A kernel that fuses an element's operations computes them again in backward, from what it reads.
void save_less(ModuleCost& cost, StackProfile::Saves saves) {
  if (saves == StackProfile::Saves::eager || cost.linears.empty() || cost.logits > 0) return;
  const LinearShape& first = cost.linears.front();
  if (cost.attention.heads == 0 && is_gated(cost.linears)) {
    less(cost.activation_bytes,
         half * static_cast<double>(first.out * first.count) * first.rows_per_token);
  }
  if (saves == StackProfile::Saves::fused) return;
  less(cost.activation_bytes, half * static_cast<double>(first.in));
}

// What fused kernels have cast to fp8 is not kept in bf16 as well, but for what attention returns:
// its own backward reads that (LLM.Q, llama_run_state.cpp: keep_fwd_quant_tensors).
void save_in_fp8(ModuleCost& cost) {
  if (cost.linears.empty() || cost.logits > 0) return;
  const auto saved = [](const LinearShape& l) {
    return (half - eight_bit) * static_cast<double>(l.in * l.count) * l.rows_per_token;
  };
  less(cost.activation_bytes, (half - eight_bit) * static_cast<double>(cost.linears.front().in));
  if (cost.attention.heads == 0 && is_gated(cost.linears)) {
    less(cost.activation_bytes, saved(cost.linears[2]));
  }
}

void drop_masks(ModuleCost& cost) {
  less(cost.elementwise_bytes, half * cost.dropout);
  less(cost.activation_bytes, cost.dropout);
}

}  // namespace

Model adapted(const Model& model, const StackProfile& profile) {
  Model out = model;
  // CPUs multiply what fp8 can say in float32.
  const bool in_fp8 = profile.fp8 && profile.program == StackProfile::Program::framework;
  for (Module& module : out.modules) {
    ModuleCost& cost = module.cost;
    change_loss(cost, profile.loss);
    save_less(cost, profile.saves);
    if (in_fp8 && profile.saves == StackProfile::Saves::fused) save_in_fp8(cost);
    if (!profile.dropout) drop_masks(cost);
    Polynomial& bytes = cost.elementwise_bytes;
    bytes.constant *= profile.elementwise_bytes;
    bytes.linear *= profile.elementwise_bytes;
    bytes.quadratic *= profile.elementwise_bytes;
    for (LinearShape& linear : cost.linears) {
      linear.fp8 = in_fp8 && cost.logits == 0;  // the head keeps its precision
      linear.casts_weight = profile.casts_weights;
      const auto weights = static_cast<double>(linear.in * linear.out * linear.count);
      cost.backward_bytes += profile.gradient_bytes * weights;
      if (profile.autocast) cost.backward_bytes += (single + half) * weights;
    }
    const double kernels = std::ceil(static_cast<double>(cost.kernels) * profile.kernels);
    cost.kernels = static_cast<std::int32_t>(kernels);
  }
  return out;
}

}  // namespace tessera::sim
