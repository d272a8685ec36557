// SPDX-License-Identifier: Apache-2.0
// The k-th call of a transport fails, for every k: no rank hangs, and all know why.
#include <limits>

#include "tests/backends/host/small_program.h"
#include "tests/backends/host/thread_ranks.h"

namespace tessera {
namespace {

using namespace tessera::test;

constexpr const char* broken = "a broken wire";

enum class Kind { start, test, take };

// The history of a transport that breaks.
struct Wire {
  bool has_failed = false;
  int begun = 0;  // collectives that it has started before it failed, or in all
};

// Passes everything on, but for the k-th call of one kind and all of that kind after it.
class BrokenTransport final : public Transport {
 public:
  BrokenTransport(std::unique_ptr<Transport> inner, Kind kind, int working, Wire& wire)
      : inner_(std::move(inner)), kind_(kind), working_(working), wire_(wire) {}

  Rank rank() const override { return inner_->rank(); }
  Rank ranks() const override { return inner_->ranks(); }
  Status add_communicator(CommunicatorId id, const RankGroups& groups) override {
    TESSERA_TRY(fails(Kind::start));
    return inner_->add_communicator(id, groups);
  }
  Result<Request> all_gather(CommunicatorId id, std::span<const std::byte> input,
                             std::span<std::byte> output) override {
    TESSERA_TRY(fails(Kind::start));
    return inner_->all_gather(id, input, output);
  }
  Result<Request> all_to_all(CommunicatorId id, std::span<const std::byte> input,
                             std::span<std::byte> output) override {
    TESSERA_TRY(fails(Kind::start));
    return inner_->all_to_all(id, input, output);
  }
  Result<Request> gather(CommunicatorId id, Index root, std::span<const std::byte> input,
                         std::span<std::byte> output) override {
    TESSERA_TRY(fails(Kind::start));
    return inner_->gather(id, root, input, output);
  }
  Result<Request> broadcast(CommunicatorId id, Index root, std::span<std::byte> data) override {
    TESSERA_TRY(fails(Kind::start));
    return inner_->broadcast(id, root, data);
  }
  Result<bool> test(Request request) override {
    TESSERA_TRY(fails(Kind::test));
    return inner_->test(request);
  }
  void idle() override { inner_->idle(); }
  bool post(Rank to, std::string message) override { return inner_->post(to, std::move(message)); }
  Result<std::optional<Message>> take() override {
    TESSERA_TRY(fails(Kind::take));
    return inner_->take();
  }
  void abort(const Status& why) override { inner_->abort(why); }
  Status ended() const override { return inner_->ended(); }

 private:
  Status fails(Kind kind) {
    if (kind != kind_ || calls_++ < working_) {
      wire_.begun += kind == Kind::start && !wire_.has_failed;
      return {};
    }
    wire_.has_failed = true;
    return {Code::communication_error, broken};
  }

  const std::unique_ptr<Transport> inner_;
  const Kind kind_;
  const int working_;
  int calls_ = 0;
  Wire& wire_;
};

Status train_a_little(ProcessRuntime& host) {
  Runtime& runtime = host;
  TESSERA_ASSIGN(const Streams s, make_streams(runtime));
  TESSERA_ASSIGN(const View x, numbers(runtime, s, 50));
  for (int i = 0; i < 3; ++i) {
    TESSERA_TRY(runtime.submit(on(runtime, s.compute, fill(x, 1))).status());
    TESSERA_TRY(runtime.submit(on(runtime, s.communication, Wait{s.compute})).status());
    TESSERA_TRY(runtime.submit(on(runtime, s.communication, AllReduce{s.world, x, x})).status());
    TESSERA_TRY(runtime.submit(on(runtime, s.compute, Wait{s.communication})).status());
  }
  TESSERA_TRY(runtime.read(View::part(x.buffer, x.dtype, Numel{0}, Numel{1})).status());
  TESSERA_TRY(runtime.submit(on(runtime, s.compute, fill(x, 1))).status());
  return host.finish();
}

struct Outcome {
  Wire wire;
  std::vector<Status> statuses;
};

Outcome run(Kind kind, int working, Rank faulty) {
  constexpr Rank ranks = 3;
  Outcome outcome;
  outcome.statuses.resize(ranks);
  ThreadWorld world(ranks);
  std::vector<std::thread> threads;
  for (Rank rank = 0; rank < ranks; ++rank) {
    threads.emplace_back([&, rank] {
      auto transport = world.join(rank);
      if (rank == faulty) {
        transport =
            std::make_unique<BrokenTransport>(std::move(transport), kind, working, outcome.wire);
      }
      auto runtime = make_host_runtime(std::move(transport), {});
      outcome.statuses[static_cast<std::size_t>(rank)] =
          runtime.ok() ? train_a_little(**runtime) : runtime.status();
    });
  }
  for (std::thread& thread : threads) thread.join();
  return outcome;
}

// Where ranks part, the others may be done before the faulty one is: its last collective needs it
// to begin and nothing more, and no rank can wait for the news that all others have heard the news.
void check_outcome(const Outcome& outcome, Rank faulty, int collectives) {
  for (std::size_t rank = 0; rank < outcome.statuses.size(); ++rank) {
    const Status& status = outcome.statuses[rank];
    INFO("rank " << rank << ": " << status.message());
    const bool parted = outcome.wire.begun == collectives && static_cast<Rank>(rank) != faulty;
    if (!parted) CHECK(status.ok() == !outcome.wire.has_failed);
    if (!status.ok()) CHECK(status.message().find(broken) != std::string::npos);
  }
}

// All k at once: a rank in trouble asks the others first, which takes a moment. Returns how many
// calls there are in a run that works, or `calls`.
int failing_calls(Kind kind, int calls, Rank faulty) {
  std::vector<Outcome> outcomes(static_cast<std::size_t>(calls));
  std::vector<std::thread> threads;
  for (std::size_t k = 0; k < outcomes.size(); ++k) {
    threads.emplace_back([&, k] { outcomes[k] = run(kind, static_cast<int>(k), faulty); });
  }
  for (std::thread& thread : threads) thread.join();
  const int collectives = run(kind, std::numeric_limits<int>::max(), faulty).wire.begun;
  CHECK(collectives > 8);
  int failed = 0;
  for (std::size_t k = 0; k < outcomes.size(); ++k) {
    INFO("call " << k);
    failed += outcomes[k].wire.has_failed;
    check_outcome(outcomes[k], faulty, collectives);
  }
  return failed;
}

TEST_CASE("a transport that cannot start its k-th collective ends all ranks", "[host][faults]") {
  const int failed = failing_calls(Kind::start, 20, GENERATE(0, 1));
  CHECK(failed > 8);
  CHECK(failed < 20);  // so every one was tried
}

TEST_CASE("a transport that loses a collective or a message ends all ranks", "[host][faults]") {
  const Rank faulty = GENERATE(0, 1);
  CHECK(failing_calls(Kind::test, 24, faulty) > 8);
  CHECK(failing_calls(Kind::take, 24, faulty) > 8);
}

}  // namespace
}  // namespace tessera
