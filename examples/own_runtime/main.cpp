// SPDX-License-Identifier: Apache-2.0
// Trains on a runtime of one's own, compares the numbers with the simulator's bit by bit, and shows
// that a schedule without a wait is refused.
//
//   own_runtime examples/models/g3.json own.tessera
#include <iostream>

#include "own_runtime.h"
#include "tessera/fully_shard.h"
#include "tessera/real_model.h"
#include "tessera/sim/cluster.h"
#include "tessera/sim/lockstep_runtime.h"
#include "tessera/storage/trace_writer.h"

namespace own {

constexpr Rank ranks = 4;

/// What training leaves behind: the loss of each step, then every element of every parameter.
using Numbers = std::vector<float>;

Status train(tessera::Runtime& runtime, const tessera::Model& model, Numbers& numbers) {
  const tessera::RealModelOptions data{
      .batch = 2, .seed = 7, .world_size = ranks, .same_data_every_step = true};
  TESSERA_ASSIGN(const auto real, tessera::RealModel::create(model, data));
  TESSERA_ASSIGN(const auto engine, fully_shard(runtime, model, {.units = {"L1", "L2", "L3"}}));
  TESSERA_TRY(engine->initialise(real.initial_values()));
  for (int step = 0; step < 5; ++step) {
    TESSERA_TRY(run_training_step(
        *engine, model, {.batch = 2, .adam = {.learning_rate = 1e-2F}, .body = real.bodies()}));
    numbers.push_back(real.loss());
  }
  for (std::int32_t p = 0; p < static_cast<std::int32_t>(model.parameters.size()); ++p) {
    TESSERA_TRY(engine->inspect_shards(tessera::ParameterId{p},
                                       [&](Rank, tessera::Numel, std::span<const float> part) {
                                         numbers.insert(numbers.end(), part.begin(), part.end());
                                       }));
  }
  return {};
}

/// Between engine and runtime: forgets the wait of a collective for what it reads.
class Careless final : public tessera::Runtime {
 public:
  explicit Careless(tessera::Runtime& real) : real_(real) {}

  Result<tessera::EventId> submit(const tessera::Op& op) override {
    const auto* wait = std::get_if<tessera::Wait>(&op.what);
    const bool forget = wait != nullptr && op.cause.unit == "L2" && !forgotten_;
    if (!forget) return real_.submit(op);
    forgotten_ = true;
    tessera::Op nothing = op;
    nothing.after = {};
    nothing.what = tessera::Mark{};
    return real_.submit(nothing);
  }

  const RankSet& world() const override { return real_.world(); }
  const RankSet& local_ranks() const override { return real_.local_ranks(); }
  Result<tessera::StreamId> create_stream(std::string_view name,
                                          tessera::StreamRole role) override {
    return real_.create_stream(name, role);
  }
  Result<tessera::CommunicatorId> create_communicator(const tessera::RankGroups& groups,
                                                      std::string_view name) override {
    return real_.create_communicator(groups, name);
  }
  Result<tessera::BufferId> allocate(const tessera::Allocation& request) override {
    return real_.allocate(request);
  }
  Status release(tessera::BufferId id, tessera::EventId after, const RankSet& where) override {
    return real_.release(id, after, where);
  }
  Status wait(tessera::EventId event) override { return real_.wait(event); }
  Result<PerRank<float>> read(const View& scalar) override { return real_.read(scalar); }
  PerRank<Time> now() const override { return real_.now(); }

 private:
  tessera::Runtime& real_;
  bool forgotten_ = false;
};

Status simulate(const tessera::Model& model, Numbers& numbers) {
  TESSERA_ASSIGN(const auto cluster, tessera::sim::load_cluster("dgx-h100", /*nodes=*/1));
  const auto cost = tessera::sim::make_cost_model(cluster);
  TESSERA_ASSIGN(const auto runtime,
                 tessera::sim::LockstepRuntime::create(
                     {.world_size = ranks, .cost = cost.get(), .numerics = true}));
  TESSERA_TRY(train(*runtime, model, numbers));
  return runtime->finish();
}

Status run(const std::string& path, const std::string& trace) {
  TESSERA_ASSIGN(const auto model, tessera::load_model(path));
  TESSERA_ASSIGN(const auto writer, tessera::storage::TraceWriter::create(trace));
  writer->begin({.name = "a runtime of my own",
                 .model = model.name,
                 .scheme = "fully_shard",
                 .backend = "own",
                 .ranks = ranks,
                 .ranks_per_node = ranks,
                 .recorded_ranks = {0, 1, 2, 3}});
  Numbers numbers;
  {
    OwnRuntime runtime(ranks, writer.get());
    TESSERA_TRY(train(runtime, model, numbers));
    TESSERA_TRY(runtime.finish());
    std::cout << "peak " << runtime.peak_reserved().value << " bytes\n";
  }
  TESSERA_TRY(writer->finish());
  for (std::size_t step = 0; step < 5; ++step) {
    std::cout << "step " << step << " loss " << numbers[step] << '\n';
  }

  Numbers expected;
  TESSERA_TRY(simulate(model, expected));
  if (numbers != expected) return Status(tessera::Code::divergent, "the simulator's differ");
  std::cout << numbers.size() << " numbers, the same as in the simulator\n";

  OwnRuntime real(ranks);
  Careless careless(real);
  const Status refused = train(careless, model, expected);
  if (refused.ok()) return Status(tessera::Code::hazard, "a missing wait was not noticed");
  std::cout << "refused: " << name_of(refused.code()) << ": " << refused.message() << '\n';
  return {};
}

}  // namespace own

int main(int argc, char** argv) {
  if (argc != 3) return std::cerr << "usage: own_runtime MODEL TRACE\n", 2;
  const tessera::Status status = own::run(argv[1], argv[2]);
  if (!status) std::cerr << status.message() << '\n';
  return status.ok() ? 0 : 1;
}
