// SPDX-License-Identifier: Apache-2.0
// What NCCL is told by environment variables, as it has no calls for it.
#pragma once

#include <string>
#include <vector>

#include "tessera/cuda_runtime.h"

namespace tessera {

struct NcclSetting {
  std::string variable;
  std::string value;
  bool always = false;  // otherwise what the user has set stays
};

/// For this rank, before NCCL's first call.
std::vector<NcclSetting> nccl_settings(const CudaOptions& options, Rank rank);

}  // namespace tessera
