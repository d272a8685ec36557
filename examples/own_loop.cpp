// SPDX-License-Identifier: Apache-2.0
// A program with a loop, data and arithmetic of its own: it fits a line, on one process or, under
// mpirun, on several, sharded by ZeRO-3.
#include <cstdlib>
#include <iostream>

#include "tessera/host_runtime.h"
#include "tessera/scheme.h"
#include "tessera/training.h"

using namespace tessera;

constexpr const char* model_json = R"({"tessera_model": 1, "name": "line", "root": {"class": "Net",
  "modules": [{"name": "line", "class": "Line",
               "parameters": [{"name": "weight", "shape": [2]}]}]}})";

// Points of y = 3 x - 1; each rank has its own. The passes compute w[0] x + w[1].
Status fit(ProcessRuntime& runtime) {
  TESSERA_ASSIGN(const Model model, parse_model(model_json, "line"));  // or load_model(path)
  TESSERA_ASSIGN(auto engine, make_engine(runtime, model, Zero3Options{}));
  TESSERA_TRY(engine->initialise([](ParameterId, Numel) { return 0.0F; }));
  float loss = 0;
  TrainingOptions training{.adam = {.learning_rate = 0.1F}};
  training.body = [&loss](ModuleId, ModuleWork::Pass pass, std::int32_t) {
    return [&loss, pass](const BodyContext& context) {
      const auto w = context.read_as<float>(0);  // gathered
      if (pass == ModuleWork::Pass::forward) loss = 0;
      for (int n = 0; n < 8; ++n) {
        const float x = 0.25F * static_cast<float>(n + 8 * context.rank()) - 1;
        const float off = w[0] * x + w[1] - (3 * x - 1);
        if (pass == ModuleWork::Pass::forward) {
          loss += off * off / 8;
        } else {
          const auto gradient = context.write_as<float>(0);  // bodies add to it
          gradient[0] += 2 * off * x / 8;
          gradient[1] += 2 * off / 8;
        }
      }
    };
  };
  TrainingSteps steps(*engine, model);
  for (int step = 0; step < 200; ++step) {
    TESSERA_TRY(steps.run(training));
    // Waits until the bodies have run, then calls this for each rank of the process.
    TESSERA_ASSIGN(const double mean, runtime.mean([&](Rank) { return loss; }));
    const bool prints = runtime.local_ranks().first() == 0 && step % 50 == 49;
    if (prints) std::cout << "step " << step << " loss " << mean << '\n';
  }
  return runtime.finish();
}

int main() {
  const bool alone = std::getenv("OMPI_COMM_WORLD_SIZE") == nullptr;  // not under mpirun
  auto runtime = alone ? make_local_runtime({}) : make_mpi_runtime({});
  const Status status = runtime.ok() ? fit(**runtime) : runtime.status();
  if (!status) std::cerr << status.message() << '\n';
  return status.ok() ? 0 : 1;
}
