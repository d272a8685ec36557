// SPDX-License-Identifier: Apache-2.0
// Ids that the model does not have are refused by every call that takes one; nothing aborts.
#include <catch2/catch.hpp>
#include <limits>

#include "tessera/sharded_data_parallel.h"
#include "tessera/summon.h"
#include "tessera/zero3.h"
#include "tests/base/every_scheme.h"

namespace tessera {
namespace {

using test::require_ok;

void check_refused(const Status& status, std::int32_t id) {
  INFO(status.message());
  CHECK(status.code() == Code::invalid_argument);
  CHECK(status.message().find(std::to_string(id)) != std::string::npos);
}

void check_of_scheme(Engine& engine, ModuleId m, ParameterId p) {
  if (auto* zero3 = dynamic_cast<Zero3*>(&engine)) {
    check_refused(zero3->register_external_parameter(m, ParameterId{0}), m.value);
    check_refused(zero3->unregister_external_parameter(m, ParameterId{0}), m.value);
    check_refused(zero3->unregister_external_parameter(ModuleId{0}, p), p.value);
    CHECK_FALSE(zero3->register_external_parameter(ModuleId{0}, p).ok());
  }
  if (auto* owners = dynamic_cast<ShardedDataParallel*>(&engine)) {
    check_refused(owners->inspect_gradient(p, {}), p.value);
  }
}

TEST_CASE("modules and parameters that are not there are refused, whatever the call", "[ids]") {
  const Model model = test::g3();
  test::EveryScheme run(GENERATE(range(0, test::EveryScheme::count)), 2, model);
  const std::int32_t id = GENERATE(-1, 1000, std::numeric_limits<std::int32_t>::max());
  INFO(run.name);
  Engine& e = *run.engine;
  const ModuleId m{id};
  const ParameterId p{id};
  check_refused(e.inspect_shards(p, [](Rank, Numel, std::span<const float>) {}), id);
  check_refused(e.set_param_groups({{.parameters = {p}}}), id);
  check_refused(e.add_param_group({.parameters = {p}}), id);
  check_refused(e.free_activations(m), id);
  check_refused(e.keep_activations({.module = m}), id);
  check_of_scheme(e, m, p);
  auto full = summon_full_params(e, {});
  REQUIRE(full.ok());
  check_refused((*full)->read(p, [](Rank, std::span<const float>) {}), id);
  check_refused((*full)->modify(p, [](Rank, std::span<float>) {}), id);
  require_ok((*full)->close());
  require_ok(e.begin_forward());
  check_refused(e.pre_forward(m), id);
  check_refused(e.compute({.module = m}), id);
  check_refused(e.compute({.module = ModuleId{0}, .only = {p}}), id);
  check_refused(e.post_forward(m), id);
  require_ok(e.begin_backward());
  check_refused(e.pre_backward(m), id);
  check_refused(e.grad_ready(p), id);
  check_refused(e.recompute_begin(m), id);
  check_refused(e.recompute_end(m), id);
  check_refused(e.restore_activations({.module = m}), id);
  check_refused(e.post_backward(m), id);
}

TEST_CASE("handles that a runtime never gave are refused, whatever the call", "[ids]") {
  test::TestCosts costs;
  auto made = sim::LockstepRuntime::create({.world_size = 2, .cost = &costs, .numerics = true});
  REQUIRE(made.ok());
  sim::LockstepRuntime& runtime = **made;
  const StreamId stream = *runtime.create_stream("one", StreamRole::compute);
  const RankSet all = runtime.world();
  const auto groups = *RankGroups::strided(2, 2);
  const CommunicatorId world = *runtime.create_communicator(groups, "world");
  const BufferId buffer =
      *runtime.allocate({.bytes = Bytes{8}, .stream = stream, .where = all, .name = "buffer"});
  const View good = View::whole(buffer, DType::float32, Numel{2});
  const std::int32_t id = GENERATE(-1, 9, std::numeric_limits<std::int32_t>::max());
  const View bad = View::whole(BufferId{id}, DType::float32, Numel{2});
  const auto refused = [](const Status& status) {
    INFO(status.message());
    CHECK((status.code() == Code::invalid_argument || status.code() == Code::hazard));
  };
  const auto submit = [&](StreamId on, decltype(Op::what) what,
                          std::span<const EventId> after = {}) {
    Op op{.stream = on, .where = all, .after = after, .cause = {}, .what = Wait{}};
    op.what = std::move(what);
    return runtime.submit(op).status();
  };
  refused(runtime.allocate({.bytes = Bytes{8}, .stream = StreamId{id}, .where = all}).status());
  refused(runtime.release(BufferId{id}, EventId{}, all));
  refused(runtime.release(buffer, EventId{id < 0 ? 1000 : id}, all));
  refused(runtime.wait(EventId{id}));
  refused(runtime.read(bad).status());
  refused(runtime.read(View::whole(buffer, DType::float32, Numel{3})).status());
  refused(runtime.read(View::whole(buffer, DType::float32, Numel{0})).status());
  refused(submit(StreamId{id}, Mark{"m"}));
  refused(submit(stream, AllReduce{CommunicatorId{id}, good, good}));
  refused(submit(stream, AllReduce{world, bad, good}));
  refused(submit(stream, Broadcast{world, good, id == 9 ? -1 : 9}));
  refused(submit(stream, Compute{.reads = {bad}}));
  refused(submit(stream, Compute{.writes = {bad}}));
  refused(submit(stream, Copy{.pieces = {{.from = good, .to = bad}}}));
  if (id >= 0) {
    const EventId never{id};
    refused(submit(stream, Wait{}, {&never, 1}));
    refused(submit(stream, Wait{StreamId{id}}));
    refused(submit(stream, Compute{.writes = {good}, .index_in = CommunicatorId{id}}));
    refused(submit(stream, Copy{.index_in = CommunicatorId{id}, .pieces = {{good, good}}}));
  }
}

TEST_CASE("a body that asks for a view too many fails its operation", "[ids]") {
  const Model model = test::g3();
  test::EveryScheme run(0, 2, model);
  TrainingOptions training{.batch = 1};
  const bool reads = GENERATE(true, false);
  training.body = [reads](ModuleId, ModuleWork::Pass,
                          std::int32_t) -> std::function<void(const BodyContext&)> {
    return [reads](const BodyContext& context) {
      reads ? void(context.read(99)) : void(context.write(99));
    };
  };
  const Status failed = run_training_step(*run.engine, model, training);
  INFO(failed.message());
  CHECK(failed.code() == Code::invalid_argument);
  CHECK(failed.message().find("asked for what is not there") != std::string::npos);
  CHECK(failed.message().find("compute of unit") != std::string::npos);
}

}  // namespace
}  // namespace tessera
