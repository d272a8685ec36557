// SPDX-License-Identifier: Apache-2.0
// The stack machine of pickles, protocols 0 to 5, without the ability to import or call anything.
// What each opcode does: https://github.com/python/cpython/blob/main/Lib/pickletools.py
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "exchange/import/pickle_heap.h"

namespace tessera::exchange {

/// What opcodes do things to: input, stack with marks, memo and heap. After a failure it goes on
/// with what makes no harm, and `run` ends.
class PickleMachine {
 public:
  using Word = std::uint32_t;

  explicit PickleMachine(PickleHeap& heap);
  /// Fills the heap. Fails as `Pickle::parse`.
  Status run();
  void fail(std::string what, Code code = Code::corrupt);
  void stop() { stopped_ = true; }

  // Input. Nothing if there is not enough.
  std::string_view take(std::uint64_t count);
  std::string_view line();
  std::uint64_t number(std::size_t bytes);  // little endian

  // The stack. Marks fence off what lies below them.
  void push(Word value) { stack_.push_back(value); }
  Word pop();
  Word top();
  void mark() { marks_.push_back(stack_.size()); }
  /// Where the values above the last mark begin.
  std::size_t pop_mark();
  bool at_mark() const { return !marks_.empty() && marks_.back() == stack_.size(); }
  std::size_t above_mark() const { return stack_.size() - fence(); }
  std::size_t depth() const { return stack_.size(); }
  Word value_at(std::size_t place) const { return stack_[place]; }
  void truncate(std::size_t depth) { stack_.truncate(depth); }

  // The memo.
  void fetch(std::uint64_t index);
  void store(std::uint64_t index);
  std::size_t memo_size() const { return memo_.size(); }

  // Values.
  void push_integer(std::int64_t value);
  void push_real(double value);
  void push_text(std::string_view in_bytes);
  void push_owned(std::string text);
  void push_empty(PickleKind kind);
  /// Of what is on the stack from `from`, which leaves it.
  void push_container(PickleKind kind, std::size_t from);
  void push_object(Word module, Word name, Word arguments);
  /// Moves what is on the stack from `from` into a list, a dict, or an object that is like one.
  void append(Word container, PickleKind kind, std::size_t from);
  PickleHeap& heap() { return heap_; }

 private:
  std::size_t fence() const { return marks_.empty() ? 0 : marks_.back(); }
  std::optional<Word> make(const PickleNode& node);
  PickleNode* filled(Word container, PickleKind kind);

  PickleHeap& heap_;
  std::size_t at_ = 0;
  bool stopped_ = false;
  Status status_;
  Blocks<Word> stack_, memo_;
  Blocks<std::size_t> marks_;
};

struct PickleOpcode {
  unsigned char code = 0;
  void (*run)(PickleMachine& machine) = nullptr;
};
std::span<const PickleOpcode> pickle_value_opcodes();
std::span<const PickleOpcode> pickle_container_opcodes();
std::span<const PickleOpcode> pickle_object_opcodes();

}  // namespace tessera::exchange
