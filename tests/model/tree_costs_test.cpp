// SPDX-License-Identifier: Apache-2.0
// What the modules of a module tree cost: as the file says, otherwise as shapes and classes say.
#include <catch2/catch.hpp>
#include <fstream>
#include <nlohmann/json.hpp>

#include "tests/parsed_model.h"

namespace tessera {
namespace {

using Json = nlohmann::json;

Json module_json(const Model& model, ModuleId id) {
  const Module& m = model.module(id);
  Json out{{"class", m.class_name}};
  const auto dot = m.path.rfind('.');
  if (id.value != 0) out["name"] = dot == std::string::npos ? m.path : m.path.substr(dot + 1);
  for (const ParameterId p : m.parameters) {
    const Parameter& own = model.parameter(p);
    out["parameters"].push_back(
        {{"name", own.name.substr(own.name.rfind('.') + 1)}, {"shape", own.shape}});
  }
  for (const ModuleId child : m.children) out["modules"].push_back(module_json(model, child));
  return out;
}

// Modules, names and shapes alone, as a few lines of Python write them.
Json tree_without_costs(const Model& model) {
  Json blocks = Json::array();
  for (const Module& m : model.modules) {
    if (m.is_block) blocks.push_back(m.path);
  }
  return {{"tessera_model", 1},
          {"name", model.name},
          {"root", module_json(model, ModuleId{0})},
          {"units", blocks}};
}

double forward_flops(const Model& model, std::int64_t tokens) {
  return flops_per_sample(model, tokens) / 3;
}

constexpr auto none = ActivationCheckpointing::none;
constexpr auto full = ActivationCheckpointing::full;

double activations(const Model& model, ActivationCheckpointing kept) {
  return static_cast<double>(activation_bytes_per_sample(model, 512, kept).value);
}

const char* const with_head =
    R"("vocab_size":512,"hidden_size":64,"num_hidden_layers":3,)"
    R"("num_attention_heads":4,"num_key_value_heads":2,"intermediate_size":176,)"
    R"("tie_word_embeddings":false)";

TEST_CASE("a tree without costs gets those of its shapes, per token", "[model][tree][cost]") {
  for (const char* kind : {"llama", "qwen2", "qwen3", "phi3", "olmo2"}) {
    INFO(kind);
    const Model known =
        test::parsed(std::string("{\"model_type\":\"") + kind + "\"," + with_head + "}");
    const Model tree = test::parsed(tree_without_costs(known).dump());
    for (const std::int64_t tokens : {1, 128, 2048}) {
      CHECK(forward_flops(tree, tokens) == Approx(forward_flops(known, tokens)).epsilon(0.01));
    }
    // Which tensors are kept twice, shapes do not say.
    CHECK(activations(tree, none) == Approx(activations(known, none)).epsilon(0.15));
    CHECK(activations(tree, full) == Approx(activations(known, full)).epsilon(0.05));
    CHECK(tree.cost_note.find("are not stated: estimated from shapes") != std::string::npos);
    CHECK(known.cost_note.empty());
  }
}

TEST_CASE("costs that a module states act, and nothing is estimated beside them",
          "[model][tree][cost]") {
  const Model model = test::parsed(R"({"tessera_model":1,"name":"n","root":{"class":"Net",
      "modules":[{"name":"a","class":"Linear","parameters":[{"name":"weight","shape":[8,4]}],
      "linears":[{"in":4,"out":8},{"in":4,"out":2,"rows_per_token":0.5,"count":3}],
      "attention":{"heads":4,"key_value_heads":2,"head_dim":16,"window":7,"causal":false},
      "activation_bytes_per_sample":[1,2,3],"elementwise_bytes_per_sample":5,"kernels":9,
      "checkpoint_bytes_per_sample":[0,11],"logits":6}]},"units":["a"]})");
  const ModuleCost& cost = model.module(model.find_module("a")).cost;
  CHECK(cost.matmul_flops.linear == 64 + 24);
  CHECK(cost.linears.size() == 2);
  CHECK(cost.attention_flops.quadratic == 4 * 4 * 16);
  CHECK(cost.attention.key_value_heads == 2);
  CHECK_FALSE(cost.attention.causal);
  CHECK(cost.activation_bytes.at(2) == 17);
  CHECK(cost.elementwise_bytes.at(100) == 5);
  CHECK(cost.kernels == 9);
  CHECK(cost.logits == 6);
  CHECK(model.modules[1].checkpoint_bytes.at(10) == 110);
  CHECK(model.cost_note.empty());
  CHECK(model.warnings.empty());
}

TEST_CASE("a module that runs as a whole costs what is below it", "[model][tree][cost]") {
  const std::string tree = R"({"tessera_model":1,"name":"n","root":{"class":"Net","modules":[
      {"name":"a","class":"Block","modules":[
        {"name":"x","class":"Linear","parameters":[{"name":"weight","shape":[8,4]}]},
        {"name":"y","class":"Linear","parameters":[{"name":"weight","shape":[4,8]}],
         "flops_per_sample":[0,100]}]}]},"forward":)";
  const Model whole = test::parsed(tree + R"(["a"]})");
  const Model parts = test::parsed(tree + R"(["a.x","a.y"]})");
  CHECK(forward_flops(whole, 10) == 10 * (64 + 100));
  CHECK(forward_flops(parts, 10) == 10 * (64 + 100));
  CHECK(activations(whole, none) == activations(parts, none));
  CHECK(activations(whole, none) > 0);
}

std::string exported(const std::string& file) {
  return std::string(TESSERA_SOURCE_DIR) + "/tests/golden/exported/" + file;
}

double elementwise(const Model& model, std::int64_t tokens) {
  double bytes = 0;
  for (const ModuleId id : model.forward) {
    bytes += model.module(id).cost.elementwise_bytes.at(tokens);
  }
  return bytes;
}

