// SPDX-License-Identifier: Apache-2.0
// Settings of NCCL that only environment variables can change.
#pragma once

#include <string>
#include <vector>

#include "tessera/cuda_runtime.h"

namespace tessera {

struct NcclSetting {
  std::string variable;
  std::string value;
  bool always = false;  // false: a value that the user has set stays
};

/// The settings for this rank. They must be set before NCCL's first call.
std::vector<NcclSetting> nccl_settings(const CudaOptions& options, Rank rank);

}  // namespace tessera
