// SPDX-License-Identifier: Apache-2.0
// The modules as a tree, what they hold, and the panel that shows them.
#include "inspector/modules/module_memory.h"
#include "inspector/modules/module_tree.h"
#include "tests/inspector/app/session.h"
#include "tests/inspector/golden.h"

namespace tessera::inspector {
namespace {

TEST_CASE("the tree has every module once, parents first, in the order in which they run",
          "[inspector][modules]") {
  const auto model = TraceModel::open(bundled_trace);
  REQUIRE(model.ok());
  const ModuleTree tree(**model);
  REQUIRE(tree.size() == 1 + 12 * 5 + 4);  // blocks of four parts; embeddings, norm, head
  CHECK(tree.node(0).unit);
  CHECK(tree.end(0) == tree.size());
  std::vector<std::string> units;
  for (int n = 1; n < tree.size(); n = tree.end(n)) units.push_back(tree.node(n).name);
  CHECK(units.front() == "wte");
  CHECK(units[2] == "h.0");
  CHECK(units.back() == "lm_head");
  for (int n = 1; n < tree.size(); ++n) {
    CHECK(tree.node(n).parent < n);
    CHECK(tree.end(n) <= tree.end(tree.node(n).parent));
  }
  storage::BufferRow buffer;
  buffer.name = "root.wte.weight.shard";
  buffer.unit = "root";
  CHECK(tree.node(tree.of(buffer)).path == "wte");
  buffer.name = "h.3.attn.c_proj.bias.grad";
  CHECK(tree.node(tree.of(buffer)).path == "h.3.attn");
  buffer.name = "exp_avg";
  buffer.unit = "h.3";
  CHECK(tree.node(tree.of(buffer)).path == "h.3");
}

TEST_CASE("what modules hold sums to what is allocated, at any moment", "[inspector][modules]") {
  const auto model = TraceModel::open(bundled_trace);
  REQUIRE(model.ok());
  const ModuleTree tree(**model);
  const RankMemory& rank = (*model)->memory(5);
  const ModuleMemory memory(tree, rank.samples, (*model)->buffers());
  for (std::size_t k = 0; k < rank.samples.time.size(); k += 97) {
    const Time time = rank.samples.time[k];
    const auto last = static_cast<std::size_t>(rank.pyramid->at(time));  // of several at a time
    Bytes sum{};
    const HeldBytes all = memory.at(tree, time).front();
    for (const Bytes bytes : all) sum += bytes;
    CHECK(sum.value == rank.samples.allocated[last].value);
  }
}

TEST_CASE("modules are shown over time with what they hold", "[inspector][modules][golden]") {
  Session dark({.panel = "model"}, 1200, 675);
  auto& fields = dark.state().fields;
  CHECK(
      fields.at("model").starts_with("Modules of rank 5 at 37.5 ms, the highest in view: 7.37 Gi"));
  CHECK(fields.at("model/lm_head").find("activations 4.62 GiB") != std::string::npos);
  CHECK(fields.at("model/h.3").find("state sharded") != std::string::npos);
  check_golden(dark.picture(), "app_model_dark");
  dark.click("model/h.3");
  CHECK(fields.contains("model/h.3.attn"));
  // Under the mouse: another moment.
  const Box row = dark.state().widgets.at("model/h.3");
  dark.screen.move_mouse(row.max.x + 200, row.min.y + 10);
  dark.steps(2);
  CHECK(fields.at("model").find("under the mouse") != std::string::npos);
  dark.screen.press_mouse();
  dark.steps(1);
  dark.screen.release_mouse();
  dark.steps(1);
  dark.screen.move_mouse(0, 0);
  dark.steps(2);
  CHECK(fields.at("model").find("chosen") != std::string::npos);
  Session light({.theme = ThemeKind::light, .panel = "model"}, 1200, 675);
  check_golden(light.picture(), "app_model_light");
  Session large({.scale = 2.0F, .panel = "model"}, 1920, 1080);
  check_golden(large.picture(), "app_model_2x");
}

}  // namespace
}  // namespace tessera::inspector
