// SPDX-License-Identifier: Apache-2.0
// Lanes of a trace hold one span after the other; those of sources nest and overlap.
#pragma once

#include "exchange/import/imported_run.h"

namespace tessera::exchange {

/// Moves nested spans to lanes of their own, one per depth ("main thread (2)"), at most `depth_max`
/// per lane; deeper ones are left out and counted. On devices a span may seem to begin shortly
/// before the one ahead of it is over: then it begins with its end. Spans are sorted by lane and
/// begin afterwards.
void split_lanes(ImportedRank& rank, ImportedRun& run);

inline constexpr int depth_max = 8;

}  // namespace tessera::exchange
