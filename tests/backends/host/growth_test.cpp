// SPDX-License-Identifier: Apache-2.0
// A run without end keeps its memory.
#include <malloc.h>

#include "tests/backends/host/thread_ranks.h"
#include "tests/backends/host/training_run.h"
#include "tests/random.h"

namespace tessera {
namespace {

// Bytes that are allocated now; 0 under sanitizers, whose allocator does not say.
std::size_t in_use() { return mallinfo2().uordblks; }

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
  std::size_t early = 0;
  const auto steps = static_cast<int>(test::generated(10'000));
  for (int step = 0; step < steps; ++step) {
    if (step == steps / 10) early = in_use();
    const Status trained = run_training_step(**engine, model, training);
    INFO(trained.message());
    REQUIRE(trained.ok());
  }
  // Queues breathe; a byte per step does not.
  CHECK(in_use() < early + 4096);
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
