// SPDX-License-Identifier: Apache-2.0
// All keys that DeepSpeed 0.9.0 and 0.19.8 read (tests/golden/deepspeed_keys), and some that they
// hand on: each acts, is refused by name, or is said.
#include <algorithm>
#include <catch2/catch.hpp>
#include <fstream>
#include <map>
#include <string>
#include <vector>

#include "tests/deepspeed/outcome.h"

namespace tessera::test {
namespace {

struct Section {
  const char* path;
  const char* context;  // what its fields need
  const char* fields;   // a sample of another value than the default for each
};

// What DeepSpeed hands on to classes of others, or reads where no recording looks.
const std::vector<Section> sections = {
    {"optimizer", "{}", R"({"type": "Lion", "legacy_fusion": true})"},
    {"optimizer.params", R"({"optimizer": {"type": "AdamW"}})", R"({"lr": 0.5,
      "betas": [0.5, 0.6], "eps": 0.5, "weight_decay": 0.5, "torch_adam": true,
      "adam_w_mode": false, "bias_correction": false, "amsgrad": true, "momentum": 0.5,
      "max_coeff": 5, "min_coeff": 0.1, "freeze_step": 5, "max_grad_norm": 5,
      "cuda_aware": true, "comm_backend_name": "nccl", "muon_lr": 0.5, "adam_lr": 0.5})"},
    {"compile", "{}", R"({"enabled": true, "backend": "inductor", "kwargs": {}})"},
    {"pipeline", "{}", R"({"stages": 2, "partition": "uniform", "seed_layers": true,
      "activation_checkpoint_interval": 1, "pipe_partitioned": false,
      "grad_partitioned": false, "use_reentrant": false})"},
    {"", "{}", R"({"optimizer": {"type": "Lamb"}, "scheduler": {"type": "WarmupLR"},
      "zero_optimization": true, "bfloat16": {"enabled": true}, "fp32_allreduce": true,
      "load_universal_checkpoint": true, "anything": 1})"},
};

// `config` with `value` at a dotted path.
void set_at(nlohmann::json& config, const std::string& path, const nlohmann::json& value) {
  std::string pointer = "/" + path;
  std::replace(pointer.begin(), pointer.end(), '.', '/');
  config[nlohmann::json::json_pointer(pointer)] = value;
}

// What is wrong with how the key at `path` is heard in a file that is `context` otherwise.
std::string silence(const nlohmann::json& context, const std::string& path,
                    const nlohmann::json& value) {
  nlohmann::json config = context;
  set_at(config, path, value);
  if (config == context) return "";
  const Outcome before = outcome_of(context);
  const Outcome with = outcome_of(config);
  const std::string what = config.dump() + ": ";
  if (!with.refused) {
    const bool heard = before.refused || with.decided != before.decided || with.says(path);
    return heard ? "" : what + "silent";
  }
  const std::string key = path.substr(path.rfind('.') + 1);
  const std::string around = path.substr(0, std::min(path.rfind('.'), path.size()));
  const bool named = with.message.find(key) != std::string::npos ||
                     with.message.starts_with("ds.json: " + around + " is ") ||
                     with.message == before.message ||
                     (key == "bfloat16" && with.message.starts_with("ds.json: bf16."));
  const bool known = with.message.find(path + " is no key of DeepSpeed") == std::string::npos;
  return named && known ? "" : what + with.message;
}

// Where a key's section is on.
std::vector<std::string> contexts(const std::string& path) {
  if (path.starts_with("zero_optimization.offload_"))
    return {R"({"zero_optimization": {"stage": 3, "offload_param": {"device": "nvme",
      "nvme_path": "/a"}, "offload_optimizer": {"device": "nvme", "nvme_path": "/b"}}})",
            R"({"zero_optimization": {"stage": 2}})"};
  std::vector<std::string> found = {"{}"};
  if (path.starts_with("zero_optimization.") || path.starts_with("aio.")) {
    for (const char* stage : {"1", "2", "3"}) {
      found.push_back(std::string(R"({"zero_optimization": {"stage": )") + stage + "}}");
    }
  }
  const std::string section = path.substr(0, path.find('.'));
  if (section == "fp16" || section == "bf16") {
    found.push_back(R"({")" + section + R"(": {"enabled": true}})");
  }
  return found;
}

