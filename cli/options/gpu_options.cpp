// SPDX-License-Identifier: Apache-2.0
#include "cli/options/gpu_options.h"

#include <fmt/format.h>

#include <utility>

#include "cli/command.h"

namespace tessera::cli {
namespace {

Status check_without_gpu(const RuntimeOptions& o, Computes where) {
  for (const auto& [given, option] :
       {std::pair(o.windows == "on", "--windows on"), std::pair(o.tf32, "--tf32"),
        std::pair(o.cuda_graphs, "--cuda-graphs"),
        std::pair(o.hopper_attention, "--hopper-attention"),
        std::pair(o.profile_nccl, "--profile-nccl"), std::pair(o.share_gpu, "--share-gpu"),
        std::pair(o.pinned_gib > 0, "--pinned-memory")}) {
    if (!given) continue;
    return refused(
        where == Computes::in_simulator
            ? fmt::format("{} is about GPUs, but the simulator computes on CPUs: leave it "
                          "out, or choose another --runtime",
                          option)
            : fmt::format("{} is about GPUs, but this run computes on CPUs: add --device "
                          "cuda, or leave it out",
                          option));
  }
  return {};
}

}  // namespace

Status check_gpu_options(const RuntimeOptions& o, Computes where, bool traced) {
  if (where != Computes::in_simulator && o.ranks != 1) {
    return refused(
        fmt::format("--ranks {} is about the simulator: add --runtime simulator, or start "
                    "so many processes by mpirun",
                    o.ranks));
  }
  if (where != Computes::on_gpu && o.device != "auto") {
    TESSERA_TRY(check_without_gpu(o, where));
  }
  if (o.profile_nccl && !traced) {
    return refused("--profile-nccl says something in a trace: add --trace FILE, or leave it out");
  }
  if (o.windows != "on") return {};
  if (o.deterministic) {
    return refused(
        "--windows on lets NCCL add in an order that it does not tell: give --deterministic or "
        "--windows on, not both");
  }
  if (o.share_gpu) {
    return refused(
        "--windows on needs GPUs that reach each other's memory, which --share-gpu switches off: "
        "leave one out");
  }
  return {};
}

}  // namespace tessera::cli
