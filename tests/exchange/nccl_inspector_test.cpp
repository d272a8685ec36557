// SPDX-License-Identifier: Apache-2.0
#include "exchange/formats/nccl_inspector.h"

#include <catch2/catch.hpp>

#include "tests/exchange/reading.h"

namespace tessera::exchange {
namespace {

TEST_CASE("logs of NCCL's Inspector tell collectives, their sizes and their kernels' times",
          "[exchange]") {
  ImportedRun run;
  for (const char* name : {"inspector.0.log", "inspector.1.log"}) {
    read_into(run, read_nccl_inspector, data_path(name));
  }
  REQUIRE(run.ranks().size() == 2);
  CHECK(run.world == 2);
  for (const ImportedRank& rank : run.ranks()) {
    CHECK(rank.host == "node7");
    REQUIRE(rank.spans.size() == 4);
    for (const ImportedSpan& span : rank.spans) {
      const auto& collective = rank.collectives[static_cast<std::size_t>(span.collective)];
      CHECK(collective.bytes == Bytes{2 << 20});
      CHECK(collective.sequence >= 1);
      CHECK(span.kind ==
            (collective.sequence % 2 == 1 ? OpKind::all_gather : OpKind::reduce_scatter));
    }
  }
  const ImportedRank& rank = run.ranks()[1];
  CHECK(rank.rank == 1);
  // Verbose records tell when kernels ran; the others end when they were written.
  const auto timed = std::find_if(rank.spans.begin(), rank.spans.end(), [&](const auto& span) {
    return rank.collectives[static_cast<std::size_t>(span.collective)].sequence == 3;
  });
  CHECK(timed->begin == (1'752'867'229'000'000 + 3000 + 10) * 1000);
  CHECK(timed->end - timed->begin == 390'000);
  CHECK(run.groups().size() == 2);
  CHECK(run.warnings().size() == 1);
}

}  // namespace
}  // namespace tessera::exchange
