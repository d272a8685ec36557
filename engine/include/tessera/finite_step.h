// SPDX-License-Identifier: Apache-2.0
// Steps that are taken only if the gradients are finite: one bad batch must not cost the weights.
//
//   TESSERA_ASSIGN(const bool finite, clip_finite_grad_norm(*engine, 1.0F, 2, {}));
//   TESSERA_TRY(finite ? engine->step(adam) : skip_step(*engine));
//
// With a GradScaler steps are skipped by that instead.
#pragma once

#include <functional>

#include "tessera/engine.h"

namespace tessera {

/// As Engine::clip_grad_norm, but the host waits for the norm. Returns whether it is a finite
/// number, which is the same on all ranks. Fails: as clip_grad_norm; not_supported (an Engine from
/// elsewhere, a runtime without numbers); divergent (norms of several process groups).
Result<bool> clip_finite_grad_norm(Engine& engine, float max_norm, double norm_type,
                                   const std::function<void(Rank, float)>& total);

/// The step as it is when gradients are of no use: they are freed, parameters and the optimizer's
/// state stay. Fails: not_supported (an Engine from elsewhere), and what Engine::step fails with.
Status skip_step(Engine& engine);

}  // namespace tessera
