// SPDX-License-Identifier: Apache-2.0
// A decoder is built of its blueprint, whichever family said it.
#pragma once

#include <string>

#include "engine/model/blueprint.h"
#include "tessera/status.h"

namespace tessera {

/// The model of a blueprint. Fails: invalid_argument, if it is too large.
Result<Model> build_decoder(const Blueprint& blueprint, const std::string& name, DType dtype,
                            const std::string& source);

}  // namespace tessera
