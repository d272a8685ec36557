// SPDX-License-Identifier: Apache-2.0
// ZeRO stages 1 and 2: every rank keeps all parameters in the dtype of forward, but each steps only
// its part of them.
//
// The idea: all trained parameters lie one behind another in one flat buffer, padded so that it
// falls into equal parts. A part is cut without regard to parameters: one may span several ranks.
// Rank r has float32 masters and moments of part r, gets the averaged gradient of part r, steps it,
// and all ranks gather the parts. Stage 2 keeps no more of gradients than that, stage 1 all.
//
//   Zero12Options options{.stage = 2, .overlap_comm = true, .param_dtype = DType::bfloat16};
//   TESSERA_ASSIGN(auto engine, zero12(runtime, model, options));
//
// Bytes on W ranks for n elements in 16 bit, Adam, without buckets: 4 n + 12 n / W in stage 1,
// 2 n + 14 n / W in stage 2 (arXiv 1910.02054, section 5). In float32 there are masters, too.
//
// Gradients. Ready ones are copied into a bucket; before it would overflow, and at the end, it is
// divided by W, and what lies in one rank's part is reduced to that rank, neighbours together. A
// gradient larger than the bucket is reduced where it is. Stage 2 does so while backward runs and
// in every micro-batch, so `set_requires_gradient_sync(false)` changes nothing. Stage 1 adds
// gradients up locally and reduces all at the end of a backward pass that synchronises; what was
// never reduced is when it is clipped or stepped.
//
// Frozen parameters are whole on every rank, in param_dtype, and belong to no part that is stepped.
// Behaviour: DeepSpeed 0.9.0 (deepspeed/runtime/zero/stage_1_and_2.py). Not as there: parts of
// gradients are cut to the element even where a parameter spans ranks, and Adam reads them in their
// own dtype, without a copy in float32.
#pragma once

#include <memory>
#include <optional>

#include "tessera/engine.h"
#include "tessera/offload.h"

namespace tessera {

/// Names in brackets: the keys of DeepSpeed's `zero_optimization`, whose defaults these are.
struct Zero12Options {
  std::int32_t stage = 2;               // 1: optimizer states are parted; 2: gradients, too [stage]
  Numel reduce_bucket{500'000'000};     // elements [reduce_bucket_size]
  Numel allgather_bucket{500'000'000};  // elements, even [allgather_bucket_size]
  /// Stage 2: reductions have a stream of their own and two buckets, used in turn [overlap_comm].
  bool overlap_comm = false;
  /// False: whole buckets are all_reduced, twice the volume [reduce_scatter].
  bool reduce_scatter = true;
  /// Stage 2: the flat buffer takes every W-th parameter first, then the next ones, so that
  /// gradients that are ready one after another have different owners [round_robin_gradients].
  bool round_robin_gradients = false;
  /// ZeRO-Offload (arXiv 2101.06840): masters and states live in host memory, gradients are copied
  /// there as buckets are reduced, and the CPU steps. Device none or cpu [offload_optimizer].
  Offload offload_optimizer{.buffer_count = 4};
  DType param_dtype = DType::float32;  // parameters and gradients; masters are float32
  std::optional<DType> reduce_dtype =
      {};  // of reductions [communication_data_type]; as param_dtype
};

/// Parts the optimizer over all ranks of `runtime`. Both must outlive the engine.
/// Fails: invalid_argument (another stage, a negative or odd size, no trained parameter, an engine
/// that drives `model` on `runtime` already), naming it; out_of_memory.
/// Later calls fail with invalid_argument if a gradient is ready twice in one backward pass, or if
/// a parameter that was frozen in the beginning gets one.
Result<std::unique_ptr<Engine>> zero12(Runtime& runtime, const Model& model,
                                       const Zero12Options& options);

}  // namespace tessera
