// SPDX-License-Identifier: Apache-2.0
// One rank of several that share a GPU, each a process; scripts/gpu-check starts them:
//   test_cuda_ranks --rank 1 --ranks 2 --meet 127.0.0.1:29500 --scheme 3
#define CATCH_CONFIG_RUNNER
#include <algorithm>
#include <catch2/catch.hpp>
#include <chrono>
#include <cmath>

#include "tessera/cuda_runtime.h"
#include "tests/backends/host/as_simulated.h"
#include "tests/require_ok.h"

namespace tessera {
namespace {

using test::Trained;

struct Arguments {
  Rank rank = 0;
  Rank ranks = 1;
  std::string meet;
  int scheme = 0;
} arguments;

Time now() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(
             std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

CudaOptions own_rank() {
  CudaOptions options;
  options.clock = now;
  options.deadline = 15'000'000'000;  // a rank that hangs leaves time for the other worlds
  options.pinned_memory = Bytes{1 << 20};
  options.rank = arguments.rank;
  options.ranks = arguments.ranks;
  options.share_gpu = arguments.ranks > 1;
  if (arguments.ranks > 1) options.comm_id = arguments.meet;
  return options;
}

// NCCL adds in its own order: as many digits as float32 keeps through a few steps.
void check_close(const Trained& real, const Trained& simulated) {
  float worst = 0;
  const auto compare = [&worst](float a, float b) {
    const float apart = std::fabs(a - b) / std::max(1.0F, std::fabs(b));
    if (!(apart <= worst) && !std::isnan(worst)) worst = apart;  // NaN is worst, and stays
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

TEST_CASE("a rank on a GPU trains as the simulator does", "[ranks]") {
  const CudaOptions options = own_rank();
  const auto schemes = test::schemes();
  const auto& [name, scheme] = schemes[static_cast<std::size_t>(arguments.scheme) % schemes.size()];
  INFO(name << " on " << options.ranks << " ranks");
  if (!test::has_groups_for(name, options.ranks)) return;
  const test::Run run = test::training_run(scheme, options.ranks);
  Bytes peak{};
  const auto simulated = test::simulated(run, peak);
  const auto runtime = test::require_value(make_cuda_runtime(options));
  Trained own;
  test::require_ok(test::train(
      *runtime, run, [&](Rank) -> Trained& { return own; }, [&] { return runtime->finish(); }));
  check_close(own, simulated[static_cast<std::size_t>(options.rank)]);
  CHECK(runtime->peak_reserved() == peak);
}

}  // namespace
}  // namespace tessera

int main(int count, char** words) {
  Catch::Session session;
  tessera::Arguments& a = tessera::arguments;
  using Catch::clara::Opt;
  session.cli(session.cli() | Opt(a.rank, "rank")["--rank"] | Opt(a.ranks, "ranks")["--ranks"] |
              Opt(a.meet, "host:port")["--meet"] | Opt(a.scheme, "index")["--scheme"]);
  const int wrong = session.applyCommandLine(count, words);
  return wrong != 0 ? wrong : session.run();
}
