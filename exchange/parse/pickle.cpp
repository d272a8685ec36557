// SPDX-License-Identifier: Apache-2.0
#include "exchange/parse/pickle.h"

#include <array>

#include "exchange/parse/pickle_machine.h"

namespace tessera::exchange {
namespace {

using PickleHandlers = std::array<void (*)(PickleMachine&), 256>;

const PickleHandlers& pickle_handlers() {
  static const PickleHandlers handlers = [] {
    PickleHandlers all;
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

PickleMachine::PickleMachine(std::string bytes) : TreeBuilder(bytes.size()) {
  heap().bytes = std::move(bytes);
}

Result<Tree> PickleMachine::run() {
  const PickleHandlers& handlers = pickle_handlers();
  for (std::size_t opcodes = 0; ok() && !stopped_; ++opcodes) {
    const std::string_view opcode = take(1);
    if (opcode.empty()) break;
    handlers[static_cast<unsigned char>(opcode[0])](*this);
    if (opcodes % 256 == 0) check_memory(memo_.bytes());
  }
  if (ok() && stopped_ && at_ < heap().bytes.size()) fail("it goes on behind its end");
  return finish("no pickle", at_);
}

std::string_view PickleMachine::take(std::uint64_t count) {
  if (!ok()) return {};
  const std::string& bytes = heap().bytes;
  if (count > bytes.size() - at_) {
    fail("it ends in the middle of a value");
    return {};
  }
  at_ += count;
  return std::string_view(bytes).substr(at_ - count, count);
}

std::string_view PickleMachine::line() {
  const std::size_t end = heap().bytes.find('\n', at_);
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

void PickleMachine::fetch(std::uint64_t index) {
  const bool known = index < memo_.size() && memo_[index] != word::missing;
  if (!known) fail("it refers to a value that it has not given");
  push(known ? memo_[index] : word::missing);
}

void PickleMachine::store(std::uint64_t index) {
  // Each number is given by an opcode of two bytes at least.
  if (index > heap().bytes.size()) return fail("it numbers a value beyond all that it can have");
  const Word value = top();
  while (memo_.size() <= index) memo_.push_back(word::missing);
  memo_[index] = value;
}

Result<Tree> parse_pickle(std::string bytes) { return PickleMachine(std::move(bytes)).run(); }

}  // namespace tessera::exchange
