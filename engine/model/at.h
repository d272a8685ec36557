// SPDX-License-Identifier: Apache-2.0
// Ids of modules and parameters as places in vectors.
#pragma once

#include <cstddef>

#include "tessera/model.h"

namespace tessera {

inline std::size_t at(ModuleId id) { return static_cast<std::size_t>(id.value); }
inline std::size_t at(ParameterId id) { return static_cast<std::size_t>(id.value); }

}  // namespace tessera
