// SPDX-License-Identifier: Apache-2.0
// Logits, losses and gradients are those of transformers, or the configuration is refused
// (tools/logits_truth.py).
#include <catch2/catch.hpp>
#include <fstream>
#include <nlohmann/json.hpp>

#include "tessera/decoder.h"
#include "tessera/fully_shard.h"
#include "tests/training/language/language_run.h"

namespace tessera {
namespace {

nlohmann::json truth(const std::string& name) {
  std::ifstream file(std::string(TESSERA_SOURCE_DIR) + "/tests/golden/" + name + ".json");
  return nlohmann::json::parse(file);
}

// As the tool makes it: 24 bits of a hash of name and place.
float weight_at(const Parameter& p, std::uint64_t of_name, Numel place) {
  std::uint64_t word =
      of_name + static_cast<std::uint64_t>(place.value + 1) * 0x9E3779B97F4A7C15ULL;
  word = (word ^ (word >> 30)) * 0xBF58476D1CE4E5B9ULL;
  word = (word ^ (word >> 27)) * 0x94D049BB133111EBULL;
  word ^= word >> 31;
  const float value = static_cast<float>(word >> 40) / 33554432.0F - 0.25F;
  return p.shape.size() == 1 && p.name.ends_with("weight") ? value + 1 : value;
}

std::uint64_t seed_of(const std::string& name) {
  std::uint64_t sum = 14695981039346656037ULL;
  for (const char c : name) sum = (sum ^ static_cast<unsigned char>(c)) * 1099511628211ULL;
  return sum;
}

// save_pretrained writes GPT-2 with a prefix, which published files do not have.
std::function<float(ParameterId, Numel)> weights_of(const Model& model) {
  const bool gpt2 = model.modules[0].class_name == "GPT2LMHeadModel";
  std::vector<std::uint64_t> seeds;
  for (const Parameter& p : model.parameters) {
    seeds.push_back(seed_of((gpt2 && p.name != "lm_head.weight" ? "transformer." : "") + p.name));
  }
  return [&model, seeds](ParameterId id, Numel place) {
    return weight_at(model.parameter(id), seeds[id.index()], place);
  };
}

std::vector<std::int32_t> recorded_tokens(const Model& model, std::int64_t count) {
  std::vector<std::int32_t> tokens;
  const std::int64_t vocabulary = model.parameters[0].shape[0];
  for (std::int64_t k = 0; k < count; ++k) {
    tokens.push_back(static_cast<std::int32_t>((k * k * 7 + k * 3 + 1) % vocabulary));
  }
  return tokens;
}

nlohmann::json config_of(const nlohmann::json& all, const nlohmann::json& row) {
  nlohmann::json config = all["bases"][row["base"].get<std::string>()];
  config.update(row["config"]);
  if (row.contains("without")) {
    for (const auto& key : row["without"]) config.erase(key.get<std::string>());
  }
  return config;
}

void check_logits(const nlohmann::json& all, const nlohmann::json& row, const Model& model,
                  Decoder& decoder) {
  const auto tokens = recorded_tokens(model, all["tokens"]);
  const auto every = all["every"].get<std::size_t>();
  for (std::size_t k = 0; k < row["logits"].size(); ++k) {
    const auto count = all["places"][k].get<std::int64_t>() + 1 - decoder.taken();
    const auto logits = decoder.take(std::span(tokens).subspan(
        static_cast<std::size_t>(decoder.taken()), static_cast<std::size_t>(count)));
    REQUIRE(logits.ok());
    const auto expected = row["logits"][k].get<std::vector<float>>();
    for (std::size_t n = 0; n < expected.size(); ++n) {
      CHECK((*logits)[n * every] == Approx(expected[n]).epsilon(0).margin(2e-5));
    }
  }
}

// By name, the product of a gradient with numbers that follow from its name.
using Slopes = std::map<std::string, double>;

// A parameter's own, where backward leaves them.
void add_slope(const Model& model, ParameterId id, std::span<const float> gradient, Slopes& out) {
  const std::string& name = model.parameter(id).name;
  const std::string full =
      model.modules[0].class_name == "GPT2LMHeadModel" && name != "lm_head.weight"
          ? "transformer." + name
          : name;
  const std::uint64_t seed = seed_of("probe of " + full);
  double sum = 0;
  for (std::size_t i = 0; i < gradient.size(); ++i) {
    const Numel place{static_cast<std::int64_t>(i)};
    sum += static_cast<double>(gradient[i]) *
           static_cast<double>(weight_at(model.parameter(id), seed, place));
  }
  out[full] = sum;
}

void watch(const Model& model, TrainingOptions& training, Slopes& out) {
  const auto bodies = training.body;
  training.body = [&model, &out, bodies](ModuleId module, ModuleWork::Pass pass,
                                         std::int32_t micro_batch) {
    auto body = bodies(module, pass, micro_batch);
    if (pass != ModuleWork::Pass::backward) return body;
    return std::function<void(const BodyContext&)>([&, body, module](const BodyContext& context) {
      body(context);
      std::size_t k = 0;
      for (std::size_t p = 0; p < model.parameters.size(); ++p) {
        const ParameterId id{static_cast<std::int32_t>(p)};
        ModuleId m = model.parameters[p].module;
        while (m.valid() && m != module) m = model.module(m).parent;
        if (m.valid()) add_slope(model, id, context.write_as<float>(k++), out);
      }
    });
  };
}

// The loss of a training step, whose kernels are others than those that decode.
float loss_of(const Model& model, std::int64_t tokens, Slopes& slopes) {
  const test::TestCosts costs;
  auto simulator = sim::LockstepRuntime::create({.cost = &costs, .numerics = true});
  REQUIRE(simulator.ok());
  auto engine = make_engine(**simulator, model, FullyShardOptions{});
  REQUIRE(engine.ok());
  auto language =
      LanguageModel::create(model, {.sequence_length = tokens, .dropout = false, .threads = 1});
  REQUIRE(language.ok());
  REQUIRE(language->take_workspace(**simulator).ok());
  REQUIRE((*engine)->initialise(weights_of(model)).ok());
  TrainingOptions training;
  language->apply(training);
  watch(model, training, slopes);
  language->set_data([&](Rank, std::int32_t, std::span<std::int32_t> to) {
    const auto ids = recorded_tokens(model, tokens + 1);
    std::copy(ids.begin(), ids.end(), to.begin());
  });
  REQUIRE(run_training_step(**engine, model, training).ok());
  const float loss = language->losses(0)[0];
  REQUIRE(language->release().ok());
  REQUIRE((*simulator)->finish().ok());
  return loss;
}

void check_training(const nlohmann::json& row, const Model& model, std::int64_t tokens) {
  Slopes slopes;
  CHECK(loss_of(model, tokens, slopes) == Approx(row["loss"].get<float>()).margin(2e-6));
  if (!row.contains("gradients")) return;
  for (const auto& [name, expected] : row["gradients"].items()) {
    INFO(name);
    REQUIRE(slopes.contains(name));
    CHECK(slopes[name] == Approx(expected.get<double>()).epsilon(1e-4).margin(2e-5));
  }
}

}  // namespace

TEST_CASE("logits, losses and gradients are those of transformers, or a sentence names the key",
          "[language][truth]") {
  const nlohmann::json all = truth("logits");
  int equal = 0;
  int refused = 0;
  for (const nlohmann::json& row : all["models"]) {
    INFO(row["base"] << " with " << row["config"] << " without "
                     << row.value("without", "[]"_json));
    auto model = parse_model(config_of(all, row).dump(), "config.json");
    std::vector<std::vector<float>> values;
    std::vector<std::span<const float>> parameters;
    Status status = model.status();
    if (status.ok()) {
      const auto weights = weights_of(*model);
      for (std::size_t p = 0; p < model->parameters.size(); ++p) {
        std::vector<float>& to = values.emplace_back();
        const ParameterId id{static_cast<std::int32_t>(p)};
        const std::int64_t numel = model->parameter(id).numel().value;
        for (std::int64_t n = 0; n < numel; ++n) to.push_back(weights(id, Numel{n}));
      }
      for (const auto& one : values) parameters.emplace_back(one);
      auto decoder = Decoder::create(*model, parameters, {.context = all["tokens"], .threads = 1});
      status = decoder.status();
      if (status.ok()) {
        ++equal;
        check_logits(all, row, *model, *decoder);
        check_training(row, *model, all["tokens"]);
        continue;
      }
    }
    ++refused;
    INFO(status.message());
    bool named = false;
    for (const auto& [key, value] : row["config"].items()) {
      named = named || status.message().find(key) != std::string::npos;
    }
    CHECK(named);
  }
  CHECK(equal >= 540);
  CHECK(refused >= 120);
}

TEST_CASE("architectures that nobody compared are refused where they would train",
          "[language][truth]") {
  const nlohmann::json trained = truth("logits")["bases"];
  const nlohmann::json models = truth("architectures")["models"];
  for (const nlohmann::json& row : models) {
    if (!row.contains("tokens")) continue;  // published ones are large
    std::string type = row["config"]["model_type"];
    if (type == "gpt-sw3") type = "gpt2";  // by another name
    const std::string name = row["config"]["architectures"][0];
    const bool known =
        trained.contains(type) && trained[type]["architectures"][0].get<std::string>() == name;
    if (known) continue;
    INFO(name);
    const auto model = parse_model(row["config"].dump(), "config.json");
    REQUIRE(model.ok());
    const auto language = LanguageModel::create(*model, {.sequence_length = 8, .threads = 1});
    CHECK(language.status().code() == Code::not_supported);
  }
}

}  // namespace tessera
