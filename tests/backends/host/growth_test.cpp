// SPDX-License-Identifier: Apache-2.0
// A run without end keeps its memory.
#include <atomic>
#include <cstdlib>
#include <new>

#include "tests/backends/host/thread_ranks.h"
#include "tests/backends/host/training_run.h"
#include "tests/random.h"

#if defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
#define TESSERA_SANITIZED
#endif
#elif defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define TESSERA_SANITIZED
#endif

namespace {
std::atomic<std::int64_t> bytes_in_use{0};
}  // namespace

// What the allocator itself says counts what it keeps for later, and so differs from run to run:
// bytes asked for and not given back are counted here. Sanitizers keep their own allocator.
#ifndef TESSERA_SANITIZED
void* operator new(std::size_t bytes) {
  constexpr std::size_t header = alignof(std::max_align_t);
  void* block = std::malloc(bytes + header);
  if (block == nullptr) throw std::bad_alloc();
  *static_cast<std::size_t*>(block) = bytes;
  bytes_in_use += static_cast<std::int64_t>(bytes);
  return static_cast<char*>(block) + header;
}
void operator delete(void* memory) noexcept {
  if (memory == nullptr) return;
  void* block = static_cast<char*>(memory) - alignof(std::max_align_t);
  bytes_in_use -= static_cast<std::int64_t>(*static_cast<std::size_t*>(block));
  std::free(block);
}
void operator delete(void* memory, std::size_t) noexcept { operator delete(memory); }
#endif

namespace tessera {
namespace {

TEST_CASE("ten thousand steps take no more memory than one thousand", "[host][long]") {
  const Scheme scheme = GENERATE(Scheme{FullyShardOptions{.units = {"pair", "shared"}}},
                                 Scheme{Zero3Options{.prefetch_bucket = Numel{20}}});
  INFO(name_of(scheme));
  const Model model = test::repeated();
  auto runtime = make_local_runtime({});
  REQUIRE(runtime.ok());
  auto engine = make_engine(**runtime, model, scheme);
  REQUIRE(engine.ok());
  REQUIRE((*engine)->initialise([](ParameterId, Numel) { return 0.5F; }).ok());
  const TrainingOptions training;
  // Queues breathe, so the highest of many steps is compared with the highest of many.
  std::int64_t early = 0;
  std::int64_t late = 0;
  const auto steps = static_cast<int>(test::generated(10'000));
  for (int step = 0; step < steps; ++step) {
    const Status trained = run_training_step(**engine, model, training);
    INFO(trained.message());
    REQUIRE(trained.ok());
    if (step / (steps / 10) == 1) early = std::max(early, bytes_in_use.load());
    if (step / (steps / 10) == 9) late = std::max(late, bytes_in_use.load());
  }
  INFO(early << " bytes, and later " << late);
  CHECK(late < early + steps * 8 / 10);  // less than a byte for each step between
  REQUIRE((*runtime)->finish().ok());
}

TEST_CASE("what was waited for too long ago to remember is still waited for", "[host]") {
  auto host = make_local_runtime({});
  REQUIRE(host.ok());
  Runtime& runtime = **host;
  const StreamId busy = *runtime.create_stream("busy", StreamRole::compute);
  const StreamId idle = *runtime.create_stream("idle", StreamRole::copy);
  const BufferId buffer = *runtime.allocate(
      {.bytes = Bytes{4}, .stream = busy, .where = runtime.world(), .cause = {}, .name = "x"});
  const View x = View::whole(buffer, DType::float32, Numel{1});
  Op op{.stream = busy, .where = runtime.world(), .after = {}, .cause = {}, .what = Mark{}};
  op.what = Compute{.cost = {}, .reads = {}, .writes = {x}, .body = {}};
  const auto written = runtime.submit(op);
  REQUIRE(written.ok());
  op.what = Mark{};
  for (int k = 0; k < 70'000; ++k) REQUIRE(runtime.submit(op).ok());
  op.stream = idle;
  op.after = {&*written, 1};
  op.what = Compute{.cost = {}, .reads = {x}, .writes = {}, .body = {}};
  const auto read = runtime.submit(op);
  INFO(read.status().message());
  CHECK(read.ok());
  CHECK((*host)->finish().ok());
}

}  // namespace
}  // namespace tessera
