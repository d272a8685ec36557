// SPDX-License-Identifier: Apache-2.0
#include "engine/backends/cuda/nccl_settings.h"

#include <fmt/format.h>

namespace tessera {
namespace {

// NCCL refuses two ranks on one GPU of one host (init.cc, "Duplicate GPU detected"), so each is
// taken for a host of its own, and nothing that works only inside one is used.
void share_gpu(Rank rank, std::vector<NcclSetting>& settings) {
  settings.push_back({"NCCL_HOSTID", fmt::format("tessera-rank-{}", rank), /*always=*/true});
  for (const char* off :
       {"NCCL_MNNVL_ENABLE", "NCCL_NVLS_ENABLE", "NCCL_CUMEM_ENABLE", "NCCL_CUMEM_HOST_ENABLE"}) {
    settings.push_back({off, "0"});
  }
  for (const char* disable : {"NCCL_IB_DISABLE", "NCCL_P2P_DISABLE", "NCCL_SHM_DISABLE"}) {
    settings.push_back({disable, "1"});
  }
  settings.push_back({"NCCL_NET", "Socket"});
  settings.push_back({"NCCL_SOCKET_IFNAME", "lo"});
  settings.push_back({"NCCL_NET_PLUGIN", "none"});
  settings.push_back({"NCCL_MAX_CTAS", "2"});
}

}  // namespace

std::vector<NcclSetting> nccl_settings(const CudaOptions& options, Rank rank) {
  // Collectives of several communicators start in the order in which the host submits them.
  std::vector<NcclSetting> settings = {{"NCCL_LAUNCH_ORDER_IMPLICIT", "1"}};
  if (options.ranks > 1) settings.push_back({"NCCL_COMM_ID", options.comm_id});
  if (options.share_gpu) share_gpu(rank, settings);
  // One order of additions for one number of ranks, whatever the size of a message.
  if (options.share_gpu || options.deterministic) {
    settings.push_back({"NCCL_ALGO", "Ring"});
    settings.push_back({"NCCL_PROTO", "Simple"});
  }
  return settings;
}

}  // namespace tessera
