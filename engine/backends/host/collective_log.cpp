// SPDX-License-Identifier: Apache-2.0
#include "engine/backends/host/collective_log.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>

#include "tessera/assert.h"

namespace tessera {
namespace {

// FNV-1a, 64 bits, over 8 bytes at a time.
constexpr std::uint64_t fnv_prime = 0x100000001b3;

void mix(std::uint64_t& hash, std::uint64_t value) {
  hash = (hash ^ value) * fnv_prime;
  hash ^= hash >> 29;  // the upper bits reach the lower ones
}

void mix(std::uint64_t& hash, std::string_view text) {
  mix(hash, text.size());
  for (; !text.empty(); text.remove_prefix(std::min<std::size_t>(8, text.size()))) {
    std::uint64_t word = 0;
    std::memcpy(&word, text.data(), std::min<std::size_t>(8, text.size()));
    mix(hash, word);
  }
}

// Long names are cut at the front: the end says more about a module than the beginning.
template <std::size_t size>
void put_end(char (&target)[size], std::string_view text) {
  if (text.size() >= size) text.remove_prefix(text.size() - size + 1);
  std::copy(text.begin(), text.end(), target);
}

struct Header {
  std::int64_t first = 1;
  std::int64_t calls = 0;
  std::int64_t code = 0;
};

}  // namespace

std::string describe(const LoggedCall& call) {
  const std::string_view what(call.what, strnlen(call.what, sizeof call.what));
  const std::string_view name(call.name, strnlen(call.name, sizeof call.name));
  if (call.communicator < 0) {
    return name.empty() ? std::string(what) : fmt::format("{} of {}", what, name);
  }
  std::string text = fmt::format("{} of {} {}", what, call.numel, name_of(call.dtype));
  if (!name.empty()) text += fmt::format(" of unit {}", name);
  text += fmt::format(" on communicator {}", call.communicator);
  if (call.root >= 0) text += fmt::format(" with root {}", call.root);
  return text;
}

LoggedCall logged_call(const Op& op) {
  struct Numbers {
    View view;
    Index root = -1;
  };
  struct Visitor {
    Numbers operator()(const AllGather& o) const { return {o.output}; }
    Numbers operator()(const ReduceScatter& o) const { return {o.input}; }
    Numbers operator()(const AllReduce& o) const { return {o.input}; }
    Numbers operator()(const AllToAll& o) const { return {o.input}; }
    Numbers operator()(const Reduce& o) const { return {o.input, o.root}; }
    Numbers operator()(const Broadcast& o) const { return {o.data, o.root}; }
    Numbers operator()(const Copy&) const { return {}; }
    Numbers operator()(const Compute&) const { return {}; }
    Numbers operator()(const Wait&) const { return {}; }
    Numbers operator()(const Mark&) const { return {}; }
  };
  const Numbers numbers = std::visit(Visitor{}, op.what);
  LoggedCall call;
  call.numel = numbers.view.numel.value;
  call.dtype = numbers.view.dtype;
  call.root = numbers.root;
  call.communicator = communicator_of(op).value;
  put_end(call.what, name_of(kind_of(op)));
  put_end(call.name, op.cause.unit);
  return call;
}

void CollectiveLog::add(const Op& collective) {
  add(logged_call(collective), collective.cause.unit);
}

void CollectiveLog::add(std::string_view what, std::string_view name) {
  LoggedCall call;
  put_end(call.what, what);
  put_end(call.name, name);
  add(call, name);
}

void CollectiveLog::add(LoggedCall call, std::string_view whole_name) {
  TESSERA_ASSERT(first_ + std::ssize(calls_) == count_ + 1, "calls are numbered without a gap");
  ++count_;
  mix(hash_, static_cast<std::uint64_t>(count_));
  mix(hash_, static_cast<std::uint64_t>(call.numel));
  mix(hash_, static_cast<std::uint64_t>(call.communicator));
  mix(hash_, static_cast<std::uint64_t>(call.root));
  mix(hash_, static_cast<std::uint64_t>(call.dtype));
  mix(hash_, std::string_view(call.what));
  mix(hash_, whole_name);
  call.hash = hash_;
  calls_.push_back(call);
}

const LoggedCall* CollectiveLog::find(std::int64_t number) const {
  if (number < first_ || number > count_) return nullptr;
  return &calls_[static_cast<std::size_t>(number - first_)];
}

void CollectiveLog::forget_until(std::int64_t number) {
  for (; first_ <= number && !calls_.empty(); ++first_) calls_.pop_front();
}

std::string LogReport::to_bytes() const {
  const Header header{first, static_cast<std::int64_t>(calls.size()),
                      static_cast<std::int64_t>(trouble.code())};
  std::string bytes(sizeof header + calls.size() * sizeof(LoggedCall), '\0');
  std::memcpy(bytes.data(), &header, sizeof header);
  if (!calls.empty()) {
    std::memcpy(bytes.data() + sizeof header, calls.data(), calls.size() * sizeof(LoggedCall));
  }
  return bytes + trouble.message();
}

std::optional<LogReport> LogReport::from_bytes(std::string_view bytes) {
  Header header;
  if (bytes.size() < sizeof header) return std::nullopt;
  std::memcpy(&header, bytes.data(), sizeof header);
  bytes.remove_prefix(sizeof header);
  const auto most = static_cast<std::int64_t>(bytes.size() / sizeof(LoggedCall));
  const bool known_code = header.code >= 0 && header.code <= static_cast<int>(Code::cancelled);
  if (header.calls < 0 || header.calls > most || !known_code) return std::nullopt;
  LogReport report;
  report.first = header.first;
  report.calls.resize(static_cast<std::size_t>(header.calls));
  const std::size_t size = report.calls.size() * sizeof(LoggedCall);
  if (size > 0) std::memcpy(report.calls.data(), bytes.data(), size);
  bytes.remove_prefix(size);
  const Code code = static_cast<Code>(header.code);
  if (code != Code::ok) report.trouble = Status(code, std::string(bytes));
  return report;
}

}  // namespace tessera
