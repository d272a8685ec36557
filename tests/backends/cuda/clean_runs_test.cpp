// SPDX-License-Identifier: Apache-2.0
// Where nothing is wrong the stand-in, which looks for everything, raises no alarm.
#include <cstdlib>
#include <string>

#include "tests/backends/cuda/cuda_ranks.h"
#include "tests/backends/host/as_simulated.h"
#include "tests/random.h"

namespace tessera {
namespace {

// A call that is slow on one rank, every time, is no fault.
void check_clean(std::uint64_t seed) {
  INFO("seed " << seed);
  using test::Call;
  constexpr Call slow[] = {Call::event_query, Call::all_gather,   Call::kernel,
                           Call::comm_split,  Call::memcpy_async, Call::comm_get_async_error};
  const auto schemes = test::schemes();
  const auto& [name, scheme] = schemes[seed % schemes.size()];
  const Rank ranks = seed % 3 == 0 ? 4 : 2;
  const bool windows = seed % 2 == 0 && name != "sharded_data_parallel";
  test::StandInOptions options{.ranks = ranks, .seed = seed};
  options.device_bytes = std::size_t{16} << 20;
  if (seed % 5 != 0) {
    options.fault = test::PlantedFault{.call = slow[seed % std::size(slow)],
                                       .rank = static_cast<int>(seed % 2),
                                       .use = test::PlantedFault::every_use,
                                       .slow = 1'000'000};
  }
  test::check_as_simulated(name, scheme, ranks, [&](const test::RankProgram& program) {
    test::require_clean(test::run_on_gpus(
        options, program,
        {.windows = windows ? CudaOptions::Windows::on : CudaOptions::Windows::off}));
  });
}

TEST_CASE("nobody raises an alarm where nothing is wrong, however slow a rank is", "[cuda]") {
  for (std::uint64_t seed = 1; seed <= test::generated(20); ++seed) check_clean(seed);
}

// In parts, since all of them take hours: TESSERA_FIRST_SEED and TESSERA_SEEDS, how many.
TEST_CASE("nobody raises an alarm in a thousand runs", "[.thousand]") {
  const auto number = [](const char* name, std::uint64_t otherwise) -> std::uint64_t {
    const char* const said = std::getenv(name);
    return said == nullptr ? otherwise : std::stoull(said);
  };
  const std::uint64_t first = number("TESSERA_FIRST_SEED", 1);
  const std::uint64_t count = number("TESSERA_SEEDS", 1'000);
  for (std::uint64_t seed = first; seed < first + count; ++seed) check_clean(seed);
}

}  // namespace
}  // namespace tessera
