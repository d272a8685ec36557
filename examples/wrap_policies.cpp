// SPDX-License-Identifier: Apache-2.0
// Which modules become sharding units? Three policies on one model, and what the units of the last
// one cost: nothing is allocated until a plan is given to a scheme.
//
//   wrap_policies examples/models/gpt2.json
#include <iostream>

#include "tessera/fsdp1.h"
#include "tessera/recording.h"
#include "tessera/training.h"
#include "tessera/wrap.h"

namespace tessera {
namespace {

int run(int argc, char** argv) {
  if (argc != 2) return std::cerr << "usage: wrap_policies MODEL\n", 2;
  const auto model = load_model(argv[1]);
  if (!model) return std::cerr << model.status().message() << '\n', 2;

  // The embedding and the head are one tensor, so both have to stay in the root's unit.
  const SizeWrap by_size{.min_num_params = Numel{5'000'000},
                         .exclude = {"ModuleList", "Embedding", "Linear"}};
  const CustomWrap by_hand{[](const Module& module) -> WrapChoice {
    if (module.class_name == "LayerNorm" && module.path.starts_with("ln_f")) {
      return UnitOverrides{.mixed_precision = false};
    }
    return module.is_block;
  }};
  WrapPlan plan;
  for (const auto& [name, policy] : {std::pair<const char*, WrapPolicy>{"size", by_size},
                                     {"class", ClassWrap{{"GPT2Block"}}},
                                     {"custom", by_hand}}) {
    auto made = plan_wrapping(*model, policy, {.root = {.mixed_precision = true}});
    if (!made) return std::cerr << made.status().message() << '\n', 1;
    std::cout << name << ": " << made->units.size() << " units\n";
    for (const std::string& warning : made->warnings) std::cout << "  " << warning << '\n';
    plan = std::move(*made);
  }

  Recording recording;
  auto runtime = make_recording_runtime(/*world_size=*/8, recording);
  auto engine = fsdp1(*runtime, *model, {.plan = plan, .param_dtype = DType::bfloat16});
  if (!engine) return std::cerr << engine.status().message() << '\n', 1;
  for (const UnitInfo& unit : (*engine)->units()) {
    std::cout << "  " << unit.name << ": " << unit.numel.value << " elements, " << unit.shard.value
              << " per rank, padding " << unit.padding.value << '\n';
  }
  const auto status = run_training_step(**engine, *model, {.sequence_length = 1024});
  if (!status) return std::cerr << status.message() << '\n', 1;
  std::cout << recording.records.size() << " operations in one step\n";
  return 0;
}

}  // namespace
}  // namespace tessera

int main(int argc, char** argv) { return tessera::run(argc, argv); }
