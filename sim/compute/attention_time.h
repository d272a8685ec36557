// SPDX-License-Identifier: Apache-2.0
// How long attention takes: fused, by a GPU's curve, or as matmuls and passes over the scores.
#pragma once

#include "tessera/op.h"
#include "tessera/sim/gpu.h"

namespace tessera::sim {

/// Nanoseconds of one fused causal kernel, all of `gpu`'s multiprocessors at `peak` FLOP/s.
double fused_attention_ns(const AttentionShape& shape, const Gpu& gpu, const AttentionCurve& curve,
                          double peak);

/// Nanoseconds of attention that keeps its scores in memory: nothing is skipped for causality.
/// `score_passes` is how often forward reads or writes them, backward twice as often.
double unfused_attention_ns(const AttentionShape& shape, const Gpu& gpu, double peak,
                            double score_passes, double element_bytes);

}  // namespace tessera::sim
