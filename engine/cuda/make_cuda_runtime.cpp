// SPDX-License-Identifier: Apache-2.0
// From options to a running carrier: the module, the others, and what NCCL reads from variables.
#include <fmt/format.h>

#include <cstdlib>

#include "engine/cuda/cuda_carrier.h"
#include "engine/cuda/transport_peers.h"
#include "engine/host/transport_module.h"

namespace tessera {
namespace {

// What the user has set stays.
void prefer(const char* variable, const std::string& value) {
  setenv(variable, value.c_str(), /*overwrite=*/0);
}

// NCCL refuses two ranks on one GPU of one host (init.cc, "Duplicate GPU detected"), so each is
// taken for a host of its own, and nothing that works only inside one is used.
void share_gpu(Rank rank) {
  setenv("NCCL_HOSTID", fmt::format("tessera-rank-{}", rank).c_str(), /*overwrite=*/1);
  for (const char* off :
       {"NCCL_MNNVL_ENABLE", "NCCL_NVLS_ENABLE", "NCCL_CUMEM_ENABLE", "NCCL_CUMEM_HOST_ENABLE"}) {
    prefer(off, "0");
  }
  for (const char* disable : {"NCCL_IB_DISABLE", "NCCL_P2P_DISABLE", "NCCL_SHM_DISABLE"}) {
    prefer(disable, "1");
  }
  prefer("NCCL_NET", "Socket");
  prefer("NCCL_SOCKET_IFNAME", "lo");
  prefer("NCCL_NET_PLUGIN", "none");
  prefer("NCCL_ALGO", "Ring");
  prefer("NCCL_PROTO", "Simple");
  prefer("NCCL_MAX_CTAS", "2");
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
  if (options.ranks > 1) prefer("NCCL_COMM_ID", options.comm_id);
  return std::unique_ptr<CudaPeers>(std::make_unique<NamedPeers>(options.rank, options.ranks));
}

}  // namespace

Result<std::string> cuda_available(const std::string& modules) {
  TESSERA_ASSIGN(const CudaModule* const module, open_cuda_module(modules));
  TESSERA_TRY(check_cuda(*module));
  return describe_cuda(*module);
}

Result<std::unique_ptr<HostRuntime>> make_cuda_runtime(const CudaOptions& options,
                                                       const std::string& modules) {
  TESSERA_ASSIGN(const CudaModule* const module, open_cuda_module(modules));
  TESSERA_TRY(check_cuda(*module));
  TESSERA_ASSIGN(auto peers, find_peers(options, modules));
  // Collectives of several communicators start in the order in which the host submits them.
  prefer("NCCL_LAUNCH_ORDER_IMPLICIT", "1");
  if (options.share_gpu) share_gpu(peers->rank());
  return make_cuda_runtime(*module, std::move(peers), options);
}

}  // namespace tessera
