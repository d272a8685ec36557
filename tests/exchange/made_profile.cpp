// SPDX-License-Identifier: Apache-2.0
#include "tests/exchange/made_profile.h"

#include <fmt/format.h>

#include "tests/random.h"

namespace tessera::test {
namespace {

constexpr std::int64_t base = 1'790'857'026'000'000'000;
constexpr std::int64_t layer_elements = 1 << 20;

/// Host and device of one rank, each with the time that it has reached (ns).
class Writer {
 public:
  Writer(const MadeProfile& plan, const std::function<void(const std::string&)>& write)
      : plan_(plan), write_(write), ends_(17), begins_(static_cast<std::uint64_t>(plan.rank) + 1) {}

  void all() {
    write_(fmt::format(
        R"({{"schemaVersion": 1, "deviceProperties": [{{"id": 0,)"
        R"( "name": "NVIDIA H100 80GB HBM3", "totalGlobalMem": 85029158912}}],)"
        R"( "distributedInfo": {{"backend": "nccl", "rank": {},)"
        R"( "world_size": {}, "pg_count": 1, "pg_config": [{{"pg_name": "0", "pg_desc":)"
        R"( "default_pg", "backend_config": "cuda:nccl", "pg_size": {}, "ranks": [{}]}}]}},)"
        R"( "baseTimeNanoseconds": {}, "traceEvents": [)",
        plan_.rank, plan_.world, plan_.world, ranks(), base));
    for (int step = 0; step < plan_.steps; ++step) one_step(step);
    write_(R"({"ph": "M", "name": "process_name", "ts": 1, "pid": 7, "tid": 0, "args": {}}]})");
  }

 private:
  std::string ranks() const {
    std::string list;
    for (int r = 0; r < plan_.world; ++r) list += fmt::format("{}{}", r > 0 ? ", " : "", r);
    return list;
  }

  // Microseconds in the rank's clock.
  std::string time(std::int64_t ns) const {
    const std::int64_t skewed = ns + plan_.skew;
    return fmt::format("{}{}.{:03}", skewed < 0 ? "-" : "", std::abs(skewed) / 1000,
                       std::abs(skewed) % 1000);
  }

  void event(const char* category, const std::string& name, int pid, int tid, std::int64_t begin,
             std::int64_t end, const std::string& arguments) {
    write_(fmt::format(R"({{"ph": "X", "cat": "{}", "name": "{}", "pid": {}, "tid": {}, "ts": {},)"
                       R"( "dur": {}.{:03},)"
                       R"( "args": {{{}}}}},)"
                       "\n",
                       category, name, pid, tid, time(begin), (end - begin) / 1000,
                       (end - begin) % 1000, arguments));
  }

  void annotation(const std::string& name, std::int64_t begin, std::int64_t end, int thread = 7) {
    event("user_annotation", name, 7, thread, begin, end, "");
  }

  /// A call of the runtime at the host's time; what it launches has this number.
  int launch(int thread) {
    const int id = ++correlation_;
    event(plan_.rocm ? "hip_runtime" : "cuda_runtime",
          plan_.rocm ? "hipLaunchKernel" : "cudaLaunchKernel", 7, thread, host_, host_ + 4'000,
          fmt::format(R"("External id": {}, "correlation": {})", id, id));
    host_ += 5'000;
    return id;
  }

  void kernel(const std::string& name, std::int64_t duration, int thread) {
    const int id = launch(thread);
    device_ = std::max(device_, host_);
    event("kernel", name, 0, 7, device_, device_ + duration,
          fmt::format(R"("External id": {}, "device": 0, "stream": 7, "correlation": {})", id, id));
    device_ += duration + 1'000;
  }