TEST_CASE("a container launches as many kernels as it states", "[model][tree][cost]") {
  const Model tree = test::parsed(R"({"tessera_model": 1, "name": "t", "root": {"class": "Net",
    "modules": [{"name": "a", "class": "Attention", "flops_per_sample": [0, 32, 0],
    "activation_bytes_per_sample": [0, 16, 0], "elementwise_bytes_per_sample": [0, 8, 0],
    "kernels": 9, "modules": [{"name": "q", "class": "Linear", "parameters":
    [{"name": "weight", "shape": [4, 4]}]}]}]}, "forward": ["a"]})");
  CHECK(tree.module(tree.find_module("a")).cost.kernels == 9);
}

TEST_CASE("an exported model is that of its config.json", "[model][tree][cost]") {
  const auto known = load_model(exported("qwen3-small/config.json"));
  const auto tree = load_model(exported("qwen3-small/tree.json"));
  REQUIRE(known.ok());
  INFO(tree.status().message());
  REQUIRE(tree.ok());
  CHECK(tree->parameter_count() == known->parameter_count());
  CHECK(forward_flops(*tree, 1024) == forward_flops(*known, 1024));
  // Tables of rotations, which every block reads, are 1 % of so small a model.
  CHECK(activations(*tree, none) == Approx(activations(*known, none)).epsilon(0.02));
  CHECK(activations(*tree, full) == Approx(activations(*known, full)).epsilon(0.01));
  CHECK(elementwise(*tree, 1024) == Approx(elementwise(*known, 1024)).epsilon(0.1));
  CHECK(tree->cost_note.empty());
  CHECK(tree->warnings.empty());
}

TEST_CASE("an exported model keeps ties, second names, frozen and bare parameters",
          "[model][tree]") {
  const auto tree = load_model(exported("mixed/tree.json"));
  INFO(tree.status().message());
  REQUIRE(tree.ok());
  CHECK(tree->find_parameter("head.weight") == tree->find_parameter("embedding.weight"));
  CHECK(tree->find_module("again") == tree->find_module("blocks.0"));
  CHECK_FALSE(tree->parameter(tree->find_parameter("blocks.1.down.weight")).requires_grad);
  CHECK(tree->find_parameter("blocks.0.scale").valid());
  CHECK(tree->forward.size() == 20);  // the first block runs twice
  CHECK(tree->buffers.size() == 1);
  const ModuleCost& attention = tree->module(tree->find_module("blocks.0.attention")).cost;
  CHECK(attention.attention.heads == 4);
  CHECK_FALSE(attention.attention.causal);
}

TEST_CASE("what shapes do not say is named", "[model][tree][cost]") {
  const Model experts = test::parsed(R"({"tessera_model":1,"name":"n","root":{"class":"Net",
      "modules":[{"name":"experts","class":"ModuleList","modules":[
      {"name":"0","class":"Linear","parameters":[{"name":"weight","shape":[8,4]}]}]}]}})");
  CHECK(experts.cost_note.find("taken through all experts") != std::string::npos);
  const Model unused = test::parsed(R"({"tessera_model":1,"name":"n","root":{"class":"Net",
      "modules":[{"name":"a","class":"Linear","flops_per_sample":8},
      {"name":"x","class":"Linear","parameters":[{"name":"weight","shape":[8,4]}]}]},
      "forward":["x"]})");
  REQUIRE(unused.warnings.size() == 1);
  CHECK(unused.warnings[0] == "costs of modules that never run are ignored: \"a\"");
}

TEST_CASE("what a container costs is the work of the first module in it", "[model][tree][cost]") {
  const Model model = test::parsed(R"({"tessera_model":1,"name":"n","root":{"class":"Net",
      "modules":[{"name":"a","class":"Block","flops_per_sample":[0,10],
      "parameters":[{"name":"w","shape":[3]}],"modules":[
        {"name":"x","class":"Linear","parameters":[{"name":"weight","shape":[8,4]}]},
        {"name":"y","class":"Linear","parameters":[{"name":"weight","shape":[4,8]}]}]}]},
      "forward":["a.x","a.x","a.y"]})");
  CHECK(forward_flops(model, 7) == 7 * (64 + 64 + 64 + 10));
}

TEST_CASE("impossible costs are refused", "[model][tree][errors]") {
  const std::pair<const char*, const char*> bad[] = {
      {R"("linears":[])", "linears must be a list of matmuls"},
      {R"("linears":[{"in":4}])", "linears[0] out is missing"},
      {R"("linears":[{"in":4,"out":2,"rows":1}])", "unknown key \"rows\""},
      {R"("linears":[{"in":4,"out":2}],"flops_per_sample":[0,99])", "says otherwise"},
      {R"("attention":[])", "attention expected an object {...}, found []"},
      {R"("attention":{"heads":4})", "attention head_dim is missing"},
      {R"("attention":{"heads":4,"key_value_heads":3,"head_dim":8})", "not a multiple"},
      {R"("kernels":-1)", "kernels must be 0 to"},
      {R"("kernels":100000000)", "kernels must be at most"},
      {R"("logits":"all")", "logits must be an integer"},
      {R"("elementwise_bytes_per_sample":[1,-2])", "must be a number that is not negative"},
  };
  for (const auto& [costs, part] : bad) {
    const auto model = parse_model(
        std::string(R"({"tessera_model":1,"name":"n","root":{"class":"Net",)") + costs + "}}",
        "tree.json");
    INFO(costs);
    REQUIRE_FALSE(model.ok());
    INFO(model.status().message());
    CHECK(model.status().message().find(part) != std::string::npos);
  }
}

}  // namespace
}  // namespace tessera
