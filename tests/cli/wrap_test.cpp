// SPDX-License-Identifier: Apache-2.0
// The sub-command `tessera wrap`.
#include <algorithm>
#include <catch2/catch.hpp>
#include <fstream>
#include <nlohmann/json.hpp>

#include "tests/cli/program.h"

namespace tessera::test {
namespace {

using Json = nlohmann::json;

const std::string tiny = "'" + example_model("tiny") + "'";
const std::string llama = "'" + example_model("llama-3-8b") + "'";

Json wrap_json(const std::string& arguments) {
  const ProgramRun run = run_tessera("wrap --json " + arguments);
  INFO(run.messages);
  REQUIRE(run.exit_code == 0);
  CHECK(run.messages.empty());
  return Json::parse(run.output);
}

void check_refused(const std::string& arguments, const std::string& hint) {
  const ProgramRun run = run_tessera("wrap " + arguments);
  INFO(arguments << "\n" << run.messages);
  CHECK(run.exit_code == 2);
  CHECK(run.output.empty());
  CHECK(std::count(run.messages.begin(), run.messages.end(), '\n') == 1);
  CHECK(run.messages.starts_with("tessera: "));
  CHECK(run.messages.find(hint) != std::string::npos);
}

// A norm shared by two towers, frozen, and a tied head.
std::string write_shared() {
  std::ofstream(run_folder() + "shared.json") << R"({
    "tessera_model": 1, "name": "shared", "root": {"class": "Net", "modules": [
      {"name": "a", "class": "Tower", "modules": [{"name": "norm", "class": "Norm",
        "parameters": [{"name": "weight", "shape": [5], "requires_grad": false}]}]},
      {"name": "b", "class": "Tower", "parameters": [{"name": "weight", "shape": [3, 5]}]}]},
    "module_aliases": [["a.norm", "b.norm"]]})";
  return "shared.json";
}

}  // namespace

TEST_CASE("wrap prints a row for every unit and a total", "[cli][wrap]") {
  const ProgramRun run = run_tessera("wrap " + llama + " --ranks 64");
  CHECK(run.exit_code == 0);
  CHECK(run.messages.empty());
  CHECK(
      run.output.starts_with("llama-3-8b: 33 units by policy blocks, layout dim0, float32 on 64"));
  CHECK(run.output.find("frozen") == std::string::npos);  // columns without a number are left out
  CHECK(run.output.find("(root)") != std::string::npos);
  CHECK(run.output.find("model.layers.31") != std::string::npos);
  CHECK(run.output.find("8,030,261,248") != std::string::npos);
}

TEST_CASE("wrap: sizes of both layouts", "[cli][wrap]") {
  // tiny's unit b: a weight of 4 x 4 and a bias of 4, on 3 ranks.
  const auto unit = [](const Json& json, const std::string& path) {
    for (const Json& row : json["units"]) {
      if (row["path"] == path) return row;
    }
    return Json();
  };
  const Json flat = wrap_json(tiny + " --layout flat --ranks 3 --dtype bf16");
  CHECK(flat["tessera_wrap"] == 1);
  CHECK(flat["dtype"] == "bfloat16");
  CHECK(unit(flat, "b")["class"] == "Linear");
  CHECK(unit(flat, "b")["parameters"] == 2);
  CHECK(unit(flat, "b")["numel"] == 20);
  CHECK(unit(flat, "b")["unsharded_bytes"] == 40);
  CHECK(unit(flat, "b")["rank_bytes"] == 14);
  CHECK(unit(flat, "b")["padding_numel"] == 1);
  const Json dim0 = wrap_json(tiny + " --layout dim0 --ranks 3");
  CHECK(unit(dim0, "b")["rank_bytes"] == 40);  // two of four rows each
  CHECK(unit(dim0, "b")["padding_numel"] == 10);
  CHECK(unit(dim0, "b")["padding_share"].get<double>() == Approx(10.0 / 30));
  std::int64_t numel = 0;
  for (const Json& row : dim0["units"]) numel += row["numel"].get<std::int64_t>();
  CHECK(dim0["total"]["numel"] == numel);
}

TEST_CASE("wrap: policies", "[cli][wrap]") {
  const auto count = [](const std::string& arguments) {
    return wrap_json(arguments)["units"].size();
  };
  CHECK(count(llama + " --policy class --class LlamaDecoderLayer") == 33);
  CHECK(count(llama + " --policy transformer --class LlamaDecoderLayer,LlamaMLP") == 65);
  CHECK(count(llama + " --policy size --min-params 200000000") == 35);  // embedding, head
  CHECK(count(llama + " --policy size --min-params 200000000 --force-leaf ModuleList") < 35);
  CHECK(count(llama + " --policy always") > 200);
  CHECK(wrap_json(llama + " --policy size --exclude none --min-params 8000000000")["warnings"]
            .size() == 1);
}

