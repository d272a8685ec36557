// SPDX-License-Identifier: Apache-2.0
#include "engine/backends/cuda/windows.h"

namespace tessera {

Status Windows::open() {
  if (api_.comm_window_register == nullptr) {
    return Status(Code::not_supported,
                  "CudaOptions::windows needs NCCL 2.27 or newer: switch it off");
  }
  open_ = true;
  return {};
}

Status Windows::cover(CommunicatorId id, std::span<std::byte> memory) {
  if (!covered_.insert(id).second) return {};
  const NcclComm comm = communicators_.at(id);
  known_.push_back({comm, nullptr});
  const int code =
      api_.comm_window_register(comm, memory.data(), memory.size(), &known_.back().handle);
  return communicators_.await(comm, code, "ncclCommWindowRegister");
}

Status Windows::close() {
  for (const Known& known : known_) {
    TESSERA_TRY(communicators_.await(known.comm,
                                     api_.comm_window_deregister(known.comm, known.handle),
                                     "ncclCommWindowDeregister"));
  }
  known_.clear();
  return {};
}

Status check_windows(const CudaOptions& options) {
  const bool windows = options.windows == CudaOptions::Windows::on;
  if (!windows || (!options.deterministic && !options.share_gpu)) return {};
  return Status(Code::invalid_argument,
                options.deterministic
                    ? "CudaOptions::windows lets NCCL add in an order that it does not tell: leave "
                      "it or deterministic out"
                    : "CudaOptions::windows needs GPUs that reach each other's memory, which "
                      "share_gpu switches off: leave one out");
}

bool wants_windows(const CudaOptions& options, const NcclApi& nccl) {
  using Windows = CudaOptions::Windows;
  if (options.windows != Windows::automatic) return options.windows == Windows::on;
  return nccl.comm_window_register != nullptr && !options.deterministic && !options.share_gpu;
}

}  // namespace tessera
