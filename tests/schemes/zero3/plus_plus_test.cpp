// SPDX-License-Identifier: Apache-2.0
// ZeRO++: what it sends, what it keeps, and how far its numbers are off.
#include <catch2/catch.hpp>
#include <cmath>

#include "engine/numbers/number.h"
#include "engine/schemes/zero3/zero_plus_plus/block_quantizer.h"
#include "tessera/real_model.h"
#include "tessera/recording.h"
#include "tessera/sim/lockstep_runtime.h"
#include "tessera/training.h"
#include "tessera/zero3.h"
#include "tests/random.h"
#include "tests/schemes/zero3/net3.h"
#include "tests/sim/test_costs.h"
#include "tests/training/reference/real_models.h"

namespace tessera {
namespace {

// One rank's buffers, each a view.
class Buffers final : public BodyContext {
 public:
  std::vector<std::vector<std::byte>> reads, writes;
  Rank rank() const override { return 0; }
  std::span<const std::byte> read(std::size_t i) const override { return reads.at(i); }
  std::span<std::byte> write(std::size_t i) const override {
    return const_cast<std::vector<std::byte>&>(writes.at(i));
  }
};

std::vector<std::byte> stored(const std::vector<float>& values) {
  std::vector<std::byte> out(values.size() * 4);
  for (std::size_t i = 0; i < values.size(); ++i) {
    store_number(out, DType::float32, i, values[i]);
  }
  return out;
}

TEST_CASE("codes are off by half a step of their block at most", "[zero3][property]") {
  const int bits = GENERATE(8, 4);
  const std::uint64_t seed = GENERATE(range(1, 21));
  INFO("bits " << bits << " seed=" << seed);
  test::Random random(seed);
  const auto row = static_cast<std::int64_t>(2 * (1 + random.below(9000)));
  const BlockQuantizer format{.bits = bits, .row = Numel{row}};
  const std::int64_t rows = 2;
  std::vector<float> values;
  for (std::int64_t i = 0; i < rows * row; ++i) {
    values.push_back(static_cast<float>(random.below(20001)) / 100.0F - 100.0F);
  }
  const BufferId any{0};
  const View numbers = View::whole(any, DType::float32, Numel{rows * row});
  const View codes = View::whole(any, DType::uint8, format.codes() * rows);
  const View scales = View::whole(any, DType::float32, format.scales() * rows);
  Buffers packing{};
  packing.reads = {stored(values)};
  packing.writes = {std::vector<std::byte>(static_cast<std::size_t>(codes.numel.value)),
                    std::vector<std::byte>(static_cast<std::size_t>(scales.numel.value) * 4)};
  format.quantize(numbers, codes, scales, {1, 0}).body(packing);  // rows change places
  Buffers back{};
  back.reads = packing.writes;
  back.writes = {std::vector<std::byte>(values.size() * 4)};
  format.dequantize(codes, scales, numbers).body(back);
  const float largest = bits == 8 ? 127 : 7;
  std::size_t wrong = 0;
  for (std::int64_t r = 0; r < rows; ++r) {
    for (std::int64_t i = 0; i < row; ++i) {
      const std::int64_t block = i / BlockQuantizer::block_max;
      const float scale = load_number(packing.writes[1], DType::float32,
                                      static_cast<std::size_t>((1 - r) * format.blocks() + block));
      const float x = values[static_cast<std::size_t>(r * row + i)];
      const float y =
          load_number(back.writes[0], DType::float32, static_cast<std::size_t>((1 - r) * row + i));
      CHECK_FALSE(scale * largest > 100.01F);
      wrong += std::fabs(x - y) <= scale * 0.5001F ? 0 : 1;
    }
  }
  CHECK(wrong == 0);
}

constexpr Index ranks = 8;
constexpr Index per_node = 4;

Zero3Options every_gather() {
  Zero3Options o;
  o.policy = Zero3Policy::compatible;
  o.prefetch_bucket = o.max_reuse_distance = o.persistence_threshold = Numel{0};
  o.param_dtype = DType::bfloat16;
  return o;
}

struct Volume {
  std::int64_t forward = 0, backward = 0, gradients = 0;
};

// Bytes that a node sends to others in a step, scales left out: a gather or a reduce_scatter over
// all ranks passes every node once; of an all_to_all between nodes every rank of a node has one.
Volume between_nodes(const Zero3Options& options) {
  Recording recording;
  const auto runtime = make_recording_runtime(ranks, recording);
  const Model model = test::net3({.widths = {64, 64, 64, 64}});
  auto engine = zero3(*runtime, model, options);
  INFO(engine.status().message());
  REQUIRE(engine.ok());
  REQUIRE(run_training_step(**engine, model, {}).ok());
  recording.records.clear();
  REQUIRE(run_training_step(**engine, model, {}).ok());
  // In the order in which they are made: world, then those of ZeRO++.
  std::int32_t across = 0;
  if (options.plus_plus.quantized_gradients) {
    across = options.plus_plus.secondary_group > 1 ? 3 : 2;
  }
  Volume volume;
  for (const Record& r : recording.records) {
    if (r.kind != Record::Kind::op) continue;
    if (const auto* o = std::get_if<AllGather>(&r.op.what)) {
      const bool far = o->communicator.value == 0 && o->output.dtype != DType::float32;
      if (!far) continue;
      (r.cause.phase == Phase::forward ? volume.forward : volume.backward) += bytes_of(r.op).value;
    } else if (std::holds_alternative<ReduceScatter>(r.op.what)) {
      volume.gradients += bytes_of(r.op).value;
    } else if (const auto* a = std::get_if<AllToAll>(&r.op.what)) {
      const bool far = a->communicator.value == across && a->input.dtype == DType::uint8;
      if (far) volume.gradients += bytes_of(r.op).value * per_node;
    }
  }
  return volume;
}

// arXiv 2306.10209, section 4 and DeepSpeed's blogs/zeropp: 3 M, then 0.5 M + 0 + 0.25 M, in units
// of the model in 16 bit.
TEST_CASE("ZeRO++ sends a quarter of what ZeRO-3 sends between nodes, exactly", "[zero3]") {
  constexpr std::int64_t model_bytes = 3 * 64 * 64 * 2;
  const Volume plain = between_nodes(every_gather());
  CHECK(plain.forward == model_bytes);
  CHECK(plain.backward == model_bytes);
  CHECK(plain.gradients == model_bytes);
  Zero3Options o = every_gather();
  o.plus_plus.quantized_weights = true;
  CHECK(between_nodes(o).forward == model_bytes / 2);
  CHECK(between_nodes(o).backward == model_bytes / 2);
  o.plus_plus.secondary_group = per_node;
  CHECK(between_nodes(o).backward == 0);
  CHECK(between_nodes(o).gradients == model_bytes);
  o.plus_plus.quantized_gradients = true;
  o.plus_plus.ranks_per_node = per_node;
  const Volume all = between_nodes(o);
  CHECK(all.forward == model_bytes / 2);
  CHECK(all.backward == 0);
  CHECK(all.gradients == model_bytes / 4);
}

TEST_CASE("the second copy costs 2 bytes a parameter over the group, once", "[zero3]") {
  Zero3Options o = every_gather();
  o.plus_plus.secondary_group = per_node;
  Recording recording;
  const auto runtime = make_recording_runtime(ranks, recording);
  const Model model = test::net3({.widths = {64, 64, 64, 64}});
  auto engine = zero3(*runtime, model, o);
  REQUIRE(engine.ok());
  for (int step = 0; step < 3; ++step) REQUIRE(run_training_step(**engine, model, {}).ok());
  std::int64_t bytes = 0;
  for (const auto& buffer : recording.buffers) {
    if (buffer.name.ends_with(".secondary")) bytes += buffer.bytes.value;
  }
  CHECK(bytes == 2 * 3 * 64 * 64 / per_node);
}

TEST_CASE("what cannot be quantised is reduce-scattered", "[zero3]") {
  Zero3Options o = every_gather();
  o.plus_plus.quantized_gradients = true;
  o.plus_plus.ranks_per_node = per_node;
  Recording recording;
  const auto runtime = make_recording_runtime(ranks, recording);
  const Model model = test::net3({.widths = {8, 8, 8, 3}, .biases = true});
  auto engine = zero3(*runtime, model, o);
  REQUIRE(engine.ok());
  REQUIRE(run_training_step(**engine, model, {}).ok());
  Numel scattered{};
  Numel exchanged{};
  for (const Record& r : recording.records) {
    if (const auto* s = std::get_if<ReduceScatter>(&r.op.what)) scattered += s->input.numel;
    if (const auto* a = std::get_if<AllToAll>(&r.op.what)) {
      if (a->input.dtype == DType::uint8) exchanged += a->input.numel;
    }
  }
  // a.w and b.w of 64 elements go in 4 bit, twice; c.w of 24 and the biases of 8, 8 and 3, padded
  // to 8 parts, do not.
  CHECK(exchanged.value == 128 / 2 + 128 / 2 / per_node);
  CHECK(scattered == Numel{24 + 8 + 8 + 8});
}

// Values of all parameters after some steps, and the losses before them.
struct Trained {
  std::vector<float> values;
  std::vector<float> losses;
};

Trained train(const Zero3Options& options) {
  const Model model = test::tiny_gpt2();
  const test::TestCosts costs;
  auto runtime = sim::LockstepRuntime::create({.world_size = 4, .cost = &costs, .numerics = true});
  REQUIRE(runtime.ok());
  auto engine = zero3(**runtime, model, options);
  REQUIRE(engine.ok());
  const RealModelOptions data{.batch = 2, .sequence_length = 4, .seed = 3, .world_size = 4};
  auto real = RealModel::create(model, data);
  REQUIRE(real.ok());
  REQUIRE((*engine)->initialise(real->initial_values()).ok());
  TrainingOptions training;
  training.batch = data.batch;
  training.sequence_length = data.sequence_length;
  training.accumulation = 2;
  training.body = real->bodies();
  Trained out;
  for (int step = 0; step < 6; ++step) {
    const Status status = run_training_step(**engine, model, training);
    INFO(status.message());
    REQUIRE(status.ok());
    out.losses.push_back(real->loss());
  }
  for (std::size_t p = 0; p < model.parameters.size(); ++p) {
    REQUIRE((*engine)
                ->inspect_shards(ParameterId{static_cast<std::int32_t>(p)},
                                 [&](Rank, Numel, std::span<const float> values) {
                                   out.values.insert(out.values.end(), values.begin(),
                                                     values.end());
                                 })
                .ok());
  }
  const Status finished = (*runtime)->finish();
  INFO(finished.message());
  REQUIRE(finished.ok());
  return out;
}

TEST_CASE("gathering inside of nodes changes no bit", "[zero3][numerics]") {
  Zero3Options o;
  o.policy = GENERATE(Zero3Policy::strict, Zero3Policy::compatible);
  o.persistence_threshold = Numel{10};
  const Trained plain = train(o);
  o.plus_plus.secondary_group = GENERATE(2, 4);
  const Trained near = train(o);
  CHECK(near.values == plain.values);
  CHECK(near.losses == plain.losses);
}

TEST_CASE("quantised training stays near the exact one, and is deterministic",
          "[zero3][numerics]") {
  Zero3Options o;
  o.policy = GENERATE(Zero3Policy::strict, Zero3Policy::compatible);
  o.persistence_threshold = Numel{10};
  const Trained plain = train(o);
  o.plus_plus = {.secondary_group = 2, .quantized_weights = true, .ranks_per_node = 2};
  o.plus_plus.quantized_gradients = GENERATE(false, true);
  const Trained rounded = train(o);
  CHECK(rounded.losses != plain.losses);
  for (std::size_t step = 0; step < plain.losses.size(); ++step) {
    INFO(plain.losses[step] << " and " << rounded.losses[step]);
    CHECK(std::fabs(rounded.losses[step] - plain.losses[step]) < 0.02F * plain.losses[step]);
  }
  const Trained again = train(o);
  CHECK(again.values == rounded.values);
}

TEST_CASE("groups of ZeRO++ that do not fit the ranks are refused", "[zero3]") {
  Recording recording;
  const auto runtime = make_recording_runtime(8, recording);
  Zero3Options o;
  o.plus_plus.secondary_group = 3;
  CHECK(zero3(*runtime, test::net3(), o).status().message() ==
        "secondary_group 3 must divide the number of ranks, 8");
}

}  // namespace
}  // namespace tessera