TEST_CASE("wrap: what is ignored is whole on every rank", "[cli][wrap]") {
  const Json modules = wrap_json(tiny + " --ignore-modules a");
  CHECK(modules["ignored"]["parameters"] == 2);
  CHECK(modules["ignored"]["bytes"] == 80);
  CHECK(wrap_json("--ignore-parameters a.weight,a.bias " + tiny)["ignored"] == modules["ignored"]);
  CHECK(run_tessera("wrap " + tiny + " --ignore-modules a").output.find("ignored: 2 tensors") !=
        std::string::npos);
}

TEST_CASE("wrap: shared and frozen parameters are shown", "[cli][wrap]") {
  const std::string model = write_shared();
  const Json json = wrap_json(model + " --policy class --class Norm");
  REQUIRE(json["units"].size() == 2);
  CHECK(json["units"][1]["path"] == "a.norm");
  CHECK(json["units"][1]["aliases"] == Json({"b.norm"}));
  CHECK(json["units"][1]["shared"] == 1);
  CHECK(json["units"][1]["frozen"] == 1);
  CHECK(json["total"]["numel"] == 20);
  const ProgramRun root = run_tessera("wrap " + model + " --policy class --class Net");
  CHECK(root.output.find("%  shared  frozen") != std::string::npos);
  CHECK(root.output.find("warning: unit of the root mixes trained") != std::string::npos);
  check_refused(model + " --policy class --class Net --layout flat", "unit of the root mixes");
  check_refused(model + " --policy class --class Tower", "a.norm and b.norm are one module");
}

TEST_CASE("wrap: classes that a model has not are named", "[cli][wrap]") {
  const auto said = [](const std::string& options) {
    return run_tessera("wrap " + tiny + " --policy size --min-params 100 " + options).messages;
  };
  CHECK(
      said("--force-leaf Linaer").find("--force-leaf Linaer changes nothing: tiny has no module") !=
      std::string::npos);
  CHECK(said("--exclude Nope").find("--exclude Nope changes nothing") != std::string::npos);
  CHECK(said("--exclude none --force-leaf Linear").empty());
  CHECK(said("").empty());
}

TEST_CASE("wrap: a plan is written over a plan, and over nothing else", "[cli][wrap]") {
  const auto text_of = [](const std::string& name) {
    std::ifstream file(run_folder() + name);
    return std::string(std::istreambuf_iterator<char>(file), {});
  };
  for (int k = 0; k < 2; ++k) {
    CHECK(run_tessera("wrap " + tiny + " --write-plan written.json").exit_code == 0);
  }
  std::ofstream(run_folder() + "notes.md") << "mine";
  check_refused(tiny + " --write-plan notes.md",
                "--write-plan notes.md: exists and is no wrap plan: choose another name");
  CHECK(text_of("notes.md") == "mine");
  check_refused(tiny + " --write-plan ''", "--write-plan is given nothing");
}

TEST_CASE("wrap: requests that make no sense are refused", "[cli][wrap]") {
  check_refused("", "MODEL is required");
  check_refused("missing.json", "missing.json");
  check_refused(tiny + " --policy some", "--policy");
  check_refused(tiny + " --policy class", "--policy class needs --class NAME");
  check_refused(tiny + " --class Linear", "--class belongs to --policy class or transformer");
  check_refused(tiny + " --policy class --class Linea", "did you mean \"Linear\"?");
  check_refused(tiny + " --min-params 5", "--min-params belongs to --policy size, not to blocks");
  check_refused(tiny + " --policy always --exclude none", "--exclude belongs to --policy size");
  check_refused(tiny + " --policy size --min-params -1", "--min-params");
  check_refused(tiny + " --ignore-modules a --ignore-parameters b.weight", "not both");
  check_refused(tiny + " --ignore-modules zzzzzz", "\"zzzzzz\", which is no module of tiny");
  check_refused(tiny + " --ignore-parameters a", "\"a\", which is a module");
  check_refused(tiny + " --ignore-parameters a.weigth", "did you mean \"a.weight\"?");
  check_refused(tiny + " --layout rows", "--layout");
  check_refused(tiny + " --ranks 0", "--ranks: '0' is out of range");
  check_refused(tiny + " --dtype int8", "--dtype");
  check_refused(tiny + " --ignore-modules a,a", "--ignore-modules: 'a' is named twice");
  check_refused(tiny + " --policy class --class Linear,Linear", "--class: 'Linear' is named twice");
}

}  // namespace tessera::test
