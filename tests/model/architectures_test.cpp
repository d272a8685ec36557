// SPDX-License-Identifier: Apache-2.0
// Models from config.json are those that transformers builds (tools/architecture_truth.py).
#include <algorithm>
#include <catch2/catch.hpp>
#include <fstream>
#include <nlohmann/json.hpp>
#include <set>

#include "tessera/model.h"

namespace tessera {
namespace {

nlohmann::json recorded(const std::string& name = "architectures") {
  std::ifstream file(std::string(TESSERA_SOURCE_DIR) + "/tests/golden/" + name + ".json");
  return nlohmann::json::parse(file)["models"];
}

TEST_CASE("models of published architectures have the parameters that transformers counts",
          "[model]") {
  std::set<std::string> families;
  for (const nlohmann::json& row : recorded()) {
    const std::string text = row["config"].dump();
    INFO(text);
    const auto model = parse_model(text, "config.json");
    INFO(model.status().message());
    REQUIRE(model.ok());
    CHECK(model->parameter_count().value == row["parameters"].get<std::int64_t>());
    const bool ties_anyway = row["config"]["model_type"] == "t5";  // and says so
    CHECK((model->warnings.empty() || ties_anyway));
    families.insert(row["config"]["model_type"].get<std::string>());
  }
  CHECK(families.size() >= 40);
}

TEST_CASE("their forward FLOPs are those that torch counts", "[model][cost]") {
  for (const nlohmann::json& row : recorded()) {
    if (!row.contains("forward_flops")) continue;
    const std::string text = row["config"].dump();
    INFO(text);
    const auto model = parse_model(text, "config.json");
    REQUIRE(model.ok());
    double flops = 0;
    for (const ModuleId id : model->forward) {
      const ModuleCost& cost = model->module(id).cost;
      const auto tokens = row["tokens"].get<std::int64_t>();
      flops += cost.matmul_flops.at(tokens) + cost.attention_flops.at(tokens);
    }
    CHECK(flops == Approx(row["forward_flops"].get<double>()).epsilon(0.01));
  }
}

TEST_CASE("what their activations take is what torch keeps for backward", "[model][cost]") {
  int near = 0;
  for (const nlohmann::json& row : recorded("activations")) {
    const std::string text = row["config"].dump();
    INFO(text);
    const auto model = parse_model(text, "config.json");
    REQUIRE(model.ok());
    const Bytes kept = activation_bytes_per_sample(*model, row["tokens"].get<std::int64_t>(),
                                                   ActivationCheckpointing::none);
    const auto measured = row["bytes"].get<double>();
    const auto formula = static_cast<double>(kept.value);
    CHECK(formula == Approx(measured).epsilon(0.06));  // Phi's copies of heads are not counted
    near += formula == Approx(measured).epsilon(0.05) ? 1 : 0;
  }
  CHECK(near >= 30);
}

TEST_CASE("attention to a window costs the pairs of tokens in it", "[model][cost]") {
  for (const std::int64_t window : {1, 7, 64, 100, 256, 1000}) {
    for (const bool chunked : {false, true}) {
      constexpr std::int64_t s = 256;
      double pairs = 0;
      for (std::int64_t token = 0; token < s; ++token) {
        const auto before = static_cast<double>(chunked ? token % window : token);
        pairs += std::min(before + 0.5, static_cast<double>(window));
      }
      ModuleCost cost{.attention_flops = {0, 0, 4}};
      cost.attention = {.heads = 1, .window = window, .chunked = chunked};
      INFO(window << (chunked ? " chunked" : " sliding"));
      CHECK(attention_flops(cost, s) == Approx(8 * pairs).epsilon(0.01));
    }
  }
}

}  // namespace
}  // namespace tessera
