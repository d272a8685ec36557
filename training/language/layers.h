// SPDX-License-Identifier: Apache-2.0
// The layers of language models. Norms read the residual stream and write Workspace::y; attention
// and MLP read that and add to the stream; backward goes the other way with the gradients.
#pragma once

#include "training/language/adapter.h"

namespace tessera::language {

using MadeLayer = Result<std::unique_ptr<Layer>>;

MadeLayer token_embedding(const Shape& shape, const Slot& table);
/// Learned positions; `dropout` is of the sum of both embeddings.
MadeLayer position_embedding(const Shape& shape, const Slot& table, const DropoutSlots& dropout);

struct NormSlots {
  Slot weight, bias;  // without bias: RMSNorm
  float epsilon = 1e-5F;
  bool last = false;  // the final norm: its backward writes dx, which no module has written yet
};
MadeLayer norm(const Shape& shape, const NormSlots& slots);

struct AttentionSlots {
  std::int64_t heads = 1, kv_heads = 1, head_dim = 1;
  /// GPT-2: one matrix [in, out] for all; else q, k, v: [out, in].
  bool fused = false;
  Slot weight[3], bias[3], out_weight, out_bias;
  AdapterSlots adapter[3], out_adapter;
  bool rotary = false;      // false: positions are learned
  std::int64_t window = 0;  // kernels::AttentionShape::window
  float scale = 0;          // kernels::AttentionShape::scale
  DropoutSlots weight_dropout, out_dropout;
};
MadeLayer attention(kernels::MathPlan& plan, const Shape& shape, const AttentionSlots& slots);

struct MlpSlots {
  Activation activation = Activation::silu;
  std::int64_t inner = 1;
  Slot up_weight, up_bias, down_weight, down_bias;
  Slot gate_weight, gate_bias;  // only gated
  AdapterSlots up_adapter, gate_adapter, down_adapter;
  DropoutSlots out_dropout;
};
MadeLayer plain_mlp(kernels::MathPlan& plan, const Shape& shape, const MlpSlots& slots);
MadeLayer gated_mlp(kernels::MathPlan& plan, const Shape& shape, const MlpSlots& slots);

/// The cross entropy of the next tokens.
struct HeadSlots {
  std::int64_t vocabulary = 1;
  Slot weight, bias;
};
MadeLayer head(kernels::MathPlan& plan, const Shape& shape, const HeadSlots& slots);

}  // namespace tessera::language
