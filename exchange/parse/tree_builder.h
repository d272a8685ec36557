// SPDX-License-Identifier: Apache-2.0
// How trees are made: values are pushed on a stack, and containers take them from there.
//
// The idea: readers tell values in the order in which they meet them and make no decisions about
// memory; what a file must not do is found here, remembered, and told once at the end.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "exchange/parse/tree_heap.h"

namespace tessera::exchange {

class TreeBuilder {
 public:
  using Word = std::uint32_t;

  explicit TreeBuilder(std::size_t file_size);

  /// What is wrong, as the end of a sentence. The first one counts; after it calls do no harm.
  void fail(const char* what, Code code = Code::corrupt);
  bool ok() const { return code_ == Code::ok; }
  /// Fails, if the tree takes more than its file allows.
  void check_memory(std::size_t besides = 0);

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

  // Values.
  void push_integer(std::int64_t value);
  void push_real(double value);
  void push_text(std::string_view in_bytes);
  void push_owned(std::string_view text);
  void push_empty(TreeKind kind);
  /// Of what is on the stack from `from`, which leaves it.
  void push_container(TreeKind kind, std::size_t from);
  void push_object(Word module, Word name, Word arguments);
  /// Moves what is on the stack from `from` into a list, a dict, or an object that is like one.
  void append(Word container, TreeKind kind, std::size_t from);
  TreeHeap& heap() { return *heap_; }

  /// The tree of the last value. Fails: "`which`, or a damaged one: `what`, at byte ...".
  Result<Tree> finish(const char* which, std::size_t at);

 private:
  std::size_t fence() const { return marks_.empty() ? 0 : marks_.back(); }
  std::optional<Word> make(const TreeNode& node);
  TreeNode* filled(Word container, TreeKind kind);

  std::size_t file_size_;
  std::unique_ptr<TreeHeap> heap_;
  Code code_ = Code::ok;
  const char* what_ = "";
  Blocks<Word> stack_;
  Blocks<std::size_t> marks_;
};

}  // namespace tessera::exchange
