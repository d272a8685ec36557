// SPDX-License-Identifier: Apache-2.0
// Which calls of NCCL belong together, and what they do to memory.
#include <fmt/format.h>

#include <algorithm>
#include <cstring>

#include "tessera/number_arrays.h"
#include "tests/backends/cuda/stand_in/fake_nccl.h"

namespace tessera::test {
namespace {

DType dtype_of(NcclType type) {
  switch (type) {
    case NcclType::float32: return DType::float32;
    case NcclType::float16: return DType::float16;
    case NcclType::bfloat16: return DType::bfloat16;
    case NcclType::int32: return DType::int32;
    case NcclType::int64: return DType::int64;
    case NcclType::float64: return DType::float64;
    default: return DType::uint8;
  }
}

std::size_t bytes_of_call(const CollectiveCall& call) {
  return call.count * static_cast<std::size_t>(size_of(dtype_of(call.type)).value);
}

bool is_rooted(CollectiveKind kind) {
  return kind == CollectiveKind::reduce || kind == CollectiveKind::broadcast;
}

bool reduces(CollectiveKind kind) {
  return kind == CollectiveKind::reduce_scatter || kind == CollectiveKind::all_reduce ||
         kind == CollectiveKind::reduce;
}

std::string describe(const CollectiveCall& call) {
  std::string text = fmt::format("{} of {} x type {}", name_of(call.kind), call.count,
                                 static_cast<int>(call.type));
  if (reduces(call.kind))
    text += fmt::format(", op {} x {}", static_cast<int>(call.op), call.factor);
  if (is_rooted(call.kind)) text += fmt::format(", root {}", call.root);
  if (!call.places.empty()) text += ", " + call.places;
  return text;
}

bool matches(const CollectiveCall& a, const CollectiveCall& b) {
  if (a.kind != b.kind) return false;
  if (a.kind == CollectiveKind::exchange) return true;  // see letters_match
  return a.count == b.count && a.type == b.type && a.places == b.places &&
         (!reduces(a.kind) || (a.op == b.op && a.factor == b.factor)) &&
         (!is_rooted(a.kind) || a.root == b.root);
}

// What `from` sends to `to` is what that expects.
bool letters_match(int from, const CollectiveCall& sender, int to, const CollectiveCall& receiver) {
  const auto sent = sender.sends.find(to);
  const auto expected = receiver.receives.find(from);
  const bool sends = sent != sender.sends.end();
  const bool expects = expected != receiver.receives.end();
  return sends == expects && (!sends || sent->second.bytes == expected->second.bytes);
}

std::string wrong_letter(int from, int to) {
  return fmt::format("what index {} sends to index {} is not what that expects", from, to);
}

using Calls = std::vector<CollectiveCall>;

// All outputs are made from what the inputs were before.
std::vector<std::vector<std::byte>> inputs_of(const Calls& calls, std::size_t parts) {
  std::vector<std::vector<std::byte>> inputs;
  for (const CollectiveCall& call : calls) {
    inputs.emplace_back(call.in, call.in + bytes_of_call(call) * parts);
  }
  return inputs;
}

void gather(const Calls& calls) {
  const auto inputs = inputs_of(calls, 1);
  for (const CollectiveCall& call : calls) {
    std::byte* at = call.out;
    for (const auto& input : inputs) at = std::copy(input.begin(), input.end(), at);
  }
}

void reduce(const Calls& calls, bool scatters) {
  const auto inputs = inputs_of(calls, scatters ? calls.size() : 1);
  const std::size_t bytes = bytes_of_call(calls.front());
  for (std::size_t i = 0; i < calls.size(); ++i) {
    const CollectiveCall& call = calls[i];
    const bool receives = call.kind != CollectiveKind::reduce || static_cast<int>(i) == call.root;
    if (!receives) continue;
    const Reduction reduction = call.op == NcclOp::average ? Reduction::average
                                : call.op == NcclOp::max   ? Reduction::max
                                                           : Reduction::sum;
    RankOrderReduction sum(reduction, call.factor, call.count);
    for (const auto& input : inputs) {
      sum.add(std::span(input).subspan(scatters ? i * bytes : 0, bytes), dtype_of(call.type));
    }
    sum.finish({call.out, bytes}, dtype_of(call.type));
  }
}

void broadcast(const Calls& calls) {
  const auto inputs = inputs_of(calls, 1);
  const auto& source = inputs[static_cast<std::size_t>(calls.front().root)];
  for (const CollectiveCall& call : calls) std::copy(source.begin(), source.end(), call.out);
}

void exchange(const Calls& calls) {
  std::map<std::pair<int, int>, std::vector<std::byte>> letters;  // from, to
  for (std::size_t from = 0; from < calls.size(); ++from) {
    for (const auto& [to, message] : calls[from].sends) {
      letters[{static_cast<int>(from), to}].assign(message.at, message.at + message.bytes);
    }
  }
  for (std::size_t to = 0; to < calls.size(); ++to) {
    for (const auto& [from, message] : calls[to].receives) {
      const auto& letter = letters[{from, static_cast<int>(to)}];
      std::copy_n(letter.begin(), std::min(letter.size(), message.bytes), message.at);
    }
  }
}

}  // namespace

const char* name_of(CollectiveKind kind) {
  static constexpr const char* names[] = {"all_gather", "reduce_scatter", "all_reduce",
                                          "reduce",     "broadcast",      "exchange"};
  return names[static_cast<std::size_t>(kind)];
}

std::string FakeCollective::join(int index, const CollectiveCall& call) {
  calls_[static_cast<std::size_t>(index)] = call;
  streams_.push_back(call.stream);
  for (std::size_t i = 0; i < calls_.size(); ++i) {
    const CollectiveCall& other = calls_[i];
    if (other.stream == nullptr) continue;
    const auto own = static_cast<int>(i);
    if (call.kind == CollectiveKind::exchange && other.kind == CollectiveKind::exchange) {
      if (!letters_match(own, other, index, call)) return wrong_letter(own, index);
      if (!letters_match(index, call, own, other)) return wrong_letter(index, own);
    }
    if (matches(other, call)) continue;
    return fmt::format("index {} asks for {}, index {} for {}", i, describe(other), index,
                       describe(call));
  }
  return {};
}

bool FakeCollective::may_run() const {
  const bool all = streams_.size() == calls_.size();
  return all && !dead_ && group_.error == 0 &&
         std::all_of(streams_.begin(), streams_.end(), [this](const FakeStream* stream) {
           return order_[static_cast<std::size_t>(stream->device)].front() == this;
         });
}

void FakeCollective::run() {
  switch (calls_.front().kind) {
    case CollectiveKind::all_gather: gather(calls_); break;
    case CollectiveKind::reduce_scatter: reduce(calls_, /*scatters=*/true); break;
    case CollectiveKind::all_reduce:
    case CollectiveKind::reduce: reduce(calls_, /*scatters=*/false); break;
    case CollectiveKind::broadcast: broadcast(calls_); break;
    case CollectiveKind::exchange: exchange(calls_); break;
  }
  for (const FakeStream* stream : streams_) {
    order_[static_cast<std::size_t>(stream->device)].pop_front();
  }
}

}  // namespace tessera::test