  /// Ranks come when they come, and leave together.
  void collective(const char* name, const char* kernel_name, std::int64_t full, int thread) {
    const std::string message =
        fmt::format(R"("Collective name": "{}", "dtype": "BFloat16", "In msg nelems": {},)"
                    R"( "Out msg nelems": {},)"
                    R"( "Group size": {}, "Process Group Name": "0", "Process Group Description":)"
                    R"( "default_pg", "Process Group Ranks": "[{}]"{})",
                    name, name[1] == 'a' ? full / plan_.world : full,
                    name[1] == 'a' ? full : full / plan_.world, plan_.world, ranks(),
                    plan_.sequence ? fmt::format(R"(, "Seq": {})", ++sequence_) : "");
    const int id = correlation_ + 1;
    event("cpu_op", "record_param_comms", 7, thread, host_, host_ + 4'500,
          fmt::format(R"("External id": {}{})", id,
                      plan_.nccl_arguments == "host" ? ", " + message : ""));
    launch(thread);
    // All ranks draw the same end.
    const std::int64_t length = 400'000 + static_cast<std::int64_t>(ends_.below(100'000));
    together_ = std::max(together_, host_ + 20'000) + length;
    const auto late = static_cast<std::int64_t>(begins_.below(200'000));
    const auto end = together_ + static_cast<std::int64_t>(begins_.below(static_cast<std::uint64_t>(
                                     std::max<std::int64_t>(plan_.jitter, 1))));
    event("kernel", kernel_name, 0, 20, together_ - length + late, end,
          fmt::format(R"("External id": {}, "device": 0, "stream": 20, "correlation": {}{})", id,
                      id, plan_.nccl_arguments == "kernel" ? ", " + message : ""));
    device_ = std::max(device_, together_);
    together_ += 50'000;
  }

  void gather(const std::string& unit, int thread) {
    const std::int64_t begin = host_;
    host_ += 2'000;
    collective("_allgather_base",
               plan_.rocm ? "ncclDevKernel_Generic(ncclDevKernelArgsStorage<4096ul>)"
                          : "ncclDevKernel_AllGather_RING_LL(ncclDevKernelArgsStorage<4096ul>)",
               layer_elements, thread);
    annotation("FSDP::all_gather" + unit, begin, host_, thread);
  }

  void reduce(const std::string& unit, int thread) {
    const std::int64_t begin = host_;
    host_ += 2'000;
    collective("_reduce_scatter_base",
               plan_.rocm ? "ncclDevKernel_Generic(ncclDevKernelArgsStorage<4096ul>)"
                          : "ncclDevKernel_ReduceScatter_Sum_bf16_RING_LL(ncclDevKernelArgs)",
               layer_elements, thread);
    annotation("FSDP::post_backward_reduce" + unit, begin, host_, thread);
  }

  void compute(int layer, bool forward, int thread) {
    for (int k = 0; k < plan_.kernels; ++k) {
      kernel(fmt::format("void gemm_kernel<{}, {}>(float*)", k, forward ? "fwd" : "bwd"),
             100'000 + 10'000 * k, thread);
    }
    for (int k = 0; k < plan_.python_functions; ++k) {
      event(
          "python_function", fmt::format("torch/nn/modules/module.py({}): forward", k), 7, thread,
          host_, host_ + 1'000,
          fmt::format(R"("CallFrom": "model.py:{}", "Python id": {}, "Ev Idx": {})", layer, k, k));
    }
  }

  void one_step(int step) {
    // The host of every rank begins a step when the device has done the one before.
    const std::int64_t begin = host_ = std::max(host_, together_ + 1'000'000);
    annotation("FSDP::root_pre_forward", host_, host_ + 1'000);
    std::int64_t mark = host_;
    gather("", 7);
    annotation("FSDP::pre_forward", mark, host_);
    for (int layer = 0; layer < plan_.layers; ++layer) {
      const std::string unit = fmt::format(" (layers.{})", layer);
      mark = host_;
      gather(unit, 7);
      annotation("FSDP::pre_forward" + unit, mark, host_);
      compute(layer, true, 7);
      annotation("FSDP::post_forward" + unit, host_, host_ + 1'000);
      host_ += 2'000;
    }
    annotation("FSDP::post_forward", host_, host_ + 1'000);
    host_ += 2'000;
    for (int layer = plan_.layers - 1; layer >= 0; --layer) {
      const std::string unit = fmt::format(" (layers.{})", layer);
      mark = host_;
      host_ += 1'000;
      gather(unit, 8);
      annotation(fmt::format("FSDP::backward_prefetch for layers.{}", layer), mark, host_, 8);
      annotation("FSDP::pre_backward" + unit, mark - 500, host_ + 500, 8);
      host_ += 1'000;
      mark = host_;
      compute(layer, false, 8);
      event("cpu_op", "autograd::engine::evaluate_function: MmBackward0", 7, 8, mark, host_,
            R"("External id": 900000)");
      reduce(unit, 8);
      host_ += 2'000;
    }
    reduce("", 8);
    host_ += 5'000;
    mark = host_;
    kernel("multi_tensor_apply_kernel", 50'000, 7);
    annotation("Optimizer.step#AdamW.step", mark, host_);
    annotation(fmt::format("ProfilerStep#{}", step + 5), begin, host_ + 1'000);
    host_ += 10'000;
  }

  const MadeProfile plan_;
  const std::function<void(const std::string&)>& write_;
  Random ends_, begins_;
  std::int64_t host_ = 1'000'000, device_ = 0, together_ = 0;
  int correlation_ = 0, sequence_ = 0;
};

}  // namespace

void make_profile(const MadeProfile& plan, const std::function<void(const std::string&)>& write) {
  Writer(plan, write).all();
}

std::string made_profile(const MadeProfile& plan) {
  std::string text;
  make_profile(plan, [&](const std::string& part) { text += part; });
  return text;
}

}  // namespace tessera::test