// What stage 3 does in any case.
bool is_default_of(const std::string& context, const std::string& path) {
  return path == "zero_optimization.overlap_comm" && context.find('3') != std::string::npos;
}

TEST_CASE("every key that DeepSpeed reads acts, is refused by name, or is said", "[deepspeed]") {
  const std::string file = GENERATE("0.9.0.json", "0.19.8.json");
  std::ifstream stream(std::string(TESSERA_SOURCE_DIR) + "/tests/golden/deepspeed_keys/" + file);
  const auto recorded = nlohmann::json::parse(stream);
  int walked = 0;
  for (const auto& [path, recorded_value] : recorded["keys"].items()) {
    // Of what is asked for by name no type is recorded: none may be silent.
    const std::vector<nlohmann::json> any = {true, 70, 0.5, "a", {{"a", 1}}, {"a"}};
    for (const std::string& context : contexts(path)) {
      if (is_default_of(context, path) || recorded_value == nlohmann::json::object()) continue;
      for (const auto& value : recorded_value.is_null() ? any : std::vector{recorded_value}) {
        CHECK(silence(nlohmann::json::parse(context), path, value) == "");
      }
    }
    ++walked;
  }
  CHECK(walked > 200);
}

TEST_CASE("keys that DeepSpeed hands on act, are refused by name, or are said", "[deepspeed]") {
  for (const Section& section : sections) {
    const std::string around = section.path;
    const auto fields = nlohmann::json::parse(section.fields);
    for (const auto& [key, value] : fields.items()) {
      CHECK(silence(nlohmann::json::parse(section.context),
                    around.empty() ? key : around + "." + key, value) == "");
    }
  }
}

// Sections whose keys nobody reads here are said as a whole.
bool is_read(const std::string& path) {
  const std::string around = path.substr(0, path.rfind('.'));
  const std::vector<std::string> read = {"bf16",
                                         "compile",
                                         "fp16",
                                         "tensor_parallel",
                                         "zero_optimization",
                                         "zero_optimization.leaf_module",
                                         "zero_optimization.offload_optimizer",
                                         "zero_optimization.offload_param"};
  return path.find('.') == std::string::npos ||
         std::find(read.begin(), read.end(), around) != read.end();
}

TEST_CASE("null is refused where DeepSpeed does not take it, and said where it does",
          "[deepspeed]") {
  // Key -> whether one of both versions takes null.
  std::map<std::string, bool> takes;
  for (const char* file : {"0.9.0.json", "0.19.8.json"}) {
    std::ifstream stream(std::string(TESSERA_SOURCE_DIR) + "/tests/golden/deepspeed_keys/" + file);
    const auto recorded = nlohmann::json::parse(stream);
    const std::vector<std::string> not_null = recorded["not_null"];
    for (const auto& [path, value] : recorded["keys"].items()) {
      // Those of 0.9.0 were dictionaries still.
      const bool dictionary = std::string(file) == "0.9.0.json" &&
                              (path.starts_with("fp16.") || path.starts_with("bf16."));
      if (!is_read(path) || dictionary) continue;
      takes[path] |= std::find(not_null.begin(), not_null.end(), path) == not_null.end();
    }
  }
  takes["train_batch_size"] = true;  // beside the other
  // The first step compares or divides by them.
  takes["gradient_clipping"] = takes["gradient_predivide_factor"] = false;
  for (const auto& [path, taken] : takes) {
    nlohmann::json config = nlohmann::json::object();
    set_at(config, path, nullptr);
    const Outcome outcome = outcome_of(config);
    INFO(path << ": " << outcome.message);
    CHECK(outcome.refused != taken);
    if (taken) CHECK(outcome.says(path));
    if (!taken) CHECK(outcome.message.find(path + " is null") != std::string::npos);
  }
  CHECK(takes.size() > 150);
  const Outcome nvme = outcome_of_text(R"({"aio": {"block_size": null}, "zero_optimization":
      {"stage": 3, "offload_param": {"device": "nvme", "nvme_path": "/a"}}})");
  CHECK(nvme.message.find("aio.block_size is null") != std::string::npos);
}

