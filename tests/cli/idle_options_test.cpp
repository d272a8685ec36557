// SPDX-License-Identifier: Apache-2.0
// Options of a simulated run that would do nothing are refused, and a run needs no trace.
#include <algorithm>
#include <catch2/catch.hpp>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "tests/cli/program.h"

namespace tessera::test {
namespace {

const std::string simulate_gpt = "simulate '" + example_model("gpt-tiny") + "' --steps 2 ";

void check_idle(const std::string& options, const std::string& why) {
  const ProgramRun run = run_tessera(simulate_gpt + "-o idle.tessera " + options);
  INFO(options << "\n" << run.messages);
  CHECK(run.exit_code == 2);
  CHECK(run.output.empty());
  CHECK(run.messages.find(why) != std::string::npos);
  CHECK(std::count(run.messages.begin(), run.messages.end(), '\n') == 1);
  CHECK_FALSE(std::filesystem::exists(run_folder() + "idle.tessera"));
}

}  // namespace

TEST_CASE("options that would do nothing are refused", "[cli]") {
  check_idle("--offload-activations 999", "offload_activations 999: gpt-tiny has only ");
  check_idle("--optimizer-states 0 --optimizer-dtype int8",
             "--optimizer-dtype means nothing without --optimizer-states 1 or 2");
  check_idle("--scheme replicate --process-groups '0 1,2 3,4 5,6 7' --process-group 4",
             "process_groups says what process_group 4 would: leave one out");
  const ProgramRun unrecorded = run_tessera(simulate_gpt + "--no-record-memory");
  CHECK(unrecorded.exit_code == 2);
  CHECK(unrecorded.messages.find("--no-record-memory means nothing without --output") !=
        std::string::npos);
  check_idle("--scheme replicate --process-groups '0 1,2 3'",
             "process_groups: ranks 4-7 are in no group and would do nothing");
  check_idle("--no-dropout --lora rank=4,dropout=0.1", "--lora dropout means nothing where");
  check_idle("--recompute norm,norm", "--recompute 'norm': named twice");
  for (const std::string option : {"--units", "--ignore-modules", "--ignore-parameters",
                                   "--scheme zero3 --leaf-modules", "--checkpoint-blocks"}) {
    check_idle(option + " h.0,h.1,h.0",
               option.substr(option.rfind("--")) + ": 'h.0' is named twice: leave one out");
  }
  check_idle("--record-ranks 0-3,2", "--record-ranks 0-3,2: rank 2 is named twice");
  check_idle("--max-grad-norm 1e-300", "max_grad_norm: what is so near to 0 would be taken as 0");
  check_idle("--matmul-dtype bf16 --param-dtype float32", "--matmul-dtype bf16 means nothing");
  check_idle("--scheme full_shard --keep-low-precision-grads",
             "--keep-low-precision-grads means nothing where gradients are reduced in float32");
  CHECK(run_tessera(simulate_gpt + "-q --scheme full_shard --keep-low-precision-grads "
                                   "--reduce-dtype bf16")
            .exit_code == 0);
}

TEST_CASE("a dash is no name of a file", "[cli]") {
  const ProgramRun run = run_tessera(simulate_gpt + "-o -");
  CHECK(run.exit_code == 2);
  CHECK(run.messages.find("--output -: is no name of a file, and nothing is written to standard "
                          "output") != std::string::npos);
  CHECK_FALSE(std::filesystem::exists(run_folder() + "-"));
}

TEST_CASE("options of software that a model has no use for are named", "[cli]") {
  const auto said = [](const std::string& model, const std::string& options) {
    const ProgramRun run =
        run_tessera("simulate '" + example_model(model) + "' --steps 1 " + options);
    INFO(options << "\n" << run.messages);
    CHECK(run.exit_code == 0);
    return run.messages;
  };
  CHECK(said("llama-tiny", "--no-dropout").find("--no-dropout changes nothing: ") !=
        std::string::npos);
  const std::string layers = said("g3", "--loss fused --attention-kernel unfused");
  CHECK(layers.find("--loss fused changes nothing: g3 has no head") != std::string::npos);
  CHECK(layers.find("--attention-kernel unfused changes nothing: g3 has no attention") !=
        std::string::npos);
  // A cluster's file without curves has one efficiency for every kernel.
  auto plain = nlohmann::json::parse(run_tessera("cluster show dgx-h100").output);
  for (const char* key : {"multiprocessors", "matmul", "attention"}) plain["gpu"].erase(key);
  plain["intra_node"].update({{"shared_bytes_per_s", 1e10}, {"socket_gpus", 9}});
  plain["sources"].erase("gpu.matmul");
  plain["sources"].erase("gpu.attention");
  std::ofstream(run_folder() + "plain.json") << plain.dump();
  const std::string flat = said("gpt2", "--cluster plain.json --attention-kernel flash2");
  CHECK(flat.find("--attention-kernel flash2 changes nothing: the file of cluster dgx-h100 has no "
                  "curves of attention") != std::string::npos);
  CHECK(
      flat.find("intra_node.socket_gpus says nothing, as socket_gpus is 9 and a node has 8 GPUs") !=
      std::string::npos);
  const std::string used =
      said("gpt2", "--no-dropout --loss fused --attention-kernel unfused --matmul-dtype fp8");
  CHECK(used.find("changes nothing") == std::string::npos);
}

TEST_CASE("options of schemes that a model has no use for are named", "[cli]") {
  const auto said = [](const std::string& options) {
    return run_tessera(simulate_gpt + options).messages;
  };
  const std::string sizes = "--scheme zero3 --module-granularity ";
  CHECK(said(sizes + "100")
            .find("module_granularity 100: no module has so few elements per module "
                  "in it, so none is gathered as a whole; the fewest are ") != std::string::npos);
  CHECK(said(sizes + "1000000").find("module_granularity") == std::string::npos);
  const std::string leaves = said("--scheme zero3 --leaf-modules h.0,h.0.mlp,ln_f,GPT2Block");
  for (const std::string name : {"h.0.mlp", "ln_f"}) {
    CHECK(leaves.find("leaf_modules " + name + ": what it names has no modules in it") !=
          std::string::npos);
  }
  CHECK(leaves.find("leaf_modules h.0:") == std::string::npos);
  CHECK(leaves.find("leaf_modules GPT2Block:") == std::string::npos);
  for (const std::string scheme : {"replicate", "sharded_data_parallel"}) {
    CAPTURE(scheme);
    CHECK(said("--scheme " + scheme + " --no-broadcast-buffers")
              .find("broadcast_buffers is off, which changes nothing: gpt-tiny has no buffers") !=
          std::string::npos);
    CHECK(said("--scheme " + scheme).find("broadcast_buffers") == std::string::npos);
  }
}

TEST_CASE("more ranks than can be simulated are refused at once", "[cli]") {
  check_idle("--nodes 1000000", "8000000 ranks: fully_shard is simulated for at most 4194304");
  check_idle("--nodes 4097 --scheme zero1", "32776 ranks: zero1 is simulated for at most 32768");
}

TEST_CASE("without --output a simulated run is reported, and nothing stays", "[cli]") {
  const std::string temporary = run_folder() + "temporary";
  std::filesystem::create_directories(temporary);
  const std::string environment = "TMPDIR='" + temporary + "'";
  const ProgramRun kept = run_tessera(simulate_gpt + "--json -o kept.tessera");
  const ProgramRun run = run_tessera(simulate_gpt + "--json", environment);
  CHECK(run.exit_code == 0);
  CHECK(run.output == kept.output);
  const ProgramRun text = run_tessera(simulate_gpt, environment);
  CHECK(text.output.find("tokens/s") != std::string::npos);
  CHECK(text.output.find("trace: ") == std::string::npos);
  CHECK(std::filesystem::is_empty(temporary));
  const ProgramRun nowhere = run_tessera(simulate_gpt, "TMPDIR=/nowhere");
  CHECK(nowhere.exit_code == 2);
  CHECK(nowhere.messages.find("give --output") != std::string::npos);
}

}  // namespace tessera::test
