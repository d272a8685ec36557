// SPDX-License-Identifier: Apache-2.0
// Checkpointers of engines: writing while training goes on, failing files, what is refused.
#include <filesystem>
#include <fstream>

#include "engine/checkpoint/checkpointer.h"
#include "engine/checkpoint/load.h"
#include "tests/backends/host/offloaded_runs.h"
#include "tests/checkpoint/every_scheme.h"
#include "tests/checkpoint/memory_files.h"
#include "tests/checkpoint/scene.h"
#include "tests/swap/scratch_folder.h"
#include "tests/training/reference/real_models.h"

namespace tessera {
namespace {

using test::MemoryFiles;
using test::require_ok;
using test::require_value;
using test::SimulatedRun;

const Scheme fully = FullyShardOptions{.units = {"pair"}};

TEST_CASE("training goes on while a checkpoint is written, which is of the step it was saved at",
          "[checkpoint]") {
  const Model model = test::repeated();
  const test::TemporaryFolder folder;
  SimulatedRun run(model, fully, 3);
  run.step();
  const test::Contents contents = run.contents();
  auto checkpoints =
      require_value(Checkpointer::create(run.engine(), {.directory = folder.path()}));
  require_ok(checkpoints->poll());
  require_ok(checkpoints->save(1, {}));
  for (int step = 0; step < 20; ++step) {
    run.step();
    require_ok(checkpoints->poll());
  }
  require_ok(checkpoints->finish());
  require_ok(checkpoints->finish());
  SimulatedRun other(model, fully, 2);
  CHECK(require_value(load_checkpoint(other.engine(), folder.path())).step == 1);
  test::check_same(other.contents(), contents, model);
  run.finish();
}

TEST_CASE("what is offloaded to drives is saved and loaded", "[checkpoint]") {
  const test::ScratchFolder drive;
  const test::TemporaryFolder folder;
  const Model model = test::repeated();
  std::int64_t step = 0;
  for (const auto& [name, scheme] : test::offloaded_schemes(drive.path())) {
    INFO(name);
    SimulatedRun run(model, scheme, 2);
    run.step();
    run.step();
    run.save(folder.path(), ++step);
    const test::Contents contents = run.contents();
    SimulatedRun plain(model, fully, 3);
    require_ok(load_checkpoint(plain.engine(), folder.path()).status());
    test::check_same(plain.contents(), contents, model);
    SimulatedRun other(model, scheme, 2);
    require_ok(load_checkpoint(other.engine(), folder.path()).status());
    run.step();
    other.step();
    CHECK(other.loss() == run.loss());
    test::check_same(other.contents(), run.contents(), model);
    run.finish();
    other.finish();
  }
}

TEST_CASE("files that fail at any call become a status, and the next save works",
          "[checkpoint][property]") {
  const Model model = test::mlp_chain();
  const bool asynchronous = GENERATE(false, true);
  SimulatedRun run(model, Zero12Options{.stage = 1}, 2);
  run.step();
  MemoryFiles files;
  auto checkpoints = require_value(
      make_checkpointer(run.engine(), {.directory = "run", .asynchronous = asynchronous}, files));
  require_ok(checkpoints->save(1, {}));
  require_ok(checkpoints->finish());
  const test::Contents first = run.contents();
  run.step();
  std::int64_t failed = 0;
  for (std::int64_t k = 0;; k = k < 20 ? k + 1 : k + 97) {
    INFO("event " << k);
    files.fail(k, /*for_good=*/false);
    Status saved = checkpoints->save(2, {});
    if (saved.ok()) saved = checkpoints->finish();
    if (saved.ok()) break;
    ++failed;
    CHECK(saved.code() == Code::io_error);
    CHECK(saved.message().find("planted failure") != std::string::npos);
    files.fail(MemoryFiles::never, false);
    SimulatedRun other(model, Zero12Options{.stage = 1}, 1);
    const auto info = require_value(load_checkpoint_from(other.engine(), "run", files));
    if (info.step == 1) test::check_same(other.contents(), first, model);
  }
  CHECK(failed > 30);
  run.step();
  files.fail(MemoryFiles::never, false);
  require_ok(checkpoints->save(3, {}));
  require_ok(checkpoints->finish());
  SimulatedRun other(model, Zero3Options{}, 4);
  CHECK(require_value(load_checkpoint_from(other.engine(), "run", files)).step == 3);
  test::check_same(other.contents(), run.contents(), model);
  run.finish();
}

TEST_CASE("what others have put into checkpoints' folders stays there", "[checkpoint]") {
  const Model model = test::mlp_chain();
  const test::TemporaryFolder folder;
  SimulatedRun run(model, Zero3Options{}, 2);
  run.step();
  run.save(folder.path(), 1);
  std::filesystem::create_directory(folder.path() + "/step-000002");  // one that was not finished
  for (const char* step : {"/step-000001", "/step-000002"}) {
    std::ofstream(folder.path() + step + "/notes.txt") << "a good one";
  }
  for (const std::int64_t step : {2, 2, 3, 4, 5}) run.save(folder.path(), step);
  for (const char* step : {"/step-000001", "/step-000002"}) {
    INFO(step);
    CHECK(std::filesystem::exists(folder.path() + step + "/notes.txt"));
    CHECK_FALSE(std::filesystem::exists(folder.path() + step + "/manifest.json"));
    CHECK_FALSE(std::filesystem::exists(folder.path() + step + "/rank-00000.0.safetensors"));
  }
  CHECK_FALSE(std::filesystem::exists(folder.path() + "/step-000003"));
  CHECK(require_value(list_checkpoints(folder.path())).size() == 2);
}

TEST_CASE("what cannot be saved or loaded is refused, naming it", "[checkpoint]") {
  const Model model = test::mlp_chain();
  const test::TemporaryFolder folder;
  const std::string& path = folder.path();
  SimulatedRun run(model, Zero3Options{}, 2);
  auto refused = [](const Status& status, Code code, const std::string& message) {
    INFO(status.message());
    CHECK(status.code() == code);
    CHECK(status.message() == message);
  };
  refused(Checkpointer::create(run.engine(), {}).status(), Code::invalid_argument,
          "checkpoints need a directory");
  refused(Checkpointer::create(run.engine(), {.directory = path, .keep = -1}).status(),
          Code::invalid_argument, "keep must be at least 0, found -1");
  const std::string file = path + "/step-000009";
  std::ofstream(file) << "a file";
  refused(Checkpointer::create(run.engine(), {.directory = path}).status(), Code::invalid_argument,
          file + " is no folder, as checkpoints are: remove it, or give another folder");
  std::filesystem::rename(file, path + "/step-by-step.txt");  // is in nobody's way
  refused(latest_checkpoint(path).status(), Code::io_error, path + " has no complete checkpoint");
  refused(load_checkpoint(run.engine(), path).status(), Code::io_error,
          path +
              " is no checkpoint and has none: there is no manifest.json, and no folder step-... "
              "with one");
  run.step();
  run.save(path, 1);
  const std::string one = path + "/step-000001";
  CHECK(require_value(latest_checkpoint(path)) == one);

  SimulatedRun other(test::repeated(), fully, 2);
  refused(Checkpointer::create(other.engine(), {.directory = path}).status(),
          Code::invalid_argument,
          one + " is a checkpoint of mlp, not of repeated: give another folder");
  refused(load_checkpoint(other.engine(), path).status(), Code::invalid_argument,
          one +
              ": parameter in.weight is [6, 5], in repeated it is [4, 3]: load a checkpoint of "
              "this model");
  other.finish();
  auto checkpoints = require_value(Checkpointer::create(run.engine(), {.directory = path}));
  refused(checkpoints->save(-1, {}), Code::invalid_argument, "step must be at least 0, found -1");
  require_ok(run.engine().begin_forward());
  refused(checkpoints->save(2, {}), Code::invalid_argument,
          "save was called in forward, but belongs outside forward and backward");
  refused(load_checkpoint(run.engine(), path).status(), Code::invalid_argument,
          "load_checkpoint was called in forward, but belongs outside forward and backward");
}

}  // namespace
}  // namespace tessera
