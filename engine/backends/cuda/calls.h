// SPDX-License-Identifier: Apache-2.0
// Error codes of CUDA and NCCL as Status.
#pragma once

#include "engine/backends/cuda/cuda_api.h"
#include "engine/backends/cuda/nccl_api.h"
#include "tessera/status.h"

namespace tessera {

/// Ok, out_of_memory or communication_error: "cudaEventRecord failed: code 700: ...".
Status cuda_status(const CudaApi& api, int code, const char* call);
/// Ok or communication_error, with NCCL's own last words. REQUIRES: not in progress.
Status nccl_status(const NcclApi& api, NcclComm comm, int code, const char* call);
/// Whether the device has come to `event`. Does not wait.
Result<bool> has_happened(const CudaApi& api, CudaEvent event);

}  // namespace tessera
