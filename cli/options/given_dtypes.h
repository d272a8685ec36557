// SPDX-License-Identifier: Apache-2.0
// The dtypes that a user asked for; schemes have defaults of their own for those that are missing.
#pragma once

#include <optional>

#include "tessera/types.h"

namespace tessera::cli {

struct GivenDtypes {
  std::optional<DType> param;   // --param-dtype
  std::optional<DType> reduce;  // --reduce-dtype
};

}  // namespace tessera::cli
