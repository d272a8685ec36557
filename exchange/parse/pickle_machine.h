// SPDX-License-Identifier: Apache-2.0
// The stack machine of pickles without the ability to import or call anything.
// What each opcode does: https://github.com/python/cpython/blob/main/Lib/pickletools.py
#pragma once

#include <span>
#include <string>
#include <string_view>

#include "exchange/parse/tree_builder.h"

namespace tessera::exchange {

/// What opcodes do things to besides the tree: input and memo.
class PickleMachine : public TreeBuilder {
 public:
  explicit PickleMachine(std::string bytes);
  Result<Tree> run();
  void stop() { stopped_ = true; }

  // Input. Nothing if there is not enough.
  std::string_view take(std::uint64_t count);
  std::string_view line();
  std::uint64_t number(std::size_t bytes);  // little endian

  // The memo.
  void fetch(std::uint64_t index);
  void store(std::uint64_t index);
  std::size_t memo_size() const { return memo_.size(); }

 private:
  std::size_t at_ = 0;
  bool stopped_ = false;
  Blocks<Word> memo_;
};

struct PickleOpcode {
  unsigned char code = 0;
  void (*run)(PickleMachine& machine) = nullptr;
};
std::span<const PickleOpcode> pickle_value_opcodes();
std::span<const PickleOpcode> pickle_container_opcodes();
std::span<const PickleOpcode> pickle_object_opcodes();

}  // namespace tessera::exchange
