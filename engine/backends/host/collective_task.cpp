// SPDX-License-Identifier: Apache-2.0
#include "engine/backends/host/collective_task.h"

#include <algorithm>
#include <functional>
#include <vector>

#include "tessera/number_arrays.h"

namespace tessera {
namespace {

using Bytewise = std::vector<std::byte>;
using Task = std::unique_ptr<CollectiveTask>;

// Requests one after another. Each stage uses the data that the request before it has brought and
// starts the next request, or returns `none` if it needs none.
class Stages final : public CollectiveTask {
 public:
  using Request = Transport::Request;
  using Next = std::function<Result<Request>()>;
  static constexpr Request none = -1;

  Stages(Transport& transport, std::vector<Next> stages)
      : transport_(transport), stages_(std::move(stages)) {}

  Status start() { return enter(); }

  Result<bool> advance() override {
    while (request_ != none) {
      TESSERA_ASSIGN(const bool done, transport_.test(request_));
      if (!done) return false;
      TESSERA_TRY(enter());
    }
    return true;
  }

 private:
  Status enter() {
    request_ = none;
    while (request_ == none && stage_ < stages_.size()) {
      TESSERA_ASSIGN(request_, stages_[stage_]());
      ++stage_;
    }
    return {};
  }

  Transport& transport_;
  std::vector<Next> stages_;
  std::size_t stage_ = 0;
  Request request_ = none;
};

Result<Task> run(Transport& transport, std::vector<Stages::Next> stages) {
  auto task = std::make_unique<Stages>(transport, std::move(stages));
  TESSERA_TRY(task->start());
  return Task(std::move(task));
}

// Adds the members' parts, which lie one behind another, into `output`. The order is that of the
// ranks, as in the numeric simulator, so that both give the same bits.
void sum_parts(const Bytewise& parts, const CollectiveCall& call, const ReductionRule& rule,
               std::span<std::byte> output) {
  const std::size_t part = output.size();
  TESSERA_ASSERT(parts.size() == part * static_cast<std::size_t>(call.members),
                 "an equal part of every member");
  const auto numel = part / static_cast<std::size_t>(size_of(call.dtype).value);
  RankOrderReduction sum(rule.reduction, rule.factor, numel);
  for (Index i = 0; i < call.members; ++i) {
    sum.add(std::span(parts).subspan(static_cast<std::size_t>(i) * part, part), call.dtype);
  }
  sum.finish(output, call.dtype);
}

}  // namespace

Result<Task> start_all_gather(Transport& transport, const CollectiveCall& call) {
  return run(transport, {[&transport, call] {
               return transport.all_gather(call.communicator, call.input, call.output);
             }});
}

Result<Task> start_all_to_all(Transport& transport, const CollectiveCall& call) {
  return run(transport, {[&transport, call] {
               return transport.all_to_all(call.communicator, call.input, call.output);
             }});
}

Result<Task> start_broadcast(Transport& transport, const CollectiveCall& call, Index root) {
  TESSERA_ASSERT(root >= 0 && root < call.members, "the root is a member");
  return run(transport, {[&transport, call, root] {
               return transport.broadcast(call.communicator, root, call.output);
             }});
}

// Every member sends each other its part, and adds what it receives. If the output is a part of the
// input, writing it is safe: the inputs were sent by then. Staging memory keeps the parts, because
// a sum that arrives piece by piece would depend on timing.
Result<Task> start_reduce_scatter(Transport& transport, const CollectiveCall& call,
                                  const ReductionRule& rule) {
  auto parts = std::make_shared<Bytewise>(call.input.size());
  return run(transport, {[&transport, call, parts] {
                           return transport.all_to_all(call.communicator, call.input, *parts);
                         },
                         [call, rule, parts]() -> Result<Stages::Request> {
                           sum_parts(*parts, call, rule, call.output);
                           return Stages::none;
                         }});
}

// A reduce-scatter of equal parts, the last one padded with zeros, then an all-gather. Each element
// is added and rounded by one member, so all members get the same bits.
Result<Task> start_all_reduce(Transport& transport, const CollectiveCall& call,
                              const ReductionRule& rule) {
  const auto width = static_cast<std::size_t>(size_of(call.dtype).value);
  const auto members = static_cast<std::size_t>(call.members);
  TESSERA_ASSERT(call.input.size() == call.output.size() && members > 0,
                 "an all_reduce has as many results as inputs");
  const std::size_t numel = call.input.size() / width;
  const std::size_t part = (numel + members - 1) / members * width;
  struct Staging {
    Bytewise padded, parts, own;
  };
  auto staging = std::make_shared<Staging>();
  staging->padded.assign(part * members, std::byte{0});
  staging->parts.resize(part * members);
  staging->own.resize(part);
  std::copy(call.input.begin(), call.input.end(), staging->padded.begin());
  return run(transport,
             {[&transport, call, staging] {
                return transport.all_to_all(call.communicator, staging->padded, staging->parts);
              },
              [&transport, call, rule, staging] {
                sum_parts(staging->parts, call, rule, staging->own);
                return transport.all_gather(call.communicator, staging->own, staging->padded);
              },
              [call, staging]() -> Result<Stages::Request> {
                std::copy_n(staging->padded.begin(), call.output.size(), call.output.begin());
                return Stages::none;
              }});
}

Result<Task> start_reduce(Transport& transport, const CollectiveCall& call,
                          const ReductionRule& rule, Index root) {
  TESSERA_ASSERT(root >= 0 && root < call.members, "the root is a member");
  const bool receives = call.index == root;
  auto parts = std::make_shared<Bytewise>(
      receives ? call.input.size() * static_cast<std::size_t>(call.members) : 0);
  return run(transport, {[&transport, call, parts, root] {
                           return transport.gather(call.communicator, root, call.input, *parts);
                         },
                         [call, rule, parts, receives]() -> Result<Stages::Request> {
                           if (receives) sum_parts(*parts, call, rule, call.output);
                           return Stages::none;
                         }});
}

}  // namespace tessera
