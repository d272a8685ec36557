// SPDX-License-Identifier: Apache-2.0
// Which ranks, of which run, the profiles of one import are of.
#include <fmt/format.h>

#include <algorithm>
#include <catch2/catch.hpp>

#include "tests/exchange/imports.h"

namespace tessera {
namespace {

using test::Imports;

TEST_CASE("a profile that claims more ranks than any cluster has is refused", "[exchange]") {
  const Imports imports;
  const auto claims = [&](const std::string& ranks) {
    return imports
        .import({imports.file(ranks + ".json", R"({"distributedInfo": {"rank": 0, "world_size": )" +
                                                   ranks + R"(}, "traceEvents": [{"ph": "X",
          "cat": "kernel", "name": "gemm", "pid": 0, "tid": 7, "ts": 1.5, "dur": 2}]})")})
        .status();
  };
  CHECK(claims("16384").ok());
  CHECK(claims("131073").message() ==
        "The files claim a run of 131073 ranks; at most 131072 can be imported.");
}

/// One kernel of the rank, and a collective.
std::string small_profile(int rank, int world, int elements = 8) {
  return fmt::format(
      R"({{"distributedInfo": {{"rank": {}, "world_size": {}}}, "traceEvents": [
        {{"ph": "X", "cat": "kernel", "name": "gemm", "pid": 0, "tid": 7, "ts": 1.5, "dur": 2}},
        {{"ph": "X", "cat": "kernel", "name": "ncclDevKernel_AllReduce", "pid": 0, "tid": 8,
          "ts": 4, "dur": 2, "args": {{"Collective name": "allreduce", "In msg nelems": {},
          "dtype": "Float", "Process Group Name": "0", "Group size": 2, "Seq": {}}}}}]}})",
      rank, world, elements, elements);
}

TEST_CASE("files of several runs are refused, or named where only their collectives tell",
          "[exchange]") {
  const Imports imports;
  const std::string first = imports.file("a.json", small_profile(0, 2));
  const Status other =
      imports.import({first, imports.file("b.json", small_profile(1, 4))}).status();
  CHECK(other.message().find("b.json\": it is of a run of 4 ranks, and the files before it of one "
                             "of 2") != std::string::npos);
  const auto strangers = [&](int elements) {
    const auto done = test::require_value(
        imports.import({first, imports.file("b.json", small_profile(1, 2, elements))}));
    return std::count(done.warnings.begin(), done.warnings.end(),
                      "no collective of 2 ranks (0 to 1) is on any other: are their files of one "
                      "run?");
  };
  CHECK(strangers(8) == 0);
  CHECK(strangers(9) == 1);
}

TEST_CASE("a profile with processes of several ranks is refused", "[exchange]") {
  const Imports imports;
  const auto profile = [](const std::string& names) {
    return R"({"traceEvents": [{"ph": "X", "cat": "kernel", "name": "gemm", "pid": 0, "tid": 7,
              "ts": 1.5, "dur": 2})" +
           names + "]}";
  };
  const auto name = [](int rank) {
    return fmt::format(R"(, {{"ph": "M", "name": "process_name", "pid": {0}, "tid": 0,
                           "args": {{"name": "rank {0}"}}}})",
                       rank);
  };
  const auto one = test::require_value(imports.import({imports.file("p.json", profile(name(3)))}));
  CHECK(one.ranks == std::vector<Rank>{3});
  const Status several =
      imports.import({imports.file("p.json", profile(name(3) + name(5)))}).status();
  CHECK(several.message().find("it has the processes of 2 ranks: give each a file of its own") !=
        std::string::npos);
}

TEST_CASE("kernels of several devices in one profile are named", "[exchange]") {
  const Imports imports;
  const auto done = test::require_value(imports.import({imports.file("d.json", R"({"traceEvents": [
      {"ph": "X", "cat": "kernel", "name": "gemm", "pid": 0, "tid": 7, "ts": 1.5, "dur": 2},
      {"ph": "X", "cat": "kernel", "name": "gemm", "pid": 1, "tid": 7, "ts": 1.5, "dur": 2}]})")}));
  CHECK(std::count(done.warnings.begin(), done.warnings.end(),
                   "\"d.json\" has kernels of 2 devices: they are shown as those of one rank") ==
        1);
}

TEST_CASE("a profile that claims more steps of ranks than take seconds is refused", "[exchange]") {
  const Imports imports;
  std::string profile = R"({"distributedInfo": {"rank": 0, "world_size": 131072}, "traceEvents": [
      {"ph": "X", "cat": "kernel", "name": "gemm", "pid": 0, "tid": 7, "ts": 1.5, "dur": 2})";
  for (int step = 0; step < 129; ++step) {
    profile += R"(, {"ph": "X", "cat": "user_annotation", "name": "ProfilerStep#)" +
               std::to_string(step) + R"(", "pid": 1, "tid": 1, "dur": 9, "ts": )" +
               std::to_string(10 * step) + "}";
  }
  CHECK(imports.import({imports.file("steps.json", profile + "]}")}).status().message() ==
        "The files claim 129 steps of 131072 ranks, which is more than can be imported.");
}

}  // namespace
}  // namespace tessera
