// SPDX-License-Identifier: Apache-2.0
// The collectives of recorded runs of the original: 2 ranks, a network of three linear layers.
#include <catch2/catch.hpp>

#include "tests/schemes/sharded_data_parallel/owners.h"

namespace tessera {
namespace {

using test::mlp;
using test::RecordedOwners;
using test::require_ok;
using Lines = std::vector<std::string>;

TEST_CASE("at first every parameter is broadcast from rank 0", "[owner][golden]") {
  const Model model = mlp();
  RecordedOwners run(2, model);
  CHECK(run.collectives() == Lines{"broadcast 32 from 0", "broadcast 8 from 0",
                                   "broadcast 64 from 0", "broadcast 8 from 0",
                                   "broadcast 16 from 0", "broadcast 2 from 0"});
  RecordedOwners silent(2, model, {.sync_models_at_startup = false});
  CHECK(silent.collectives().empty());
}

TEST_CASE("without buckets gradients are reduced in the order of backward", "[owner][golden]") {
  const Model model = mlp();
  RecordedOwners run(2, model, {.reduce_buffer_size = Numel{0}});
  run.collectives();
  require_ok(test::pass(*run.engine, model));
  CHECK(run.collectives() == Lines{"reduce 2 to 0", "reduce 16 to 0", "reduce 8 to 0",
                                   "reduce 64 to 1", "reduce 8 to 1", "reduce 32 to 0"});
}

TEST_CASE("a bucket is reduced when its last gradient is there", "[owner][golden]") {
  const Model model = mlp();
  const std::int64_t size = GENERATE(std::int64_t{73}, std::int64_t{80}, std::int64_t{1} << 40);
  RecordedOwners run(2, model, {.reduce_buffer_size = Numel{size}});
  run.collectives();
  require_ok(test::pass(*run.engine, model));
  CHECK(run.collectives() == Lines{"reduce 72 to 1", "reduce 58 to 0"});
  require_ok(run.engine->step({}));
  CHECK(run.collectives() == Lines{"broadcast 58 from 0", "broadcast 72 from 1"});
}

TEST_CASE("the host program's order is the same", "[owner][golden]") {
  const Model model = mlp();
  RecordedOwners run(2, model);
  run.collectives();
  for (int step = 0; step < 3; ++step) {
    require_ok(run_training_step(*run.engine, model, {}));
    CHECK(run.collectives() ==
          Lines{"reduce 72 to 1", "reduce 58 to 0", "broadcast 58 from 0", "broadcast 72 from 1"});
  }
}

TEST_CASE("a rank alone sends nothing", "[owner]") {
  const Model model = mlp();
  RecordedOwners run(1, model);
  require_ok(run_training_step(*run.engine, model, {}));
  CHECK(run.collectives().empty());
}

TEST_CASE("buffers are broadcast before a forward whose gradients are reduced", "[owner]") {
  Model model = mlp();
  model.buffers.push_back({.name = "l0.mean", .shape = {3}, .module = model.find_module("l0")});
  const bool broadcast = GENERATE(false, true);
  RecordedOwners run(2, model, {.broadcast_buffers = broadcast, .sync_models_at_startup = false});
  require_ok(test::pass(*run.engine, model));
  const Lines reduces = {"reduce 72 to 1", "reduce 58 to 0"};
  Lines expected = reduces;
  if (broadcast) expected.insert(expected.begin(), "broadcast 12 from 0");  // bytes
  CHECK(run.collectives() == expected);
  {
    const NoSync local(*run.engine);
    require_ok(test::pass(*run.engine, model));
  }
  CHECK(run.collectives().empty());
  require_ok(run.engine->reduce());
  CHECK(run.collectives() == reduces);
  // As a call, whatever the option says; of all groups at once.
  require_ok(run.engine->sync_buffers());
  CHECK(run.collectives() == Lines{"broadcast 12 from 0"});
  require_ok(run.engine->begin_forward());
  test::check_refused(run.engine->sync_buffers(), "sync_buffers");
}

Status evaluate(Engine& engine, const Model& model, ForwardPass::Use use) {
  TESSERA_TRY(engine.next_forward({use, ""}));
  TESSERA_TRY(engine.begin_forward());
  for (const char* path : {"l0", "l1", "l2"}) {
    TESSERA_TRY(engine.compute({.module = model.find_module(path)}));
  }
  return engine.post_forward(ModuleId{0});
}

// fairscale 1A.3, D3 and D4: a forward in evaluation broadcasts buffers and reduces nothing, and
// training goes on as before.
TEST_CASE("evaluation between training passes sends buffers only (fairscale D3)", "[owner]") {
  Model model = mlp();
  model.buffers.push_back({.name = "l0.mean", .shape = {3}, .module = model.find_module("l0")});
  const auto use = GENERATE(ForwardPass::Use::evaluate, ForwardPass::Use::no_backward);
  RecordedOwners run(2, model, {.sync_models_at_startup = false});
  const std::string buffers = "broadcast 12 from 0";
  const Lines trained = {buffers, "reduce 72 to 1", "reduce 58 to 0"};
  for (int round = 0; round < 2; ++round) {
    require_ok(evaluate(*run.engine, model, use));
    CHECK(run.collectives() == Lines{buffers});
    require_ok(test::pass(*run.engine, model));
    CHECK(run.collectives() == trained);
  }
  {
    const NoSync local(*run.engine);
    require_ok(evaluate(*run.engine, model, use));
  }
  CHECK(run.collectives().empty());
  require_ok(run.engine->step({}));
}

TEST_CASE("evaluation leaves gradients and what is trained as they are (fairscale D4)", "[owner]") {
  Model model = mlp();
  RecordedOwners run(2, model, {.sync_models_at_startup = false});
  require_ok(test::pass(*run.engine, model));
  run.collectives();
  const std::int32_t owners = run.engine->owners_version();
  Parameter& frozen = model.parameters[0];
  frozen.requires_grad = false;
  // Gradients wait for their step: laying out anew would have to drop them.
  require_ok(evaluate(*run.engine, model, ForwardPass::Use::evaluate));
  require_ok(run.engine->step({}));
  CHECK(run.collectives() == Lines{"broadcast 58 from 0", "broadcast 72 from 1"});
  require_ok(evaluate(*run.engine, model, ForwardPass::Use::evaluate));
  require_ok(test::pass(*run.engine, model));
  CHECK(run.collectives() == Lines{"reduce 26 to 0", "reduce 72 to 1"});
  CHECK(run.engine->owners_version() == owners);
}

TEST_CASE("reductions and broadcasts in half the bytes", "[owner]") {
  const Model model = mlp();
  RecordedOwners run(2, model,
                     {.reduce_dtype = DType::bfloat16, .broadcast_dtype = DType::bfloat16});
  const std::size_t before = run.recording.records.size();
  require_ok(run_training_step(*run.engine, model, {}));
  Bytes bytes{};
  for (std::size_t k = before; k < run.recording.records.size(); ++k) {
    const Record& r = run.recording.records[k];
    if (r.kind == Record::Kind::op && communicator_of(r.op).valid()) bytes += bytes_of(r.op);
  }
  CHECK(bytes == model.parameter_count().value * Bytes{2 * 2});
}

TEST_CASE("dtypes of one owner have buckets of their own", "[owner]") {
  Model model = mlp();
  for (const char* name : {"l0.bias", "l1.bias"}) {
    model.parameters[model.find_parameter(name).index()].dtype = DType::bfloat16;
  }
  RecordedOwners run(2, model, {.sync_models_at_startup = false, .dtype = {}});
  require_ok(run_training_step(*run.engine, model, {}));
  CHECK(run.collectives() == Lines{"reduce 8 to 0", "reduce 64 to 1", "reduce 8 to 1",
                                   "reduce 50 to 0", "broadcast 50 from 0", "broadcast 8 from 0",
                                   "broadcast 64 from 1", "broadcast 8 from 1"});
  CHECK(run.engine->units().at(1).name == "owner 0 bfloat16");
}

}  // namespace
}  // namespace tessera
