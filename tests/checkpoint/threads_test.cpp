// SPDX-License-Identifier: Apache-2.0
// Checkpoints of ranks that are threads, each with a runtime of its own, as processes are.
#include "tests/backends/host/thread_ranks.h"
#include "tests/checkpoint/every_scheme.h"
#include "tests/checkpoint/scene.h"
#include "tests/training/reference/real_models.h"

namespace tessera {
namespace {

using test::on_threads;

// What every rank does: `body` gets its engine, and steps it.
Status train(ProcessRuntime& runtime, const Model& model, const Scheme& scheme, Rank ranks,
             const std::function<Status(Engine&, const std::function<Status()>& step)>& body) {
  TESSERA_ASSIGN(const auto engine, make_engine(runtime, model, scheme));
  RealModelOptions data{.batch = 2, .seed = 3, .world_size = ranks};
  data.same_data_every_step = true;
  TESSERA_ASSIGN(const RealModel real, RealModel::create(model, data));
  TrainingOptions training{.batch = 2, .accumulation = 2};
  training.adam.weight_decay = 0.125F;
  training.body = real.bodies();
  TESSERA_TRY(engine->initialise(real.initial_values()));
  TESSERA_TRY(body(*engine, [&] { return run_training_step(*engine, model, training); }));
  return runtime.finish();
}

TEST_CASE("ranks in runtimes of their own save and load what the simulator does", "[checkpoint]") {
  const Model model = test::repeated();
  const auto which = GENERATE(range(std::size_t{0}, std::size_t{14}));
  const Rank ranks = GENERATE(2, 3);
  const Rank others = ranks == 2 ? 4 : 1;
  const std::vector<std::string> units = {"pair", "shared"};
  const Scheme scheme = test::every_scheme(units, ranks)[which];
  const Scheme target = test::every_scheme(units, others)[(which + 5) % 14];
  INFO("scheme " << which << " on " << ranks << " ranks");

  test::SimulatedRun simulated(model, scheme, ranks);
  for (int step = 0; step < 2; ++step) simulated.step();
  const test::TemporaryFolder folder;
  test::require_all_ok(on_threads(ranks, {}, [&](ProcessRuntime& runtime, Rank) {
    return train(runtime, model, scheme, ranks, [&](Engine& engine, const auto& step) -> Status {
      TESSERA_ASSIGN(const auto checkpoints,
                     Checkpointer::create(engine, {.directory = folder.path()}));
      TESSERA_TRY(step());
      TESSERA_TRY(checkpoints->save(1, {}));
      TESSERA_TRY(step());
      TESSERA_TRY(checkpoints->save(2, {{"sampler", "at 2"}}));
      for (int k = 0; k < 3; ++k) {
        TESSERA_TRY(step());
        TESSERA_TRY(checkpoints->poll());
      }
      return checkpoints->finish();
    });
  }));
  test::SimulatedRun loaded(model, target, others);
  const auto info = test::require_value(load_checkpoint(loaded.engine(), folder.path()));
  CHECK(info.step == 2);
  CHECK(info.world_size == ranks);
  test::check_same(loaded.contents(), simulated.contents(), model);

  loaded.step();
  const test::Contents expected = loaded.contents();
  const test::TemporaryFolder second;
  test::require_all_ok(on_threads(others, {}, [&](ProcessRuntime& runtime, Rank) {
    return train(runtime, model, target, others, [&](Engine& engine, const auto& step) -> Status {
      TESSERA_TRY(load_checkpoint(engine, folder.path()).status());
      TESSERA_TRY(step());
      TESSERA_ASSIGN(const auto checkpoints,
                     Checkpointer::create(engine, {.directory = second.path(), .scheme = "x"}));
      TESSERA_TRY(checkpoints->save(3, {}));
      return checkpoints->finish();
    });
  }));
  test::SimulatedRun last(model, scheme, ranks);
  CHECK(test::require_value(load_checkpoint(last.engine(), second.path())).step == 3);
  test::check_same(last.contents(), expected, model);
}

TEST_CASE("a rank that cannot load ends the load on all ranks", "[checkpoint]") {
  const Model model = test::mlp_chain();
  const test::TemporaryFolder folder;
  test::SimulatedRun(model, Zero3Options{}, 2).save(folder.path(), 1);
  std::vector<Status> loads(3);
  const auto statuses = on_threads(3, {}, [&](ProcessRuntime& runtime, Rank rank) {
    return train(runtime, model, Zero3Options{}, 3, [&](Engine& engine, const auto&) -> Status {
      const std::string path = rank == 1 ? folder.path() + "/nowhere" : folder.path();
      loads[static_cast<std::size_t>(rank)] = load_checkpoint(engine, path).status();
      return load_checkpoint(engine, folder.path()).status();
    });
  });
  test::require_all_ok(statuses);
  CHECK(loads[1].message().starts_with(folder.path() + "/nowhere is no checkpoint"));
  for (const std::size_t rank : {0U, 2U}) {
    CHECK(loads[rank].code() == Code::io_error);
    CHECK(loads[rank].message() ==
          "loading " + folder.path() + " failed on rank 1 (io_error), whose own message says why");
  }
}

}  // namespace
}  // namespace tessera
