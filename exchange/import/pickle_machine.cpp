// SPDX-License-Identifier: Apache-2.0
#include "exchange/import/pickle_machine.h"

#include <fmt/format.h>

#include <array>

namespace tessera::exchange {
namespace {

using Handlers = std::array<void (*)(PickleMachine&), 256>;

constexpr std::size_t times_the_file = 3, memory_anyway = std::size_t{24} << 20;
constexpr std::int64_t steps_per_byte = 16, steps_anyway = 100'000;

const Handlers& pickle_handlers() {
  static const Handlers handlers = [] {
    Handlers all;
    all.fill([](PickleMachine& machine) { machine.fail("it has an opcode that no protocol has"); });
    for (const auto& some :
         {pickle_value_opcodes(), pickle_container_opcodes(), pickle_object_opcodes()}) {
      for (const PickleOpcode& opcode : some) all[opcode.code] = opcode.run;
    }
    return all;
  }();
  return handlers;
}

}  // namespace

PickleMachine::PickleMachine(PickleHeap& heap) : heap_(heap) {
  heap_.cells.push_back(0);  // segment 0 means none
}

Status PickleMachine::run() {
  const Handlers& handlers = pickle_handlers();
  const std::size_t size = heap_.bytes.size();
  const auto too_much = [&] {
    return heap_.memory() + stack_.bytes() + memo_.bytes() + marks_.bytes() >
           times_the_file * size + memory_anyway;
  };
  for (std::size_t opcodes = 0; status_.ok() && !stopped_; ++opcodes) {
    const std::string_view opcode = take(1);
    if (opcode.empty()) break;
    handlers[static_cast<unsigned char>(opcode[0])](*this);
    if (opcodes % 256 == 0 && too_much()) {
      fail("what is in it would take more than three times its size", Code::out_of_memory);
    }
  }
  heap_.root = pop();
  heap_.steps_left = steps_anyway + steps_per_byte * static_cast<std::int64_t>(size);
  return status_;
}

void PickleMachine::fail(std::string what, Code code) {
  if (!status_.ok()) return;
  status_ = {code, fmt::format("It is no pickle, or a damaged one: {}, at byte {} of {}.", what,
                               at_, heap_.bytes.size())};
}

std::string_view PickleMachine::take(std::uint64_t count) {
  if (!status_.ok()) return {};
  if (count > heap_.bytes.size() - at_) {
    fail("it ends in the middle of a value");
    return {};
  }
  const std::string_view bytes = std::string_view(heap_.bytes).substr(at_, count);
  at_ += count;
  return bytes;
}

std::string_view PickleMachine::line() {
  const std::size_t end = heap_.bytes.find('\n', at_);
  if (end == std::string::npos) {
    fail("it ends in the middle of a line");
    return {};
  }
  const std::string_view text = take(end - at_);
  at_ = end + 1;
  return text;
}

std::uint64_t PickleMachine::number(std::size_t bytes) {
  std::uint64_t value = 0;
  const std::string_view text = take(bytes);
  for (std::size_t i = text.size(); i > 0; --i) {
    value = value << 8 | static_cast<unsigned char>(text[i - 1]);
  }
  return value;
}

PickleMachine::Word PickleMachine::pop() {
  const Word value = top();
  if (stack_.size() > fence()) stack_.pop_back();
  return value;
}

PickleMachine::Word PickleMachine::top() {
  if (stack_.size() > fence()) return stack_.back();
  fail("it takes more values than it has given");
  return word::missing;
}

std::size_t PickleMachine::pop_mark() {
  if (marks_.empty()) {
    fail("it refers to a mark that is not there");
    return stack_.size();
  }
  const std::size_t from = marks_.back();
  marks_.pop_back();
  return from;
}

void PickleMachine::fetch(std::uint64_t index) {
  const bool known = index < memo_.size() && memo_[index] != word::missing;
  if (!known) fail("it refers to a value that it has not given");
  push(known ? memo_[index] : word::missing);
}

void PickleMachine::store(std::uint64_t index) {
  // Each number is given by an opcode of two bytes at least.
  if (index > heap_.bytes.size()) return fail("it numbers a value beyond all that it can have");
  const Word value = top();
  while (memo_.size() <= index) memo_.push_back(word::missing);
  memo_[index] = value;
}

Result<Pickle> Pickle::parse(std::string bytes) {
  auto heap = std::make_unique<PickleHeap>();
  heap->bytes = std::move(bytes);
  TESSERA_TRY(PickleMachine(*heap).run());
  return Pickle(std::move(heap));
}

}  // namespace tessera::exchange
