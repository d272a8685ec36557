// SPDX-License-Identifier: Apache-2.0
#include "inspector/timeline/span_facts.h"

#include <catch2/catch.hpp>

#include "tessera/storage/trace_writer.h"

namespace tessera::inspector {
namespace {

// One all_gather of two ranks that takes 1000 ns on both, whose kernels differ.
void write_trace(const std::string& path) {
  TraceRun run;
  run.ranks = 2;
  run.ranks_per_node = 2;
  run.recorded_ranks = {0, 1};
  run.options = "{}";
  auto writer = storage::TraceWriter::create(path);
  REQUIRE(writer.ok());
  TraceSink& sink = **writer;
  sink.begin(run);
  sink.stream({0, "communication", StreamRole::communication});
  sink.communicator({0, "world", 2, 1});
  sink.op({.id = 0, .kind = OpKind::all_gather, .communicator = 0, .bytes = Bytes{4000}});
  const std::vector<Rank> ranks = {0, 1};
  const std::vector<Time> begin = {0, 0}, end = {1000, 1000};
  sink.spans({0, ranks, begin, begin, end});
  sink.kernel({0, 0, 800});
  sink.kernel({1, 0, 500});
  REQUIRE(sink.finish().ok());
}

TEST_CASE("a collective's kernel time is that of the rank that is pointed at",
          "[inspector][facts]") {
  const std::string path = std::string(TESSERA_BINARY_DIR) + "/span_facts_test.tessera";
  write_trace(path);
  const auto model = TraceModel::open(path);
  REQUIRE(model.ok());
  const SpanFacts first = facts_of(**model, {0, 0, 0});
  const SpanFacts second = facts_of(**model, {1, 0, 0});
  CHECK(first.kernel == 800);
  CHECK(second.kernel == 500);
  CHECK(first.busbw == Approx(2e9));
  CHECK(second.busbw == Approx(2e9));
  CHECK(first.kernel_busbw == Approx(2.5e9));
  CHECK(second.kernel_busbw == Approx(4e9));
}

}  // namespace
}  // namespace tessera::inspector
