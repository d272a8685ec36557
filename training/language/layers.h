// SPDX-License-Identifier: Apache-2.0
// The layers of language models. Norms read the residual stream and write Workspace::y; attention
// and MLP read that and add to the stream; backward goes the other way with the gradients. Norms
// behind them read what they would add, from the memory of dy, and add it themselves.
#pragma once

#include "training/language/adapter.h"

namespace tessera::language {

using MadeLayer = Result<std::unique_ptr<Layer>>;

/// What a module computes goes here.
enum class BranchTarget {
  stream,
  norm,             // behind it, which reads Workspace::dy
  held,             // Workspace::held, until the MLP of the block has run
  stream_and_held,  // with what is held there: that MLP
};

struct BranchSlots {
  bool reads_stream = false;  // and not Workspace::y: no norm stands in front
  BranchTarget to = BranchTarget::stream;
};

/// `scale`: of the rows of the table.
MadeLayer token_embedding(const Shape& shape, const Slot& table, float scale,
                          std::int64_t padding_token);
/// Learned positions; `dropout` is of the sum of both embeddings.
MadeLayer position_embedding(const Shape& shape, const Slot& table, const DropoutSlots& dropout);

/// Whether what a norm returns is not kept but computed again in the backward of the module that
/// reads it; then it is that module which keeps what both need.
struct RepeatedNorm {
  bool repeated = false;
  bool centred = false;  // it has a bias
};

struct NormSlots {
  Slot weight, bias;  // without bias: RMSNorm
  float epsilon = 1e-5F;
  bool last = false;  // the final norm: its backward writes dx, which no module has written yet
  bool about_one = false;  // it multiplies by 1 + weight
  bool repeated = false;   // RepeatedNorm
};
MadeLayer norm(const Shape& shape, const NormSlots& slots);
/// A norm of what a module adds to the stream.
MadeLayer norm_behind(const Shape& shape, const NormSlots& slots);

/// Norms of the queries or keys, each head for itself or all together.
struct HeadNormSlots {
  Slot weight;  // none: no norm
  float epsilon = 1e-6F;
  bool wide = false, about_one = false;
};

struct AttentionSlots {
  std::int64_t heads = 1, kv_heads = 1, head_dim = 1;
  /// GPT-2: one matrix [in, out] for all; else q, k, v: [out, in], perhaps rows of one matrix.
  bool fused = false;
  bool interleaved = false;  // one matrix [out, in], with q, k and v of a head after another's
  Slot weight[3], bias[3], out_weight, out_bias;
  AdapterSlots adapter[3], out_adapter;
  HeadNormSlots q_norm, k_norm;
  std::int64_t rotary_half = 0;  // elements of a head that are rotated with others; 0: none
  std::int64_t rotary_at = 0;    // where the table begins in Workspace::rotary
  float cap = 0;                 // kernels::AttentionShape::cap
  BranchSlots branch;
  std::int64_t window = 0;  // kernels::AttentionShape::window
  float scale = 0;          // kernels::AttentionShape::scale
  DropoutSlots weight_dropout, out_dropout;
  RepeatedNorm norm;  // in front of it
};
MadeLayer attention(kernels::MathPlan& plan, const Shape& shape, const AttentionSlots& slots);

struct MlpSlots {
  Activation activation = Activation::silu;
  std::int64_t inner = 1;
  Slot up_weight, up_bias, down_weight, down_bias;
  Slot gate_weight, gate_bias;  // only gated
  AdapterSlots up_adapter, gate_adapter, down_adapter;
  DropoutSlots out_dropout;
  bool out_in = true;  // matrices are [out, in]
  BranchSlots branch;
  RepeatedNorm norm;  // in front of it
};
MadeLayer plain_mlp(kernels::MathPlan& plan, const Shape& shape, const MlpSlots& slots);
MadeLayer gated_mlp(kernels::MathPlan& plan, const Shape& shape, const MlpSlots& slots);

/// The cross entropy of the next tokens.
struct HeadSlots {
  std::int64_t vocabulary = 1;
  Slot weight, bias;
  float cap = 0;  // logits x become cap tanh(x / cap); 0: none
};
MadeLayer head(kernels::MathPlan& plan, const Shape& shape, const HeadSlots& slots);

}  // namespace tessera::language
