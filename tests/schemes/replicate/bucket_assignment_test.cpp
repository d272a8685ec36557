// SPDX-License-Identifier: Apache-2.0
#include <catch2/catch.hpp>
#include <fstream>

#include "tessera/replicate.h"
#include "tests/random.h"

namespace tessera {
namespace {

std::string python(const std::vector<std::vector<std::size_t>>& lists) {
  std::string text = "[";
  for (const auto& list : lists) {
    text += text.size() > 1 ? ", [" : "[";
    for (std::size_t k = 0; k < list.size(); ++k) {
      text += (k == 0 ? "" : ", ") + std::to_string(list[k]);
    }
    text += "]";
  }
  return text + "]";
}

std::string python(const BucketAssignment& a) {
  std::string limits;
  for (Bytes limit : a.limits) {
    limits += (limits.empty() ? "" : ", ") + std::to_string(limit.value);
  }
  return "(" + python(a.buckets) + ", [" + limits + "])";
}

std::vector<BucketTensor> of(std::initializer_list<std::int64_t> bytes) {
  std::vector<BucketTensor> out;
  for (std::int64_t b : bytes) out.push_back({.bytes = Bytes{b}});
  return out;
}

// The lines of the recorded file after its heading, without their labels.
std::vector<std::string> recorded() {
  std::ifstream file(std::string(TESSERA_SOURCE_DIR) +
                     "/tests/golden/layout/vectors_chunk_and_buckets.txt");
  REQUIRE(file);
  std::vector<std::string> lines;
  bool buckets = false;
  for (std::string line; std::getline(file, line);) {
    if (buckets) lines.push_back(line.substr(line.find("([")));
    buckets |= line.starts_with("BUCKETS");
  }
  return lines;
}

// torch test_c10d_common.py, ComputeBucketAssignmentTest: the tensors behind the recorded results.
TEST_CASE("buckets are assigned as PyTorch's own function does", "[reduce][golden]") {
  const auto lines = recorded();
  REQUIRE(lines.size() == 7);
  const Bytes b{1};
  const auto ten = std::vector<BucketTensor>(10, {.bytes = 100 * b});
  CHECK(python(assign_buckets(of({400, 400, 400, 400}), {500 * b, 1000 * b})) == lines[0]);
  CHECK(python(assign_buckets(of({500, 4, 4, 8}), {500 * b, 8 * b})) == lines[1]);
  CHECK(python(assign_buckets(ten, {250 * b})) == lines[2]);
  CHECK(python(assign_buckets(of({1000, 400}), {500 * b})) == lines[3]);
  CHECK(python(assign_buckets(of({400, 400, 400, 400}), {500 * b, 1000 * b}, {3, 2, 1, 0})) ==
        lines[4]);
  auto mixed = of({400, 200, 400, 200, 400});
  mixed[1].dtype = mixed[3].dtype = DType::float64;
  CHECK(python(assign_buckets(mixed, {400 * b, 800 * b})) == lines[5]);
  auto sparse = of({100, 100, 100});
  sparse[1].sparse = true;
  CHECK(python(assign_buckets(sparse, {1000 * b})) == lines[6]);
}

TEST_CASE("every tensor is in one bucket, and only a last tensor exceeds a limit",
          "[reduce][property]") {
  const std::uint64_t seed = GENERATE(range(1, 100));
  INFO("seed=" << seed);
  test::Random random(seed);
  std::vector<BucketTensor> tensors(1 + random.below(40));
  for (BucketTensor& t : tensors) {
    t.bytes = Bytes{static_cast<std::int64_t>(1 + random.below(1000))};
    t.dtype = random.chance(50) ? DType::float32 : DType::bfloat16;
    t.sparse = random.chance(5);
  }
  const std::vector<Bytes> limits = {Bytes{200}, Bytes{900}};
  const auto assigned = assign_buckets(tensors, limits);
  std::vector<int> seen(tensors.size(), 0);
  for (std::size_t b = 0; b < assigned.buckets.size(); ++b) {
    Bytes before_last{};
    for (std::size_t k = 0; k < assigned.buckets[b].size(); ++k) {
      const std::size_t index = assigned.buckets[b][k];
      ++seen[index];
      CHECK(tensors[index].dtype == tensors[assigned.buckets[b][0]].dtype);
      if (k + 1 < assigned.buckets[b].size()) before_last += tensors[index].bytes;
    }
    if (assigned.limits[b] > Bytes{0}) CHECK(before_last < assigned.limits[b]);
  }
  for (int count : seen) CHECK(count == 1);
}

}  // namespace
}  // namespace tessera
