// SPDX-License-Identifier: Apache-2.0
#include "engine/passes/module_kernels.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "engine/model/tree_builder.h"

namespace tessera {
namespace {

double flops_of(const MatmulShape& s) {
  return 2 * static_cast<double>(s.m) * static_cast<double>(s.n) * static_cast<double>(s.k) *
         static_cast<double>(s.count);
}

}  // namespace

void add_kernels(ComputeCost& out, const ModuleCost& module, ModuleWork::Pass pass,
                 std::int64_t batch, std::int64_t sequence_length,
                 const std::vector<bool>& trained) {
  const bool backward = pass == ModuleWork::Pass::backward;
  const auto tokens = static_cast<double>(batch * sequence_length);
  for (std::size_t k = 0; k < module.linears.size(); ++k) {
    const LinearShape& linear = module.linears[k];
    // Experts share the tokens evenly; a fraction of one is still a row.
    const auto rows = std::max<std::int64_t>(1, std::llround(linear.rows_per_token * tokens));
    if (!backward) {
      out.matmuls.push_back({rows, linear.out, linear.in, linear.count, linear.fp8,
                             linear.casts_weight ? CastOperands::both : CastOperands::first});
      continue;
    }
    out.matmuls.push_back({rows, linear.in, linear.out, linear.count, linear.fp8});
    if (!trained[k]) continue;
    out.matmuls.push_back({linear.in, linear.out, rows, linear.count, linear.fp8,
                           linear.casts_weight ? CastOperands::none : CastOperands::first});
  }
  out.attention.causal = module.attention.causal;
  if (module.attention.heads == 0) return;
  out.attention = {batch,
                   sequence_length,
                   module.attention.heads,
                   module.attention.key_value_heads,
                   module.attention.head_dim,
                   backward,
                   module.attention.window,
                   module.attention.chunked,
                   module.attention.causal};
}

void add_cost(ComputeCost& cost, const ComputeCost& other) {
  cost.matmul_flops += other.matmul_flops;
  cost.attention_flops += other.attention_flops;
  cost.elementwise_bytes += other.elementwise_bytes;
  cost.kernels += other.kernels;
  cost.matmuls.insert(cost.matmuls.end(), other.matmuls.begin(), other.matmuls.end());
}

LossParts loss_parts(const ModuleCost& module) {
  LossParts parts{.layer = module, .loss = {}};
  ModuleCost& layer = parts.layer;
  ModuleCost& loss = parts.loss;
  double inputs = 0;  // bytes per token that the layer keeps
  for (const LinearShape& linear : module.linears) {
    inputs += element * static_cast<double>(linear.in);
  }
  inputs = std::min(inputs, module.activation_bytes.linear);
  loss.activation_bytes = per_token(module.activation_bytes.linear - inputs);
  layer.activation_bytes.linear = inputs;
  loss.elementwise_bytes = std::exchange(layer.elementwise_bytes, {});
  loss.in_place = std::exchange(layer.in_place, 0);
  loss.logits = std::exchange(layer.logits, 0);
  layer.kernels = std::min(module.kernels, 1);
  loss.kernels = module.kernels - layer.kernels;
  return parts;
}

Polynomial kept_operators(const ModuleCost& module) {
  double bytes = element * static_cast<double>(module.attention.heads * module.attention.head_dim);
  for (std::size_t k = 0; k < module.linears.size(); k += 2) {
    const LinearShape& linear = module.linears[k];
    bytes += element * static_cast<double>(linear.out * linear.count) * linear.rows_per_token;
  }
  return per_token(std::min(bytes, module.activation_bytes.linear));
}

void skip_kept_operators(ComputeCost& cost) {
  std::vector<MatmulShape> again;
  for (std::size_t k = 0; k < cost.matmuls.size(); ++k) {
    if (k % 2 == 1) {
      again.push_back(cost.matmuls[k]);
    } else {
      cost.matmul_flops = std::max(0.0, cost.matmul_flops - flops_of(cost.matmuls[k]));
    }
  }
  cost.matmuls = std::move(again);
  if (cost.attention.heads > 0) cost.attention_flops = 0;
  cost.attention = {};
}

}  // namespace tessera
