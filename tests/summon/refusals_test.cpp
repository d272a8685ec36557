// SPDX-License-Identifier: Apache-2.0
// What summon_full_params refuses, and that a refusal leaves the engine usable.
#include <catch2/catch.hpp>

#include "tessera/recording.h"
#include "tessera/training.h"
#include "tests/summon/scenes.h"

namespace tessera {
namespace {

using test::require_ok;

struct Scene {
  Model model = test::g3();
  Recording recording;
  std::unique_ptr<Runtime> runtime = make_recording_runtime(4, recording);
  std::unique_ptr<Engine> engine;

  explicit Scene(const test::SummonScheme& scheme = test::flat_scheme("full_shard", {})) {
    auto made = scheme.make(*runtime, model, {"L1", "L2", "L3"});
    require_ok(made.status());
    engine = std::move(*made);
  }
  ParameterId weight(const std::string& layer) const {
    return model.find_parameter(layer + ".weight");
  }
  std::unique_ptr<FullParams> summon(const SummonOptions& options) const {
    auto full = summon_full_params(*engine, options);
    require_ok(full.status());
    return std::move(*full);
  }
};

void check_refused(const Status& status, const std::vector<std::string>& parts,
                   Code code = Code::invalid_argument) {
  INFO(status.message());
  CHECK(status.code() == code);
  for (const std::string& part : parts) CHECK(status.message().find(part) != std::string::npos);
}

void ignore(Rank, std::span<const float>) {}
void leave(Rank, std::span<float>) {}

TEST_CASE("in forward and backward nothing is summoned", "[summon][refusals]") {
  for (const auto& scheme : test::summon_schemes()) {
    INFO(scheme.name);
    Scene scene(scheme);
    test::Interrupted engine(*scene.engine);
    int calls = 0;
    engine.in_forward = [&] {
      ++calls;
      check_refused(summon_full_params(*scene.engine).status(), {"unit root", "in forward"});
    };
    engine.in_backward = [&] {
      ++calls;
      check_refused(summon_full_params(*scene.engine).status(), {"unit root", "in backward"});
    };
    require_ok(run_training_step(engine, scene.model, {}));
    CHECK(calls > 8);
    CHECK(summon_full_params(*scene.engine).ok());
  }
}

TEST_CASE("what is summoned is not summoned again, but other units are", "[summon][refusals]") {
  Scene scene;
  auto full = scene.summon({.root = "L1"});
  check_refused(summon_full_params(*scene.engine, {.root = "L1"}).status(),
                {"unit L1", "while it is"});
  check_refused(summon_full_params(*scene.engine).status(), {"unit L1", "while it is"});
  auto other = scene.summon({.root = "L2"});
  check_refused(
      for_each_unit(*scene.engine, {}, [](const std::string&, FullParams&) { return Status{}; }),
      {"unit L1"});
  require_ok(full->close());
  check_refused(scene.engine->begin_forward(), {"begin_forward", "summoned"});
  check_refused(summon_full_params(*scene.engine).status(), {"unit L2"});
  require_ok(other->close());
  CHECK(summon_full_params(*scene.engine).ok());
  require_ok(scene.engine->begin_forward());
}

TEST_CASE("inside for_each_unit other units may be summoned", "[summon][refusals]") {
  Scene scene;
  check_refused(for_each_unit(*scene.engine, {},
                              [&](const std::string&, FullParams&) {
                                return summon_full_params(*scene.engine).status();
                              }),
                {"unit root", "while it is"});
  require_ok(for_each_unit(*scene.engine, {.root = "L1"}, [&](const std::string&, FullParams&) {
    return summon_full_params(*scene.engine, {.root = "L2"}).status();
  }));
  CHECK(summon_full_params(*scene.engine).ok());
}

TEST_CASE("while parameters are summoned the engine does not train", "[summon][refusals]") {
  Scene scene;
  auto full = scene.summon({});
  const char* state = "while full parameters are summoned";
  check_refused(scene.engine->begin_forward(), {"begin_forward", state});
  check_refused(scene.engine->step({}), {"step", state});
  check_refused(scene.engine->initialise([](ParameterId, Numel) { return 0.0F; }),
                {"initialise", state});
  check_refused(scene.engine->inspect_shards(ParameterId{0}, {}), {"inspect_shards", state});
  full.reset();
  require_ok(run_training_step(*scene.engine, scene.model, {}));
}

TEST_CASE("after close nothing can be done", "[summon][refusals]") {
  Scene scene;
  auto full = scene.summon({.with_grads = true});
  require_ok(full->close());
  check_refused(full->close(), {"close", "after close"});
  check_refused(full->commit(), {"commit", "after close"});
  check_refused(full->read(ParameterId{0}, ignore), {"read", "after close"});
  check_refused(full->modify(ParameterId{0}, leave), {"modify", "after close"});
  check_refused(full->read_gradient(ParameterId{0}, ignore), {"read_gradient", "after close"});
  check_refused(full->modify_gradient(ParameterId{0}, leave), {"modify_gradient", "after close"});
}

TEST_CASE("without writeback parameters are read-only", "[summon][refusals]") {
  Scene scene;
  auto full = scene.summon({.writeback = false, .with_grads = true});
  check_refused(full->modify(ParameterId{0}, leave), {"modify", "set writeback"});
  check_refused(full->modify_gradient(ParameterId{0}, leave), {"modify_gradient", "writeback"});
  check_refused(full->commit(), {"commit", "set writeback"});
  require_ok(full->read(ParameterId{0}, ignore));
}

TEST_CASE("only what was summoned can be read", "[summon][refusals]") {
  Scene scene;
  auto full = scene.summon({.root = "L1"});
  check_refused(full->read(scene.weight("L2"), ignore), {"L2.weight", "unit L2"});
  check_refused(full->read(scene.weight("emb"), ignore), {"emb.weight", "unit root"});
  check_refused(full->read(ParameterId{}, ignore), {"no parameter -1"});
  check_refused(full->read(ParameterId{99}, ignore), {"no parameter 99"});
  check_refused(full->read_gradient(scene.weight("L1"), ignore), {"L1.weight", "with_grads"});
}

TEST_CASE("ignored parameters are nobody's to summon", "[summon][refusals]") {
  const Model model = test::g3();
  const auto plan = plan_wrapping(model, ClassWrap{{"Linear"}}, {.ignored_modules = {"L2"}});
  require_ok(plan.status());
  Recording recording;
  const auto runtime = make_recording_runtime(4, recording);
  const auto engine = fully_shard(*runtime, model, {.plan = *plan});
  require_ok(engine.status());
  const auto full = summon_full_params(**engine);
  require_ok(full.status());
  CHECK((*full)->parameters().size() == model.parameters.size() - 2);
  check_refused((*full)->read(model.find_parameter("L2.weight"), ignore), {"L2.weight", "ignored"});
}

TEST_CASE("gradients that are not there cannot be read", "[summon][refusals]") {
  Scene scene;
  auto check = [&] {
    auto full = scene.summon({.with_grads = true});
    check_refused(full->read_gradient(scene.weight("L1"), ignore), {"L1.weight", "unit L1"});
  };
  check();
  test::Interrupted engine(*scene.engine);
  engine.before_step = [&] {
    require_ok(scene.summon({.with_grads = true})->read_gradient(scene.weight("L1"), ignore));
  };
  require_ok(run_training_step(engine, scene.model, {}));
  check();
}

TEST_CASE("the root is a module with a unit", "[summon][refusals]") {
  Scene scene;
  check_refused(summon_full_params(*scene.engine, {.root = "L9"}).status(), {"module 'L9'", "g3"});
  check_refused(summon_full_params(*scene.engine, {.root = "emb"}).status(),
                {"module emb", "unit root"});
  check_refused(summon_full_params(*scene.engine, {.root = "emb", .recurse = false}).status(),
                {"module emb is no unit", "unit root"});
}

TEST_CASE("an engine from elsewhere is not supported", "[summon][refusals]") {
  Scene scene;
  test::Interrupted engine(*scene.engine);
  check_refused(summon_full_params(engine).status(), {"fully_shard"}, Code::not_supported);
}

TEST_CASE("full copies in host memory for every rank are warned of", "[summon][refusals]") {
  Scene scene;
  CHECK(scene.summon({.offload_to_cpu = true})->warnings().size() == 1);
  CHECK(scene.summon({.rank0_only = true, .offload_to_cpu = true})->warnings().empty());
  CHECK(scene.summon({})->warnings().empty());
}

}  // namespace
}  // namespace tessera
