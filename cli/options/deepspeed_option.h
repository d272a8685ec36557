// SPDX-License-Identifier: Apache-2.0
// --deepspeed: a file that says what other options would.
#pragma once

#include "cli/options/engine_options.h"

namespace tessera::cli {

/// Takes scheme and settings from the file `options.deepspeed`; options fill in what it leaves
/// open. Fails: whatever load_deepspeed_config does; invalid_argument (an option that the file
/// decides, or contradicts), naming it.
Status apply_deepspeed(const EngineOptions& options, Rank ranks, Training& training);

}  // namespace tessera::cli
