// SPDX-License-Identifier: Apache-2.0
#include <iostream>

#include "tessera/fully_shard.h"
#include "tessera/recording.h"
#include "tessera/training.h"

// What does fully_shard do in one step of GPT-2 on four ranks? Prints every operation.
int main(int, char** argv) {
  auto model = tessera::load_model(argv[1]);
  if (!model) return std::cerr << model.status().message() << '\n', 2;

  tessera::Recording recording;
  auto runtime = tessera::make_recording_runtime(/*world_size=*/4, recording);
  auto engine = tessera::fully_shard(*runtime, *model, {.param_dtype = tessera::DType::bfloat16});
  if (!engine) return std::cerr << engine.status().message() << '\n', 1;

  auto status = tessera::run_training_step(**engine, *model, {.batch = 1, .sequence_length = 1024});
  if (!status) return std::cerr << status.message() << '\n', 1;
  for (const auto& record : recording.records) std::cout << to_line(recording, record) << '\n';
}
