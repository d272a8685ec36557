// SPDX-License-Identifier: Apache-2.0
// Wrap plans that users keep in files.
#pragma once

#include <string>

#include "tessera/wrap.h"

namespace tessera::cli {

/// Fails: io_error, if the file cannot be read; as read_wrap_plan.
Result<WrapPlan> load_wrap_plan(const std::string& path, const Model& model);

}  // namespace tessera::cli
