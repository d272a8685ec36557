// SPDX-License-Identifier: Apache-2.0
// Batch sizes (deepspeed/runtime/config.py: _set_batch_related_parameters, _batch_assertion).
#include <fmt/format.h>

#include "engine/deepspeed/sections.h"

namespace tessera {
namespace {

constexpr std::int64_t size_max = 1'000'000'000'000;

}  // namespace

void read_batch_sizes(ConfigObject& root, Rank ranks, DeepSpeedConfig& config) {
  const auto train = root.integer({"train_batch_size"}, 1, size_max);
  auto micro = root.integer({"train_micro_batch_size_per_gpu"}, 1, 1'000'000);
  auto accumulation = root.integer({"gradient_accumulation_steps"}, 1, 100'000);
  if (train) {
    if (!micro && *train % (accumulation.value_or(1) * ranks) != 0) {
      root.fail(
          "train_batch_size",
          fmt::format("is {}, which {} ranks{} cannot share evenly", *train, ranks,
                      accumulation ? fmt::format(" in {} micro-batches", *accumulation) : ""));
      return;
    }
    if (micro && !accumulation) accumulation = *train / (*micro * ranks);
    if (!accumulation) accumulation = 1;
    if (!micro) micro = *train / (*accumulation * ranks);
    if (*train != *micro * *accumulation * ranks || *micro < 1 || *accumulation < 1) {
      root.fail("train_batch_size",
                fmt::format("is {}, but train_micro_batch_size_per_gpu {} * "
                            "gradient_accumulation_steps {} * {} ranks is {}",
                            *train, *micro, *accumulation, ranks, *micro * *accumulation * ranks));
      return;
    }
  }
  config.micro_batch = micro;
  if (accumulation) config.accumulation = static_cast<std::int32_t>(*accumulation);
}

}  // namespace tessera
