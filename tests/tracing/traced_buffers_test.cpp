// SPDX-License-Identifier: Apache-2.0
#include "engine/tracing/traced_buffers.h"

#include <catch2/catch.hpp>

#include "tests/sim/vector_sink.h"

namespace tessera {
namespace {

Allocation request(std::string_view name, std::string_view unit, Bytes bytes) {
  Allocation allocation;
  allocation.name = name;
  allocation.bytes = bytes;
  allocation.where = RankSet::all(4);
  allocation.cause.unit = unit;
  return allocation;
}

TEST_CASE("buffers of one kind share a row of the trace", "[runtime][trace]") {
  test::VectorSink sink;
  TracedBuffers buffers;
  buffers.add(BufferId{0}, request("full", "layer", 64_bytes), sink);
  buffers.add(BufferId{1}, request("full", "layer", 64_bytes), sink);
  buffers.add(BufferId{2}, request("full", "layer", 128_bytes), sink);
  buffers.add(BufferId{3}, request("full", "head", 64_bytes), sink);
  buffers.add(BufferId{4}, request("ful", "llayer", 64_bytes), sink);
  CHECK(sink.buffers == std::vector<std::string>{"0 full of layer, 64", "1 full of layer, 128",
                                                 "2 full of head, 64", "3 ful of llayer, 64"});
  CHECK(buffers.row_of(BufferId{1}) == 0);
  CHECK(buffers.row_of(BufferId{2}) == 1);
}

TEST_CASE("a buffer's row is known until the last rank releases it", "[runtime][trace]") {
  test::VectorSink sink;
  TracedBuffers buffers;
  buffers.add(BufferId{0}, request("full", "layer", 64_bytes), sink);
  for (Rank rank = 1; rank < 4; ++rank) buffers.release(BufferId{0}, RankSet::single(rank));
  CHECK(buffers.row_of(BufferId{0}) == 0);
}

}  // namespace
}  // namespace tessera
