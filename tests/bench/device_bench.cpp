// SPDX-License-Identifier: Apache-2.0
// Copies between a GPU and pinned memory, as the engine makes them and plain, in turns: prints one
// JSON object with bytes per second (medians) and their ratio. Beside libtessera_cuda.so:
//   bench_device [MiB] [rounds]
#include <fmt/format.h>

#include <cstdlib>
#include <nlohmann/json.hpp>
#include <vector>

#include "engine/backends/cuda/calls.h"
#include "engine/backends/cuda/cuda_module.h"
#include "engine/backends/cuda/device_memory.h"
#include "engine/backends/cuda/staging.h"
#include "tessera/cuda_runtime.h"
#include "tests/bench/measure.h"

namespace tessera {
namespace {

using bench::median;
using bench::now;

// cudaMemcpyAsync and nothing else.
class PlainCopies {
 public:
  explicit PlainCopies(const CudaApi& api) : api_(api), device_(api), host_(api) {}

  Status open(Bytes bytes) {
    TESSERA_TRY(device_.reserve(0, bytes));
    TESSERA_TRY(device_.grow(bytes));
    TESSERA_TRY(host_.allocate(bytes));
    TESSERA_TRY(cuda_status(api_, api_.stream_create(&stream_, 0), "cudaStreamCreate"));
    return cuda_status(api_, api_.event_create(&event_), "cudaEventCreate");
  }
  Status copy(bool to_host) {
    std::byte* const device = device_.at(Bytes{});
    const auto bytes = static_cast<std::size_t>(host_.bytes().value);
    TESSERA_TRY(cuda_status(api_,
                            api_.memcpy_async(to_host ? host_.base() : device,
                                              to_host ? device : host_.base(), bytes, stream_),
                            "cudaMemcpyAsync"));
    TESSERA_TRY(cuda_status(api_, api_.event_record(event_, stream_), "cudaEventRecord"));
    int code = cuda_not_ready;
    while (code == cuda_not_ready) code = api_.event_query(event_);
    return cuda_status(api_, code, "cudaEventQuery");
  }
  void close() {
    api_.event_destroy(event_);
    api_.stream_destroy(stream_);
  }

 private:
  const CudaApi& api_;
  DeviceMemory device_;
  PinnedMemory host_;
  CudaStream stream_ = nullptr;
  CudaEvent event_ = nullptr;
};

// As operations of a runtime.
class EngineCopies {
 public:
  Status open(Bytes bytes) {
    TESSERA_ASSIGN(host_, make_cuda_runtime({.clock = now, .pinned_memory = bytes * 2}));
    Runtime& runtime = *host_;
    TESSERA_ASSIGN(stream_, runtime.create_stream("copies", StreamRole::compute));
    TESSERA_ASSIGN(device_, numbers(bytes, Memory::device));
    TESSERA_ASSIGN(pinned_, numbers(bytes, Memory::pinned_host));
    Compute fill{.cost = {}, .reads = {}, .writes = {device_}, .body = {}, .zeroed = {0}};
    return submit(std::move(fill));
  }
  Status copy(bool to_host) {
    Copy work{.index_in = {}, .pieces = {}};
    work.pieces = {{.from = to_host ? device_ : pinned_, .to = to_host ? pinned_ : device_}};
    work.route = to_host ? CopyRoute::to_host : CopyRoute::to_device;
    return submit(std::move(work));
  }
  Status close() { return host_->finish(); }

 private:
  Result<View> numbers(Bytes bytes, Memory memory) {
    Runtime& runtime = *host_;
    TESSERA_ASSIGN(const BufferId id, runtime.allocate({.bytes = bytes,
                                                        .memory = memory,
                                                        .stream = stream_,
                                                        .where = runtime.world(),
                                                        .cause = {},
                                                        .name = "numbers"}));
    return View::whole(id, DType::float32, Numel{bytes.value / 4});
  }
  Status submit(decltype(Op::what) what) {
    Runtime& runtime = *host_;
    TESSERA_ASSIGN(const EventId done, runtime.submit({.stream = stream_,
                                                       .where = runtime.world(),
                                                       .after = {},
                                                       .cause = {},
                                                       .what = std::move(what)}));
    return runtime.wait(done);
  }

  std::unique_ptr<ProcessRuntime> host_;
  StreamId stream_;
  View device_, pinned_;
};

Status measure(Bytes bytes, int rounds) {
  TESSERA_ASSIGN(const CudaModule* const module, open_cuda_module(""));
  TESSERA_TRY(check_cuda(*module));
  EngineCopies engine;
  TESSERA_TRY(engine.open(bytes));
  PlainCopies plain(module->cuda);
  TESSERA_TRY(plain.open(bytes));
  nlohmann::ordered_json json;
  json["device"] = describe_cuda(*module);
  json["bytes"] = bytes.value;
  for (const bool to_host : {true, false}) {
    std::vector<double> own, other, ratios;
    for (int k = 0; k < rounds + 2; ++k) {
      const Time begin = now();
      TESSERA_TRY(engine.copy(to_host));
      const Time middle = now();
      TESSERA_TRY(plain.copy(to_host));
      const Time end = now();
      if (k < 2) continue;  // the first ones touch memory that nobody has used
      own.push_back(static_cast<double>(bytes.value) / static_cast<double>(middle - begin) * 1e9);
      other.push_back(static_cast<double>(bytes.value) / static_cast<double>(end - middle) * 1e9);
      ratios.push_back(own.back() / other.back());
    }
    auto& part = json[to_host ? "to_host" : "to_device"];
    part["engine_bytes_per_s"] = median(own);
    part["plain_bytes_per_s"] = median(other);
    part["ratio"] = median(ratios);
  }
  plain.close();
  fmt::print("{}\n", json.dump());
  return engine.close();
}

}  // namespace
}  // namespace tessera

int main(int count, char** arguments) {
  const int mebibytes = count > 1 ? std::atoi(arguments[1]) : 256;
  const int rounds = count > 2 ? std::atoi(arguments[2]) : 15;
  const auto status =
      tessera::measure(tessera::Bytes{static_cast<std::int64_t>(mebibytes) << 20}, rounds);
  if (!status.ok()) fmt::print(stderr, "bench_device: {}\n", status.message());
  return status.ok() ? 0 : 1;
}
