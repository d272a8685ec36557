// SPDX-License-Identifier: Apache-2.0
// What the parts of transformers cost per sequence.
//
// Activations are the tensors that an eager bf16 implementation with fused kernels for norms,
// activations and attention keeps for backward (the method of Korthikanti et al., arXiv 2205.05198,
// section 4): 2 bytes per element and no term quadratic in the sequence. Elementwise bytes are
// reads plus writes of the same tensors.
#pragma once

#include <cstdint>

#include "engine/model/blueprint.h"

namespace tessera {

/// Bytes per head and pair of tokens that attention without fused kernels keeps for backward: what
/// the softmax gives, in float32 first if it is `wide`, and, if that is dropped out, mask and rest.
double kept_scores(bool wide, bool dropped);

ModuleCost embedding_cost(std::int64_t width, bool added, bool scaled);
ModuleCost norm_cost(NormKind kind, std::int64_t width);

/// What `part` costs whose matmuls are `linears`, with a residual stream of `hidden`.
ModuleCost attention_cost(const AttentionPart& part, const std::vector<LinearShape>& linears,
                          std::int64_t hidden, bool dropout);
ModuleCost mlp_cost(const std::vector<LinearShape>& linears, std::int64_t hidden,
                    std::int64_t inner, bool gated, bool dropout);
/// The first of two halves of an MLP, up to its activation, and the second. `relu` keeps no input
/// of its own: its output, which the second half keeps, says where it was positive.
ModuleCost mlp_half_cost(LinearShape linear, bool second, bool dropout, bool relu = false);
/// Whether each expert multiplies by a gate.
bool gated(const ExpertsPart& part);
ModuleCost experts_cost(const ExpertsPart& part, std::int64_t hidden);

ModuleCost mixer_cost(const MixerPart& part, std::int64_t hidden);

/// A matmul whose input and output are kept by nobody else.
ModuleCost linear_cost(LinearShape linear);
/// A head over a vocabulary, with the loss.
/// `wide`: the loss is computed of float32 logits, as those of decoders are.
ModuleCost head_cost(std::int64_t hidden, std::int64_t vocabulary, bool capped, bool wide);

/// Costs of both, as of one module.
ModuleCost operator+(ModuleCost a, const ModuleCost& b);

}  // namespace tessera
