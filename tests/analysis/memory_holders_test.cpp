// SPDX-License-Identifier: Apache-2.0
#include "tessera/analysis/memory_holders.h"

#include <catch2/catch.hpp>
#include <numeric>
#include <vector>

#include "tessera/analysis/memory_shortage.h"

namespace tessera::analysis {
namespace {

const std::vector<storage::BufferRow> buffers = {
    {0, "weight", "h.0", MemoryClass::sharded_parameters, Bytes{40}},
    {1, "ag_out", "h.0", MemoryClass::all_gather_buffers, Bytes{30}},
    {2, "ag_out", "h.1", MemoryClass::all_gather_buffers, Bytes{50}}};

void change(storage::MemorySeries& series, std::int32_t buffer, std::int64_t delta,
            std::int64_t reserved) {
  const Bytes before = series.allocated.empty() ? Bytes{} : series.allocated.back();
  series.time.push_back(std::ssize(series.time) * 10);
  series.buffer.push_back(buffer);
  series.memory_class.push_back(buffers[static_cast<std::size_t>(buffer)].memory_class);
  series.delta.push_back(Bytes{delta});
  series.allocated.push_back(before + Bytes{delta});
  series.reserved.push_back(Bytes{reserved});
}

storage::MemorySeries made() {
  storage::MemorySeries series;
  change(series, 0, 40, 40);
  change(series, 1, 30, 70);
  change(series, 1, -30, 70);
  change(series, 1, 30, 70);
  change(series, 1, 30, 100);
  change(series, 1, -30, 100);
  change(series, 2, 50, 150);
  return series;
}

TEST_CASE("holders are what is not released, and sum to the allocator's counter",
          "[analysis][holders]") {
  const storage::MemorySeries series = made();
  for (std::size_t sample = 0; sample < series.time.size(); ++sample) {
    const MemoryMoment moment = memory_at(series, buffers, sample);
    const Bytes held =
        std::accumulate(moment.holders.begin(), moment.holders.end(), Bytes{},
                        [](Bytes sum, const Holder& holder) { return sum + holder.bytes; });
    const Bytes classes = std::accumulate(moment.by_class.begin(), moment.by_class.end(), Bytes{});
    CHECK(held == moment.allocated);
    CHECK(classes == moment.reserved);
  }
  const MemoryMoment moment = memory_at(series, buffers, 4);
  REQUIRE(moment.holders.size() == 2);
  CHECK(moment.holders[0].name == "ag_out");
  CHECK(moment.holders[0].bytes == Bytes{60});
  CHECK(moment.holders[0].count == 2);
  CHECK(memory_at(series, buffers, 99).allocated == Bytes{120});
  CHECK(memory_at({}, buffers, 0).holders.empty());
}

TEST_CASE("the request that did not fit is the one that the error names, and what fits is told",
          "[analysis][holders]") {
  constexpr std::int64_t gib = 1 << 30;
  storage::MemorySeries series;
  change(series, 0, 40 * gib, 40 * gib);
  change(series, 1, 30 * gib, 70 * gib);
  change(series, 1, -30 * gib, 70 * gib);
  change(series, 2, 50 * gib, 120 * gib);
  storage::DiagnosticRow error;
  error.code = "out_of_memory";
  error.time = 15;
  error.message =
      "rank 0 is out of memory in step 0: ag_out of 50.00 GiB does not fit into 75.50 "
      "GiB; it holds optimizer state 40.00 GiB";
  const auto shortage = memory_shortage(series, buffers, error);
  REQUIRE(shortage);
  CHECK(shortage->sample == 3);
  CHECK(shortage->request.unit == "h.1");
  CHECK(shortage->asked.value == 50 * gib);
  CHECK(shortage->allocated.value == 40 * gib);
  CHECK(shortage->free().value == 71 * gib / 2);
  error.time = 31;
  CHECK_FALSE(memory_shortage(series, buffers, error));
  error.time = 0;
  error.message = "rank 0 is out of memory";
  CHECK_FALSE(memory_shortage(series, buffers, error));
}

}  // namespace
}  // namespace tessera::analysis
