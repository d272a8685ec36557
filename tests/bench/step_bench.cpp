// SPDX-License-Identifier: Apache-2.0
// Prints as JSON what a training step launches on a GPU, by kernel; nothing runs. For
// scripts/step-arithmetic.
//   bench_step MODEL.json BATCH LENGTH [fp8]
#include <fmt/format.h>

#include <cstdlib>
#include <nlohmann/json.hpp>
#include <string_view>

#include "tests/training/kernels/counted_step.h"

namespace tessera {
namespace {

Status print(const char* path, const test::CountedShape& shape) {
  TESSERA_ASSIGN(const Model model, load_model(path));
  TESSERA_ASSIGN(const test::KernelCounts counts, test::count_step(model, shape));
  nlohmann::ordered_json json;
  for (const auto& [name, one] : counts) {
    json[name] = {{"launches", one.launches}, {"bytes", one.bytes}, {"flops", one.flops}};
  }
  fmt::print("{}\n", json.dump());
  return {};
}

}  // namespace
}  // namespace tessera

int main(int count, char** arguments) {
  const bool fp8 = count == 5 && std::string_view(arguments[4]) == "fp8";
  if (count != 4 && !fp8) {
    fmt::print(stderr, "bench_step MODEL.json BATCH LENGTH [fp8]\n");
    return 2;
  }
  const auto status = tessera::print(
      arguments[1],
      {.batch = std::atoll(arguments[2]), .length = std::atoll(arguments[3]), .fp8 = fp8});
  if (!status.ok()) fmt::print(stderr, "bench_step: {}\n", status.message());
  return status.ok() ? 0 : 1;
}
