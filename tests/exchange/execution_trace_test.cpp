// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <catch2/catch.hpp>
#include <filesystem>
#include <fstream>

#include "exchange/formats/chakra.h"
#include "exchange/parse/protobuf.h"
#include "tests/exchange/reading.h"
#include "tests/temporary_folder.h"

namespace tessera::exchange {
namespace {

const ImportedSpan& span_named(const ImportedRun& run, const std::string& name) {
  for (const ImportedSpan& span : run.ranks()[0].spans) {
    if (run.text(span.name) == name) return span;
  }
  FAIL("there is no span " << name);
  return run.ranks()[0].spans[0];
}

const ImportedCollective& collective_of(const ImportedRun& run, const ImportedSpan& span) {
  return run.ranks()[0].collectives[static_cast<std::size_t>(span.collective)];
}

TEST_CASE("Chakra's nodes come after what they depend on, with their durations", "[exchange]") {
  const ImportedRun run = read_one(read_chakra, "chakra.0.et");
  REQUIRE(run.ranks().size() == 1);
  CHECK(run.ranks()[0].rank == 0);
  REQUIRE(run.ranks()[0].spans.size() == 5);
  const ImportedSpan& first = span_named(run, "forward layer 0");
  const ImportedSpan& gather = span_named(run, "all_gather layer 1");
  const ImportedSpan& second = span_named(run, "forward layer 1");
  const ImportedSpan& reduce = span_named(run, "reduce_scatter layer 1");
  CHECK(first.end - first.begin == 30'000);
  CHECK(gather.kind == OpKind::all_gather);
  CHECK(collective_of(run, gather).bytes == Bytes{4096});
  CHECK(second.begin >= std::max(first.end, gather.end));
  CHECK(reduce.begin >= second.end);
  CHECK(reduce.kind == OpKind::reduce_scatter);
  CHECK(run.warnings().size() == 1);
}

TEST_CASE("Chakra as JSON says what the protobuf does, and calls of collectives are the host's",
          "[exchange]") {
  for (const char* const name : {"chakra_feeder.json", "chakra_jsonizer.json"}) {
    INFO(name);
    const test::TemporaryFolder folder;
    const std::string path = folder.path() + "/1.0.2-chakra.0.0.4.json";
    std::filesystem::copy_file(data_path(name), path);
    ImportedRun run;
    read_into(run, read_chakra_json, path);
    REQUIRE(run.ranks().size() == 1);
    CHECK(run.ranks()[0].rank == -1);  // the name says versions, no rank
    REQUIRE(run.ranks()[0].spans.size() == 4);
    REQUIRE(run.ranks()[0].collectives.size() == 1);
    const auto gathered =
        std::find_if(run.ranks()[0].spans.begin(), run.ranks()[0].spans.end(),
                     [](const ImportedSpan& span) { return span.collective >= 0; });
    CHECK(gathered->kind == OpKind::broadcast);
    CHECK(collective_of(run, *gathered).bytes == Bytes{4096});
    CHECK(gathered->end - gathered->begin == 28'000);
    CHECK(gathered->begin >= span_named(run, "c10d::broadcast_(0)").end);
    CHECK(span_named(run, "a kernel").begin >= gathered->end);
  }
}

TEST_CASE("dependencies of Chakra's nodes that cannot be kept are counted", "[exchange]") {
  const test::TemporaryFolder folder;
  const std::string path = folder.path() + "/chakra.json";
  std::ofstream(path) << R"({"workload_graph": [
    {"Id": 1, "Name": "a", "NodeType": 4, "data_deps": [2], "runtime": 10},
    {"Id": 2, "Name": "b", "NodeType": 4, "data_deps": [1, 77], "runtime": 10}]})";
  ImportedRun run;
  read_into(run, read_chakra_json, path);
  REQUIRE(run.ranks().size() == 1);
  CHECK(span_named(run, "b").begin >= span_named(run, "a").end);
  CHECK(run.warnings().back() ==
        "2 dependencies are on nodes that come later or are not in the file: nothing waits for "
        "them");
}

TEST_CASE("PyTorch's execution traces show what is inside of what, in order", "[exchange]") {
  const ImportedRun run = read_one(read_execution_trace, "execution_trace_102.json");
  REQUIRE(run.ranks()[0].spans.size() == 4);
  const ImportedSpan& outer = span_named(run, "aten::linear");
  const ImportedSpan& inner = span_named(run, "aten::mm");
  CHECK(inner.begin > outer.begin);
  CHECK(inner.end <= outer.end);
  const ImportedSpan& reduce = span_named(run, "record_param_comms");
  CHECK(reduce.kind == OpKind::all_reduce);
  CHECK(reduce.begin > outer.end - 1);
  CHECK(collective_of(run, reduce).bytes == Bytes{4096});
  CHECK(collective_of(run, reduce).dtype == DType::float32);
  const ImportedGroup& group = run.groups()[0];
  CHECK(group.description == "default_pg");
  CHECK(group.size == 8);
}

TEST_CASE("recorded execution traces of gloo have collectives and their sizes", "[exchange]") {
  const ImportedRun run = read_one(read_execution_trace, "execution_trace_rank_1.json");
  REQUIRE(run.ranks().size() == 1);
  CHECK(run.ranks()[0].rank == 1);
  const ImportedSpan& reduce = span_named(run, "gloo:all_reduce");
  CHECK(reduce.kind == OpKind::all_reduce);
  CHECK(collective_of(run, reduce).bytes == Bytes{8 * 4 * 4});
  CHECK(collective_of(run, reduce).dtype == DType::float32);
}

TEST_CASE("protobuf fields are read to their ends and no further", "[exchange]") {
  ProtoFields fields(std::string_view("\x08\x96\x01\x12\x02hi\x1d\x00\x00\x80\x3f", 12));
  REQUIRE(fields.next());
  CHECK(fields.integer() == 150);
  REQUIRE(fields.next());
  CHECK(fields.bytes() == "hi");
  REQUIRE(fields.next());
  CHECK(fields.real() == 1.0);
  CHECK_FALSE(fields.next());
  CHECK_FALSE(fields.broken());
  for (const std::string_view bad : {"\x12\x05hi", "\x08\x96", "\x0b", "\x09\x01"}) {
    ProtoFields broken(bad);
    while (broken.next()) {
    }
    CHECK(broken.broken());
  }
}

}  // namespace
}  // namespace tessera::exchange
