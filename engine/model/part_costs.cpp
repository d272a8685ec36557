// SPDX-License-Identifier: Apache-2.0
#include "engine/model/part_costs.h"

#include <algorithm>

#include "engine/model/tree_builder.h"

namespace tessera {
namespace {

double real(std::int64_t value) { return static_cast<double>(value); }

double flops_of_all(const std::vector<LinearShape>& linears) {
  double flops = 0;
  for (const LinearShape& linear : linears) {
    flops += 2 * real(linear.in) * real(linear.out) * linear.rows_per_token * real(linear.count);
  }
  return flops;
}

// What latent attention keeps beside its input: both low-rank vectors before and after their
// norms, queries with and without rotation, keys, keys and values as they were projected.
double latent_bytes(const AttentionPart& part) {
  const LatentSizes& l = part.latent;
  const double query = real(part.heads * (l.no_position + l.rotary));
  const double low = 2 * real(l.query) + 2 * real(l.key_value) + real(l.rotary);
  return element * (low + 2 * query + real(part.heads * (l.no_position + l.value)));
}

}  // namespace

ModuleCost operator+(ModuleCost a, const ModuleCost& b) {
  a.matmul_flops = a.matmul_flops + b.matmul_flops;
  a.attention_flops = a.attention_flops + b.attention_flops;
  a.elementwise_bytes = a.elementwise_bytes + b.elementwise_bytes;
  a.activation_bytes = a.activation_bytes + b.activation_bytes;
  a.kernels += b.kernels;
  a.linears.insert(a.linears.end(), b.linears.begin(), b.linears.end());
  if (b.attention.heads > 0) a.attention = b.attention;
  a.logits += b.logits;
  a.dropout += b.dropout;
  return a;
}

double kept_scores(bool wide, bool dropped) {
  constexpr double float32 = 4, mask = 1;
  return dropped ? (wide ? float32 : element) + mask + element : (wide ? float32 : 0) + element;
}

ModuleCost embedding_cost(std::int64_t width, bool added, bool scaled) {
  const double passes = (added ? 3 : 2) + (scaled ? 2 : 0);
  return {.elementwise_bytes = per_token(passes * element * real(width)),
          .activation_bytes = per_token(8)};  // token ids
}

ModuleCost norm_cost(NormKind kind, std::int64_t width) {
  const double statistics = kind == NormKind::rms ? 4 : 8;  // deviation, and mean
  return {.elementwise_bytes = per_token(2 * element * real(width)),
          .activation_bytes = per_token(element * real(width) + statistics)};
}

ModuleCost attention_cost(const AttentionPart& part, const std::vector<LinearShape>& linears,
                          std::int64_t hidden, bool dropout) {
  const double h = real(hidden);
  const LatentSizes& l = part.latent;
  const bool latent = l.key_value > 0;
  const std::int64_t width = latent ? l.no_position + l.rotary : part.head_dim;
  const std::int64_t value = latent ? l.value : part.head_dim;
  const double q = real(part.heads * width);
  const double kv = latent ? q : real(part.key_value_heads * width);
  const double out = real(part.heads * value);
  ModuleCost cost{.matmul_flops = per_token(flops_of_all(linears)),
                  .attention_flops = {0, 0, 2 * (q + out)},
                  // Rotary embedding of q and k, residual sum, dropout.
                  .elementwise_bytes = per_token(
                      element * ((part.rotary ? 2 * (q + kv) : 0) + (dropout ? 4 : 3) * h)),
                  .kernels = static_cast<std::int32_t>(linears.size()) + 2,
                  .linears = linears,
                  .attention = {part.heads, latent ? part.heads : part.key_value_heads,
                                (width + value) / 2, 0, false, part.causal},
                  .dropout = dropout ? h : 0};
  // Input of the projections, q, k, v, output of attention, its log-sum-exp; dropout's mask.
  const double projected = latent ? latent_bytes(part) : element * (q + 2 * kv);
  cost.activation_bytes =
      per_token(element * (h + out) + projected + (dropout ? h : 0) + 4 * real(part.heads));
  const bool normed = part.weights.find(":qn") != std::string::npos;
  if (normed) {  // their input
    cost.activation_bytes.linear +=
        element * (q + kv) + 4 * (part.wide_norms ? 2 : real(part.heads + part.key_value_heads));
    cost.elementwise_bytes.linear += 2 * element * (q + kv);
  }
  cost.kernels += (part.rotary ? 2 : 0) + (dropout ? 1 : 0) + (normed || latent ? 2 : 0);
  const bool gate =
      part.weights.find(":qg") != std::string::npos || part.weights.find(":g") != std::string::npos;
  if (gate) {  // itself, and what it multiplies
    cost.activation_bytes.linear += 2 * element * q;
    cost.elementwise_bytes.linear += 3 * element * q;
    ++cost.kernels;
  }
  if (part.clamped) {
    cost.activation_bytes.linear += element * (q + 2 * kv);
    cost.elementwise_bytes.linear += 2 * element * (q + 2 * kv);
    ++cost.kernels;
  }
  if (part.weights.find(":iq") != std::string::npos) {  // scores, of which nothing is kept
    cost.attention_flops.quadratic += 2 * real(l.index_heads * l.index_width);
    cost.kernels += 4;
  }
  if (part.kept_scores > 0) {
    const double heads = real(part.heads);
    cost.activation_bytes.quadratic += heads * part.kept_scores + part.kept_pairs;
    // What is kept is written and read; scores are written, added to a mask or bias, and read.
    cost.elementwise_bytes.quadratic += heads * (2 * part.kept_scores + 4 * element);
    cost.kernels += 4;
    cost.attention.causal = false;  // nothing is skipped
  }
  if (part.weights.find(":qkv") != std::string::npos) {
    ++cost.kernels;  // apart
    // Values are a view of what was projected, which stays as a whole beside rotated q and k.
    const bool whole = part.rotary && !part.copied_values;
    if (whole) cost.activation_bytes.linear += element * (q + kv);
  }
  return cost;
}

ModuleCost mlp_cost(const std::vector<LinearShape>& linears, std::int64_t hidden,
                    std::int64_t inner, bool gated, bool dropout) {
  const double h = real(hidden);
  const double f = real(inner);
  const auto matmuls = static_cast<std::int32_t>(linears.size());
  return {.matmul_flops = per_token(flops_of_all(linears)),
          .attention_flops = {},
          // The activation, the product with the gate, the residual sum.
          .elementwise_bytes = per_token(element * ((gated ? 5 : 2) * f + (dropout ? 4 : 3) * h)),
          .activation_bytes =
              per_token(element * h + element * (gated ? 4 : 2) * f + (dropout ? h : 0)),
          .kernels = matmuls + (gated ? 3 : 2) + (dropout ? 1 : 0),
          .linears = linears,
          .dropout = dropout ? h : 0};
}

ModuleCost mlp_half_cost(LinearShape linear, bool second, bool dropout, bool relu) {
  const double in = real(linear.in);
  const double out = real(linear.out);
  ModuleCost cost = linear_cost(linear);
  if (second) {
    cost.elementwise_bytes = per_token(element * (dropout ? 4 : 3) * out);
    if (dropout) cost.activation_bytes.linear += out;
    cost.dropout = dropout ? out : 0;
    cost.kernels = dropout ? 3 : 2;
    return cost;
  }
  cost.elementwise_bytes = per_token(element * 2 * out);
  cost.activation_bytes = per_token(element * (in + (relu ? 0 : out)));
  cost.kernels = 2;
  return cost;
}

bool gated(const ExpertsPart& part) { return part.weights.find(":g") != std::string::npos; }

ModuleCost experts_cost(const ExpertsPart& part, std::int64_t hidden) {
  const double h = real(hidden);
  const std::int64_t in = part.latent > 0 ? part.latent : hidden;
  const double f = real(part.inner);
  const auto used = real(part.per_token);
  const auto choices = real(part.count);
  const double rows = used / choices;
  const int matrices = gated(part) ? 3 : 2;
  const LinearShape up{in, part.inner, rows, part.count};
  const int kernels = 2 * matrices;
  const auto each = static_cast<std::int32_t>(part.fused ? kernels : kernels * part.count);
  ModuleCost cost{
      .matmul_flops = per_token(used * 2 * matrices * real(in) * f),
      .attention_flops = {},
      .elementwise_bytes = per_token(used * element * (gated(part) ? 5 : 2) * f + element * 3 * h),
      .activation_bytes = per_token(element * h + used * element * (gated(part) ? 4 : 2) * f),
      .kernels = each + 4,
      .linears = std::vector(static_cast<std::size_t>(matrices - 1), up)};
  cost.linears.push_back({part.inner, in, rows, part.count});
  cost.linears.push_back({hidden, part.count});
  cost.matmul_flops.linear += 2 * h * choices;  // the router
  // Gathered inputs and, to be weighted, outputs of the experts; the router's logits.
  cost.activation_bytes.linear += 2 * element * used * real(in) + 4 * choices;
  if (!part.stacked.empty()) {  // one more output of each, which is weighted apart
    cost.activation_bytes.linear += element * used * h;
  }
  if (part.relu) cost.activation_bytes.linear -= used * element * f;  // its input
  if (part.wide_router) {                                             // a copy, which is kept, too
    cost.activation_bytes.linear += 4 * h;
    cost.elementwise_bytes.linear += (element + 4) * h;
    ++cost.kernels;
  }
  cost.elementwise_bytes.linear += 4 * element * used * real(in);  // gather and scatter
  return cost;
}

ModuleCost mixer_cost(const MixerPart& part, std::int64_t hidden) {
  using Kind = MixerTensor::Kind;
  const double h = real(hidden);
  ModuleCost cost{.matmul_flops = per_token(part.scan_flops),
                  .attention_flops = {},
                  // What is kept is written and read again; the residual sum.
                  .elementwise_bytes = per_token(element * (2 * part.kept + 3 * h)),
                  .activation_bytes = per_token(element * (h + part.kept)),
                  .kernels = 3};
  for (const MixerTensor& tensor : part.tensors) {
    if (tensor.kind == Kind::linear) {
      cost.linears.push_back({tensor.columns, tensor.rows});
      ++cost.kernels;
    }
    if (tensor.kind != Kind::convolution) continue;
    const double flops = 2 * real(tensor.rows) * real(tensor.columns);
    cost.matmul_flops.linear += flops;
    cost.matmul_flops.constant += flops * real(tensor.columns - 1);  // padding before the first
    ++cost.kernels;
  }
  cost.matmul_flops.linear += flops_of_all(cost.linears);
  return cost;
}

ModuleCost linear_cost(LinearShape linear) {
  return {.matmul_flops = per_token(2 * real(linear.in) * real(linear.out)),
          .attention_flops = {},
          .elementwise_bytes = {},
          .activation_bytes = per_token(element * real(linear.in)),
          .linears = {linear}};
}

ModuleCost head_cost(std::int64_t hidden, std::int64_t vocabulary, bool capped, bool wide) {
  const double v = real(vocabulary);
  const double logit = wide ? 4 : element;  // bytes
  ModuleCost cost{.matmul_flops = per_token(2 * real(hidden) * v),
                  .attention_flops = {},
                  .elementwise_bytes = per_token((2 + 3 * logit) * v),  // cast, softmax, loss
                  // Logits, and what the softmax gives.
                  .activation_bytes = per_token(element * real(hidden) + (element + logit) * v),
                  .kernels = 4,
                  .linears = {{hidden, vocabulary}},
                  .logits = v};
  if (capped) {  // divided, bent by tanh, which keeps its output, multiplied
    cost.elementwise_bytes.linear += 6 * element * v;
    cost.activation_bytes.linear += element * v;
    cost.kernels += 3;
  }
  return cost;
}

}  // namespace tessera
