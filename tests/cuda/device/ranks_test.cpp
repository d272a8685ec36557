// SPDX-License-Identifier: Apache-2.0
// One rank of several that share a GPU, each a process; scripts/gpu-check starts them:
//   RANK=1 WORLD_SIZE=2 TESSERA_COMM_ID=127.0.0.1:29500 TESSERA_SCHEME=3 test_device "[ranks]"
#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdlib>

#include "tessera/cuda_runtime.h"
#include "tests/host/as_simulated.h"
#include "tests/require_ok.h"

namespace tessera {
namespace {

using test::Trained;

Rank number_in(const char* variable, Rank otherwise) {
  const char* const text = std::getenv(variable);
  return text == nullptr ? otherwise : std::atoi(text);
}

Time now() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(
             std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

CudaOptions own_rank() {
  CudaOptions options{.clock = now, .deadline = 60'000'000'000};
  options.pinned_memory = Bytes{1 << 20};
  options.rank = number_in("RANK", 0);
  options.ranks = number_in("WORLD_SIZE", 1);
  options.share_gpu = options.ranks > 1;
  if (options.ranks > 1) options.comm_id = std::getenv("TESSERA_COMM_ID");
  return options;
}

// NCCL adds in its own order: as many digits as float32 keeps through a few steps.
void check_close(const Trained& real, const Trained& simulated) {
  float worst = 0;
  const auto compare = [&worst](float a, float b) {
    worst = std::max(worst, std::fabs(a - b) / std::max(1.0F, std::fabs(b)));
  };
  REQUIRE(real.losses.size() == simulated.losses.size());
  for (std::size_t i = 0; i < real.losses.size(); ++i) {
    compare(real.losses[i], simulated.losses[i]);
  }
  for (const auto& [id, parts] : simulated.shards) {
    for (const auto& [first, values] : parts) {
      const auto& own = real.shards.at(id).at(first);
      REQUIRE(own.size() == values.size());
      for (std::size_t i = 0; i < values.size(); ++i) compare(own[i], values[i]);
    }
  }
  CHECK(worst < 3e-5F);
}

TEST_CASE("a rank on a GPU trains as the simulator does", "[.][ranks]") {
  const CudaOptions options = own_rank();
  const auto schemes = test::schemes();
  const auto& [name, scheme] =
      schemes[static_cast<std::size_t>(number_in("TESSERA_SCHEME", 0)) % schemes.size()];
  INFO(name << " on " << options.ranks << " ranks");
  if (!test::has_groups_for(name, options.ranks)) return;
  const test::Run run = test::training_run(scheme, options.ranks);
  Bytes peak{};
  const auto simulated = test::simulated(run, peak);
  const auto runtime = test::require_value(make_cuda_runtime(options));
  Trained own;
  test::require_ok(test::train(
      runtime->seam(), run, [&](Rank) -> Trained& { return own; },
      [&] { return runtime->finish(); }));
  check_close(own, simulated[static_cast<std::size_t>(options.rank)]);
  CHECK(runtime->peak_reserved() == peak);
}

}  // namespace
}  // namespace tessera
