// SPDX-License-Identifier: Apache-2.0
// The host program for models that are only known by shape and cost: runs training steps through an
// Engine, in the model's own execution order.
//
//   TrainingOptions options{.batch = 1, .sequence_length = 8192};
//   TESSERA_TRY(run_training_step(*engine, model, options));
#pragma once

#include "tessera/engine.h"
#include "tessera/grad_scaler.h"

namespace tessera {

struct TrainingOptions {
  std::int64_t batch = 1;              // sequences per rank and micro-batch
  std::int64_t sequence_length = 1;    // tokens per sequence
  std::int32_t accumulation = 1;       // micro-batches per step
  bool sync_every_micro_batch = true;  // false: reduce only in the last one (no_sync)
  ActivationCheckpointing checkpointing = ActivationCheckpointing::none;
  AdamOptions adam;
  float max_grad_norm = 0;  // above 0: clips the gradients' norm before every step
  double norm_type = 2;     // 1, 2 or infinity
  /// Scales the loss: it steps, or skips, and then updates. The bodies multiply by its scale.
  GradScaler* scaler = nullptr;
  /// Real numbers: the body of a module's pass, or nothing.
  std::function<std::function<void(const BodyContext&)>(ModuleId, ModuleWork::Pass,
                                                        std::int32_t micro_batch)>
      body;
};

/// Forward and backward for every micro-batch, then the optimizer.
Status run_training_step(Engine& engine, const Model& model, const TrainingOptions& options);

}  // namespace tessera
