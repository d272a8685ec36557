// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "tessera/model.h"

namespace tessera {

/// The warning of an engine that is told not to broadcast the buffers of a model that has none.
inline std::string no_buffers_to_broadcast(const Model& model) {
  return "broadcast_buffers is off, which changes nothing: " + model.name + " has no buffers";
}

}  // namespace tessera
