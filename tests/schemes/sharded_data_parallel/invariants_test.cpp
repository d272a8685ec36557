// SPDX-License-Identifier: Apache-2.0
// What always holds, whatever the model, the number of ranks and the buckets.
#include <catch2/catch.hpp>
#include <cmath>
#include <limits>
#include <map>

#include "tessera/summon.h"
#include "tests/random.h"
#include "tests/schemes/sharded_data_parallel/owners.h"

namespace tessera {
namespace {

using test::initial_value;
using test::mlp;
using test::NumericOwners;
using test::RecordedOwners;
using test::require_ok;

Model random_model(test::Random& random) {
  std::vector<test::Linear> layers;
  std::vector<std::string> order;
  const auto count = 1 + random.below(6);
  auto width = [&] { return static_cast<std::int64_t>(1 + random.below(9)); };
  for (std::int64_t k = 0; k < count; ++k) {
    layers.push_back({"m" + std::to_string(k), width(), width()});
    order.push_back(layers.back().path);
  }
  for (std::size_t k = order.size(); k > 1; --k) std::swap(order[k - 1], order[random.below(k)]);
  return test::linear_model("random", layers, order);
}

TEST_CASE("all ranks train as one that sees the mean gradient, to the bit", "[owner][property]") {
  const std::uint64_t seed = GENERATE(range(1, 61));
  INFO("seed=" << seed);
  test::Random random(seed);
  const Model model = random_model(random);
  const auto ranks = static_cast<Rank>(1 + random.below(20));  // perhaps more than parameters
  ShardedDataParallelOptions options{.reduce_buffer_size = Numel{random.below(200)}};
  options.sync_models_at_startup = random.chance(50);
  NumericOwners world(ranks, model, options);
  test::FormulaTraining reference(model);
  const TrainingOptions training = test::formula_training(model);
  for (int step = 0; step < 3; ++step) {
    require_ok(run_training_step(*world.engine, model, training));
    reference.step(RankSet::all(ranks), ranks, static_cast<float>(ranks));
  }
  reference.check(*world.engine, ranks);
  require_ok(world.runtime->finish());
}

TEST_CASE("each element is reduced once and broadcast once, by everyone", "[owner][property]") {
  const std::uint64_t seed = GENERATE(range(1, 101));
  INFO("seed=" << seed);
  test::Random random(seed);
  const Model model = random_model(random);
  const auto ranks = static_cast<Rank>(2 + random.below(7));
  RecordedOwners run(ranks, model, {.reduce_buffer_size = Numel{random.below(200)}});
  for (int step = 0; step < 3; ++step) {
    std::map<OpKind, Numel> sent;
    const std::size_t before = run.recording.records.size();
    require_ok(run_training_step(*run.engine, model, {}));
    for (std::size_t k = before; k < run.recording.records.size(); ++k) {
      const Record& r = run.recording.records[k];
      if (r.kind != Record::Kind::op || !communicator_of(r.op).valid()) continue;
      CHECK(r.where == RankSet::all(ranks));  // the same sequence on all ranks
      const auto* reduce = std::get_if<Reduce>(&r.op.what);
      const Numel numel =
          reduce != nullptr ? reduce->input.numel : std::get<Broadcast>(r.op.what).data.numel;
      CHECK(numel > Numel{0});
      sent[kind_of(r.op)] += numel;
    }
    CHECK(sent.size() == 2);
    CHECK(sent[OpKind::reduce] == model.parameter_count());
    CHECK(sent[OpKind::broadcast] == model.parameter_count());
  }
}

TEST_CASE("only the owner has a gradient, and it is the mean", "[owner]") {
  const Model model = mlp();
  constexpr Rank ranks = 4;
  NumericOwners world(ranks, model, {.reduce_buffer_size = Numel{GENERATE(0, 40, 1000)}});
  require_ok(test::pass(*world.engine, model));
  for (std::size_t k = 0; k < model.parameters.size(); ++k) {
    const ParameterId id{static_cast<std::int32_t>(k)};
    std::vector<Rank> seen;
    std::size_t different = 0;
    require_ok(world.engine->inspect_gradient(id, [&](Rank r, std::span<const float> values) {
      seen.push_back(r);
      for (std::size_t i = 0; i < values.size(); ++i) {
        float mean = 0;
        for (Rank rank = 0; rank < ranks; ++rank) {
          const float p = initial_value(id, Numel{static_cast<std::int64_t>(i)});
          mean += test::gradient_of(p, rank, i) / ranks;
        }
        different += values[i] == mean ? 0U : 1U;
      }
    }));
    CHECK(seen == std::vector<Rank>{world.engine->owner_of(id)});
    CHECK(different == 0);
  }
}

TEST_CASE("memory of gradients and optimizer state is the owner's (fairscale F7)",
          "[owner][memory]") {
  const Model model = mlp();
  constexpr Rank ranks = 3;
  RecordedOwners run(ranks, model, {.reduce_buffer_size = Numel{GENERATE(0, 1000)}});
  require_ok(test::pass(*run.engine, model));
  std::map<Rank, Bytes> gradients, state;
  auto count = [&](std::map<Rank, Bytes>& held, MemoryClass what) {
    held.clear();
    for (const Record& r : run.recording.records) {
      const bool takes = r.kind == Record::Kind::allocate;
      if (!takes && r.kind != Record::Kind::release) continue;
      const auto& buffer = run.recording.buffers[r.buffer.index()];
      if (buffer.memory_class != what) continue;
      for (Rank rank = 0; rank < ranks; ++rank) {
        if (!r.where.contains(rank)) continue;
        held[rank] += takes ? buffer.bytes : -buffer.bytes;
      }
    }
  };
  std::map<Rank, Bytes> owned;
  for (std::size_t k = 0; k < model.parameters.size(); ++k) {
    const ParameterId id{static_cast<std::int32_t>(k)};
    owned[run.engine->owner_of(id)] += bytes_of(model.parameters[k].numel(), DType::float32);
  }
  count(gradients, MemoryClass::unsharded_gradients);
  CHECK(gradients == owned);
  require_ok(run.engine->step({}));
  count(gradients, MemoryClass::unsharded_gradients);
  for (const auto& [rank, bytes] : gradients) CHECK(bytes == Bytes{0});
  count(state, MemoryClass::optimizer_state);
  for (auto& [rank, bytes] : owned) bytes += bytes;
  CHECK(state == owned);
}

// The norm of the mean gradient of all parameters, as if nothing were owned.
double expected_norm(const Model& model, Rank ranks, double type) {
  double norm = 0;
  for (std::size_t k = 0; k < model.parameters.size(); ++k) {
    const ParameterId id{static_cast<std::int32_t>(k)};
    for (std::int64_t i = 0; i < model.parameters[k].numel().value; ++i) {
      double g = 0;
      for (Rank r = 0; r < ranks; ++r) {
        g += test::gradient_of(initial_value(id, Numel{i}), r, static_cast<std::size_t>(i));
      }
      g = std::fabs(g / ranks);
      norm = std::isinf(type) ? std::max(norm, g) : norm + (type == 1 ? g : g * g);
    }
  }
  return type == 2 ? std::sqrt(norm) : norm;
}

TEST_CASE("the norm is that of all gradients together, on every rank", "[owner][clip]") {
  const Model model = mlp();
  const Rank ranks = GENERATE(1, 2, 9);  // 9: some own nothing
  const double type = GENERATE(1.0, 2.0, std::numeric_limits<double>::infinity());
  NumericOwners world(ranks, model);
  std::map<Rank, float> norms;
  auto total = [&](Rank r, float norm) { norms[r] = norm; };
  require_ok(test::pass(*world.engine, model));
  require_ok(world.engine->clip_grad_norm(0.125F, type, total));
  CHECK(norms.size() == static_cast<std::size_t>(ranks));
  for (const auto& [rank, norm] : norms) {
    CHECK(norm == Approx(expected_norm(model, ranks, type)).epsilon(1e-5));
    CHECK(norm == norms[0]);
  }
  require_ok(world.engine->clip_grad_norm(0.125F, type, total));
  for (const auto& [rank, norm] : norms) CHECK(norm == Approx(0.125).epsilon(1e-4));
}

TEST_CASE("accumulated gradients are reduced by the last backward, or by hand", "[owner]") {
  const Model model = mlp();
  constexpr Rank ranks = 3;
  const bool by_hand = GENERATE(false, true);
  const ShardedDataParallelOptions options{.reduce_buffer_size = Numel{GENERATE(0, 1000)}};
  NumericOwners world(ranks, model, options);
  {
    const NoSync local(*world.engine);
    require_ok(test::pass(*world.engine, model));
    if (by_hand) require_ok(test::pass(*world.engine, model));
    test::check_refused(world.engine->step({}), "step: gradients of a backward pass without");
    test::check_refused(world.engine->clip_grad_norm(1, 2, {}), "were never reduced");
  }
  require_ok(by_hand ? world.engine->reduce() : test::pass(*world.engine, model));
  test::check_refused(world.engine->reduce(), "no gradient waits");
  NumericOwners once(ranks, model, options);
  require_ok(test::pass(*once.engine, model));
  for (const char* name : {"l0.weight", "l1.bias", "l2.bias"}) {
    std::vector<float> twice, single;
    const ParameterId id = model.find_parameter(name);
    auto into = [](std::vector<float>& out) {
      return [&out](Rank, std::span<const float> v) { out.assign(v.begin(), v.end()); };
    };
    require_ok(world.engine->inspect_gradient(id, into(twice)));
    require_ok(once.engine->inspect_gradient(id, into(single)));
    for (float& g : single) g *= 2;
    CHECK(twice == single);
  }
}

TEST_CASE("values that are broadcast in half the bytes are equal everywhere", "[owner]") {
  const Model model = test::linear_model("one", {{"l", 1, 1}}, {"l"});
  constexpr Rank ranks = 3;
  NumericOwners world(ranks, model, {.broadcast_dtype = DType::bfloat16});
  require_ok(world.engine->initialise([](ParameterId, Numel) { return 1.001F; }));
  require_ok(test::pass(*world.engine, model, {"l"}, {"l"}));
  require_ok(world.engine->step({.learning_rate = 0}));
  std::vector<float> seen;
  for (const ParameterId id : {ParameterId{0}, ParameterId{1}}) {
    require_ok(world.engine->inspect_shards(
        id, [&](Rank, Numel, std::span<const float> v) { seen.push_back(v[0]); }));
  }
  CHECK(seen == std::vector<float>(2 * ranks, 1.0F));  // rounded, the owner's too
}

TEST_CASE("a reduction in half the bytes rounds what is sent, not what is added up", "[owner]") {
  const Model model = mlp();
  constexpr Rank ranks = 2;
  NumericOwners world(ranks, model, {.reduce_dtype = DType::bfloat16});
  require_ok(test::pass(*world.engine, model));
  require_ok(test::pass(*world.engine, model));
  const ParameterId id = model.find_parameter("l2.weight");
  require_ok(world.engine->inspect_gradient(id, [&](Rank, std::span<const float> values) {
    for (std::size_t i = 0; i < values.size(); ++i) {
      const float p = initial_value(id, Numel{static_cast<std::int64_t>(i)});
      const float sum = test::gradient_of(p, 0, i) + test::gradient_of(p, 1, i);
      CHECK(values[i] == Approx(sum).epsilon(1e-2));
    }
  }));
  require_ok(world.engine->step({}));
  require_ok(world.runtime->finish());
}

TEST_CASE("full parameters are summoned, gradients are not", "[owner][summon]") {
  const Model model = mlp();
  NumericOwners world(2, model);
  require_ok(run_training_step(*world.engine, model, test::formula_training(model)));
  test::FormulaTraining reference(model);
  reference.step(RankSet::all(2), 2, 2);
  {
    const auto full = summon_full_params(*world.engine, {});
    require_ok(full.status());
    for (const ParameterId id : (*full)->parameters()) {
      require_ok((*full)->read(id, [&](Rank, std::span<const float> values) {
        std::size_t different = 0;
        const auto& expected = reference.elements.at(id.value);
        for (std::size_t i = 0; i < values.size(); ++i) {
          different += values[i] == expected[i].value ? 0U : 1U;
        }
        CHECK(different == 0);
      }));
    }
    require_ok((*full)->close());
  }
  const auto refused = summon_full_params(*world.engine, {.with_grads = true});
  CHECK(refused.status().code() == Code::not_supported);
}

}  // namespace
}  // namespace tessera
