// SPDX-License-Identifier: Apache-2.0
// Allocations of a profile (profile_memory=True), with what they are for as far as their place in
// the step tells.
#pragma once

#include "exchange/formats/kineto_context.h"

namespace tessera::exchange {

/// The device's; the host's only where no device has any. What FSDP allocates is named by its
/// annotations; what is allocated in forward is an activation if it lasts until backward, and
/// temporary if it does not; the rest is not known.
void add_kineto_memory(const KinetoFile& file, const KinetoContexts& contexts, ImportedRank& rank,
                       ImportedRun& run);

}  // namespace tessera::exchange
