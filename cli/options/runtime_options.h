// SPDX-License-Identifier: Apache-2.0
// Options of a training run's runtime: this process alone, processes through MPI or NCCL, or the
// simulator; on CPUs or on GPUs.
#pragma once

#include <CLI/CLI.hpp>
#include <string>

#include "cli/options/launch.h"
#include "tessera/types.h"

namespace tessera::cli {

struct RuntimeOptions {
  std::string runtime = "auto";
  std::string device = "cpu";
  bool share_gpu = false;
  bool profile_nccl = false;
  std::string windows = "off";
  bool deterministic = false;
  bool tf32 = false;
  bool cuda_graphs = false;
  bool hopper_attention = false;
  double pinned_gib = 0;
  Rank ranks = 1;  // of the simulator
  std::string cluster = "dgx-h100";
  double deadline_s = 300;
};

void add_runtime_options(CLI::App& command, RuntimeOptions& options);

/// Which runtime `options` mean here: "local", "mpi", "torchrun" or "simulator".
std::string runtime_of(const RuntimeOptions& options, const Launch& launch);
/// How many ranks that is, as far as it is known before.
Rank ranks_of(const RuntimeOptions& options, const Launch& launch);

}  // namespace tessera::cli
