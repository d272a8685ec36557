// SPDX-License-Identifier: Apache-2.0
#include "cli/options/runtime_options.h"

#include "cli/options/checks.h"

namespace tessera::cli {

void add_runtime_options(CLI::App& command, RuntimeOptions& o) {
  const char* group = "Run";
  command
      .add_option("--runtime", o.runtime,
                  "Who trains: this process (local), processes through mpi or, on GPUs, torchrun, "
                  "the simulator; auto: whoever launched it, else local")
      ->check(CLI::IsMember({"auto", "local", "mpi", "torchrun", "simulator"}))
      ->group(group);
  command.add_option("--device", o.device, "Where: cpu, cuda (one GPU a rank), auto: a GPU if any")
      ->check(CLI::IsMember({"cpu", "cuda", "auto"}))
      ->group(group);
  command
      .add_flag("--profile-nccl", o.profile_nccl,
                "cuda: the trace says how NCCL carries out collectives")
      ->group(group);
  command
      .add_option("--windows", o.windows,
                  "cuda: NCCL moves memory without copies of its own: on, off, auto (where it can)")
      ->check(CLI::IsMember({"on", "off", "auto"}))
      ->group(group);
  command
      .add_flag("--deterministic", o.deterministic,
                "The same bits from the same options and ranks: on GPUs NCCL adds in one order, "
                "elsewhere it is always so")
      ->group(group);
  command
      .add_flag("--tf32", o.tf32, "cuda: float32 matrices are multiplied in TF32, on tensor cores")
      ->group(group);
  command
      .add_flag("--cuda-graphs", o.cuda_graphs,
                "cuda: launch what modules repeat in every step as graphs")
      ->group(group);
  command
      .add_flag("--hopper-attention", o.hopper_attention,
                "cuda: attention by kernels for Hopper (H100, H200), which no GPU has run yet")
      ->group(group);
  command.add_flag("--share-gpu", o.share_gpu, "cuda: ranks may share a GPU, slowly; for tests")
      ->group(group);
  command
      .add_option("--pinned-memory", o.pinned_gib,
                  "cuda: GiB of host memory, per rank, pinned at once; 0: as much as is needed")
      ->check(within(0, 1e6))
      ->group(group);
  command.add_option("--ranks", o.ranks, "Of the simulator")->check(within(1, 4096))->group(group);
  command.add_option("--cluster", o.cluster, "That the simulator takes its times from")
      ->group(group);
  command
      .add_option("--deadline", o.deadline_s,
                  "Seconds without anything happening after which a rank gives up")
      ->check(within(0.001, 1e7))
      ->group(group);
}

std::string runtime_of(const RuntimeOptions& options, const Launch& launch) {
  if (options.runtime != "auto") return options.runtime;
  if (launch.by_torchrun) return "torchrun";
  return launch.by_launcher ? "mpi" : "local";
}

Rank ranks_of(const RuntimeOptions& options, const Launch& launch) {
  const std::string runtime = runtime_of(options, launch);
  if (runtime == "simulator") return options.ranks;
  return runtime == "local" ? 1 : launch.ranks;
}

}  // namespace tessera::cli