TEST_CASE("what changes time or memory is not said beside what changes nothing", "[deepspeed]") {
  const auto c =
      *parse_deepspeed_config(R"({"steps_per_print": 5, "scheduler": {"type": "OneCycle"},
    "activation_checkpointing": {"cpu_checkpointing": true, "profile": true},
    "zero_optimization": {"stage": 3, "allgather_sequential": true,
                          "stage3_max_reuse_distance": 5}})",
                              "ds.json", 2);
  const auto simulated = c.warnings("ds.json", c.scheme, /*real=*/false);
  REQUIRE(simulated.size() == 2);
  CHECK(
      simulated[0] ==
      "ds.json: time or memory differ from DeepSpeed's by: zero_optimization.allgather_sequential "
      "(what a module misses is gathered at once), activation_checkpointing.cpu_checkpointing "
      "(inputs of checkpointed blocks stay on the device), "
      "zero_optimization.stage3_max_reuse_distance (what is kept follows from the budget)");
  CHECK(simulated[1] ==
        "ds.json: no meaning here: activation_checkpointing.profile, steps_per_print, scheduler "
        "(the learning rate is that of --schedule)");
  CHECK(c.warnings("ds.json", c.scheme, /*real=*/true).size() == 3);
  Scheme compatible = c.scheme;
  std::get<Zero3Options>(compatible).policy = Zero3Policy::compatible;
  CHECK(c.warnings("ds.json", compatible, false)[0].find("reuse") == std::string::npos);
}

TEST_CASE("optimizers keep the states of their type", "[deepspeed]") {
  const auto states = [](const std::string& optimizer) {
    return parse_deepspeed_config(R"({"optimizer": )" + optimizer + "}", "ds.json", 2)->adam.states;
  };
  for (const std::string two : {"Adam", "AdamW", "Lamb", "MuAdam", "Muon"}) {
    CHECK(states(R"({"type": ")" + two + "\"}") == 2);
  }
  for (const std::string one : {"Lion", "Adagrad", "RMSprop"}) {
    CHECK(states(R"({"type": ")" + one + "\"}") == 1);
  }
  CHECK(states(R"({"type": "SGD", "params": {"lr": 0.1}})") == 0);
  CHECK(states(R"({"type": "SGD", "params": {"lr": 0.1, "momentum": 0.9}})") == 1);
  for (const std::string refused : {"OneBitAdam", "ZeroOneAdam", "OneBitLamb", "Foo"}) {
    const Outcome outcome = outcome_of({{"optimizer", {{"type", refused}}}});
    CHECK(outcome.refused);
    CHECK(outcome.message.find("optimizer.type") != std::string::npos);
  }
}

TEST_CASE("files may have comments, but no key twice", "[deepspeed]") {
  const auto c = parse_deepspeed_config(R"({
    # how many
    "train_micro_batch_size_per_gpu": 3, // each
    /* and
       how */ "wandb": {"project": "a # b // c",},
    "zero_optimization": {"stage": 2,},
  })",
                                        "ds.json", 2);
  REQUIRE(c.ok());
  CHECK(c->micro_batch == 3);
  CHECK(c->stage == 2);
  CHECK(parse_deepspeed_config(R"({"zero_optimization": {"stage": 1, "stage": 3}})", "ds.json", 2)
            .status()
            .message() == "ds.json: the key \"stage\" is twice in one object: leave one out");
  CHECK(parse_deepspeed_config("{\"a\": 1 # b\n \"c\"}", "ds.json", 2).status().message() ==
        "ds.json: not valid JSON, see line 2 column 4");
}

}  // namespace
}  // namespace tessera::test
