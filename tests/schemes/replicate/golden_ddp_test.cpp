// SPDX-License-Identifier: Apache-2.0
// The order of gradients and all-reduces against runs of PyTorch's reducer.
#include <catch2/catch.hpp>
#include <fstream>
#include <regex>

#include "tessera/recording.h"
#include "tessera/replicate.h"
#include "tessera/training.h"
#include "tests/base/models.h"

namespace tessera {
namespace {

// The two recorded files differ in a few words; their lines in those of the first.
std::string normal(std::string line) {
  for (const auto& [from, to] : {std::pair{"^  grad (?!computed)", "  grad computed "},
                                 {"bucket ([0-9]+) last=", "bucket index=$1 is_last="},
                                 {" numel=[0-9]+", ""},
                                 {"params=", ""}}) {
    line = std::regex_replace(line, std::regex(from), to);
  }
  std::transform(line.begin(), line.end(), line.begin(),  // G3's units are L1.. here, l1.. there
                 [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  return line;
}

// "iter", "grad" and "allreduce" lines of a recorded file, of its `which`-th case.
std::vector<std::string> golden(const std::string& name, int which) {
  std::ifstream file(std::string(TESSERA_SOURCE_DIR) + "/tests/golden/ddp/" + name);
  REQUIRE(file);
  std::vector<std::string> lines;
  int now = -1;
  for (std::string line; std::getline(file, line);) {
    if (line.starts_with("CASE") || now < 0) ++now;
    const bool counts =
        line.starts_with("iter") || line.starts_with("  grad") || line.starts_with("  allreduce");
    if (counts && now == which) lines.push_back(normal(line));
  }
  return lines;
}

void compare(const Model& model, const ReplicateOptions& options, int steps,
             const std::vector<std::string>& expected) {
  Recording recording;
  auto runtime = make_recording_runtime(2, recording);
  auto engine = replicate(*runtime, model, options);
  REQUIRE(engine.ok());
  for (int step = 0; step < steps; ++step) {
    const Status status = run_training_step(**engine, model, {});
    INFO(status.message());
    REQUIRE(status.ok());
  }
  const auto actual = to_ddp_notation(recording);
  REQUIRE(expected.size() > 8);
  for (std::size_t i = 0; i < std::min(expected.size(), actual.size()); ++i) {
    INFO("line " << i);
    REQUIRE(normal(actual[i]) == expected[i]);
  }
  CHECK(actual.size() == expected.size());
}

TEST_CASE("replicate reduces the buckets of recorded PyTorch runs in the same order",
          "[reduce][golden]") {
  const Model three = test::linear_model(
      "three", {{"0", 300, 300}, {"2", 300, 500}, {"4", 500, 700}}, {"0", "2", "4"});
  const char* file = "ddp_buckets_torch1131.txt";
  const Bytes cap{1572864};
  const Bytes first{1 << 20};  // of PyTorch 1.13, whatever the cap
  SECTION("by default buckets are rebuilt after the first step") {
    compare(three, {.bucket_cap = cap, .first_bucket_cap = first}, 3, golden(file, 0));
  }
  SECTION("find_unused_parameters") {
    compare(three, {.bucket_cap = cap, .first_bucket_cap = first, .find_unused_parameters = true},
            3, golden(file, 1));
  }
  SECTION("static_graph") {
    compare(three, {.bucket_cap = cap, .first_bucket_cap = first, .static_graph = true}, 3,
            golden(file, 2));
  }
  SECTION("gradient_as_bucket_view") {
    compare(three, {.gradient_as_bucket_view = true}, 3, golden(file, 3));
  }
  SECTION("G3 with a first bucket of 100 bytes") {
    compare(test::g3(), {.first_bucket_cap = Bytes{100}}, 2,
            golden("ddp_golden_model_first_bucket_100B.txt", 0));
  }
}

}  // namespace
}  // namespace tessera
