// SPDX-License-Identifier: Apache-2.0
#include "engine/backends/cuda/calls.h"

#include <fmt/format.h>

namespace tessera {

Status cuda_status(const CudaApi& api, int code, const char* call) {
  if (code == cuda_success) return {};
  return Status(code == cuda_out_of_memory ? Code::out_of_memory : Code::communication_error,
                fmt::format("{} failed: code {}: {}", call, code, api.get_error_string(code)));
}

Status nccl_status(const NcclApi& api, NcclComm comm, int code, const char* call) {
  if (code == nccl_success) return {};
  const char* const words = api.get_last_error(comm);
  const bool says = words != nullptr && *words != '\0';
  return Status(Code::communication_error,
                fmt::format("{} failed: code {}: {}{}{}", call, code, api.get_error_string(code),
                            says ? ": " : "", says ? words : ""));
}

Result<bool> has_happened(const CudaApi& api, CudaEvent event) {
  const int code = api.event_query(event);
  if (code == cuda_not_ready) return false;
  TESSERA_TRY(cuda_status(api, code, "cudaEventQuery"));
  return true;
}

}  // namespace tessera
