// SPDX-License-Identifier: Apache-2.0
// From options to a running backend: the module, the others, and what NCCL reads from variables.
#include <dlfcn.h>
#include <fmt/format.h>

#include <cstdlib>

#include "engine/backends/cuda/cuda_backend.h"
#include "engine/backends/cuda/nccl_settings.h"
#include "engine/backends/cuda/transport_peers.h"
#include "engine/backends/host/transport_module.h"

namespace tessera {
namespace {

// The module is a plugin of NCCL's, too: by the file that it was opened from.
void profile_nccl(const CudaModule& module) {
  Dl_info found{};
  if (dladdr(&module, &found) == 0) return;
  setenv("NCCL_PROFILER_PLUGIN", found.dli_fname, /*overwrite=*/0);
}

Result<std::unique_ptr<CudaPeers>> find_peers(const CudaOptions& options,
                                              const std::string& modules) {
  if (options.ranks == CudaOptions::of_mpi) {
    TESSERA_ASSIGN(auto transport, open_transport("tessera_mpi", modules));
    return std::unique_ptr<CudaPeers>(std::make_unique<TransportPeers>(std::move(transport)));
  }
  if (options.rank < 0 || options.rank >= options.ranks) {
    return Status(Code::invalid_argument,
                  fmt::format("CudaOptions::rank is {} of {}", options.rank, options.ranks));
  }
  if (options.ranks > 1 && options.comm_id.empty()) {
    return Status(Code::invalid_argument,
                  fmt::format("{} ranks need CudaOptions::comm_id to find each other, or MPI "
                              "(CudaOptions::of_mpi)",
                              options.ranks));
  }
  return std::unique_ptr<CudaPeers>(std::make_unique<NamedPeers>(options.rank, options.ranks));
}

}  // namespace

Result<std::string> cuda_available(const std::string& modules) {
  TESSERA_ASSIGN(const CudaModule* const module, open_cuda_module(modules));
  TESSERA_TRY(check_cuda(*module));
  return describe_cuda(*module);
}

Result<std::string> gpu_direct_storage(const std::string& modules) {
  TESSERA_ASSIGN(const CudaModule* const module, open_cuda_module(modules));
  TESSERA_ASSIGN(const std::string version, module->find_cufile());
  return "cuFile " + version;
}

Result<std::unique_ptr<ProcessRuntime>> make_cuda_runtime(const CudaOptions& options,
                                                          const std::string& modules) {
  TESSERA_ASSIGN(const CudaModule* const module, open_cuda_module(modules));
  TESSERA_TRY(check_cuda(*module));
  TESSERA_ASSIGN(auto peers, find_peers(options, modules));
  for (const NcclSetting& setting : nccl_settings(options, peers->rank())) {
    setenv(setting.variable.c_str(), setting.value.c_str(), setting.always ? 1 : 0);
  }
  if (options.profile_nccl) profile_nccl(*module);
  return make_cuda_runtime(*module, std::move(peers), options);
}

}  // namespace tessera
