// SPDX-License-Identifier: Apache-2.0
#include "exchange/parse/tree_builder.h"

#include <fmt/format.h>

#include <limits>

namespace tessera::exchange {
namespace {

constexpr std::size_t times_the_file = 3, memory_anyway = std::size_t{24} << 20;
constexpr std::int64_t steps_per_byte = 8, steps_anyway = 100'000;

}  // namespace

TreeBuilder::TreeBuilder(std::size_t file_size)
    : file_size_(file_size), heap_(std::make_unique<TreeHeap>()) {
  heap_->cells.push_back(0);  // segment 0 means none
}

void TreeBuilder::fail(const char* what, Code code) {
  if (!ok()) return;
  code_ = code;
  what_ = what;
}

void TreeBuilder::check_memory(std::size_t besides) {
  if (heap_->memory() + stack_.bytes() + marks_.bytes() + besides >
      times_the_file * file_size_ + memory_anyway) {
    fail("what is in it would take more than three times its size", Code::out_of_memory);
  }
}

Result<Tree> TreeBuilder::finish(const char* which, std::size_t at) {
  heap_->root = pop();
  heap_->steps_left = steps_anyway + steps_per_byte * static_cast<std::int64_t>(file_size_);
  if (ok()) return Tree(std::move(heap_));
  return Status(code_, fmt::format("it is {}, or a damaged one: {}, at byte {} of {}", which, what_,
                                   at, file_size_));
}

TreeBuilder::Word TreeBuilder::pop() {
  const Word value = top();
  if (stack_.size() > fence()) stack_.pop_back();
  return value;
}

TreeBuilder::Word TreeBuilder::top() {
  if (stack_.size() > fence()) return stack_.back();
  fail("it takes more values than it has given");
  return word::missing;
}

std::size_t TreeBuilder::pop_mark() {
  if (marks_.empty()) {
    fail("it refers to a mark that is not there");
    return stack_.size();
  }
  const std::size_t from = marks_.back();
  marks_.pop_back();
  return from;
}

std::optional<TreeBuilder::Word> TreeBuilder::make(const TreeNode& node) {
  if (heap_->nodes.size() >= word::nodes) {
    fail("it has more than a billion values", Code::out_of_memory);
    return {};
  }
  heap_->nodes.push_back(node);
  return word::of_node(heap_->nodes.size() - 1);
}

void TreeBuilder::push_integer(std::int64_t value) {
  const bool small = value >= -word::small_end && value < word::small_end;
  const TreeNode node{.kind = TreeKind::integer, .payload = static_cast<std::uint64_t>(value)};
  push(small ? word::of_small(value) : make(node).value_or(word::missing));
}

void TreeBuilder::push_real(double value) {
  const TreeNode node{.kind = TreeKind::real, .payload = std::bit_cast<std::uint64_t>(value)};
  push(make(node).value_or(word::missing));
}

void TreeBuilder::push_text(std::string_view in_bytes) {
  if (in_bytes.size() > std::numeric_limits<std::uint32_t>::max()) {
    return fail("a text has more than 4 GB", Code::out_of_memory);
  }
  const auto where =
      in_bytes.empty() ? 0 : static_cast<std::uint64_t>(in_bytes.data() - heap_->bytes.data());
  const TreeNode node{.kind = TreeKind::text,
                      .first = static_cast<std::uint32_t>(in_bytes.size()),
                      .payload = where};
  push(make(node).value_or(word::missing));
}

void TreeBuilder::push_owned(std::string_view text) {
  const TreeNode node{.kind = TreeKind::text, .owned = true, .payload = heap_->texts.size()};
  heap_->texts.emplace_back(text);
  heap_->text_bytes += heap_->texts.back().capacity() + 2 * sizeof(std::string);
  push(make(node).value_or(word::missing));
}

void TreeBuilder::push_empty(TreeKind kind) { push(make({.kind = kind}).value_or(word::missing)); }

void TreeBuilder::push_container(TreeKind kind, std::size_t from) {
  const Word container = make({.kind = kind}).value_or(word::missing);
  append(container, kind, from);
  push(container);
}

void TreeBuilder::push_object(Word module, Word name, Word arguments) {
  const auto first = static_cast<std::uint32_t>(heap_->cells.size());
  for (const Word cell : {module, name, arguments, word::missing, word::missing}) {
    heap_->cells.push_back(cell);
  }
  push(make({.kind = TreeKind::object, .first = first}).value_or(word::missing));
}

TreeNode* TreeBuilder::filled(Word container, TreeKind kind) {
  const TreeNode* node = heap_->node(container);
  if (node != nullptr && node->kind == TreeKind::object) {
    const std::size_t cell = node->first + items_cell;
    if (heap_->cells[cell] == word::missing) {
      heap_->cells[cell] = make({.kind = kind}).value_or(word::missing);
    }
    container = heap_->cells[cell];
    node = heap_->node(container);
  }
  if (node != nullptr && node->kind == kind) return &heap_->nodes[word::index_of(container)];
  fail(kind == TreeKind::dict ? "it sets a key of what is no dict"
                              : "it adds an entry to what is no list");
  return nullptr;
}

void TreeBuilder::append(Word container, TreeKind kind, std::size_t from) {
  const std::size_t count = stack_.size() - from;
  const std::size_t per_entry = kind == TreeKind::dict ? 2 : 1;
  if (count % per_entry != 0) fail("a dict has a key without a value");
  Blocks<Word>& cells = heap_->cells;
  if (cells.size() + count + 2 > std::numeric_limits<Word>::max()) {
    fail("it has more than four billion entries", Code::out_of_memory);
  }
  TreeNode* const node = filled(container, kind);
  if (node != nullptr && count > 0 && ok()) {
    const auto tail = static_cast<Word>(node->payload);
    if (node->first != 0 && tail + 2 + cells[tail + 1] == cells.size()) {
      cells[tail + 1] += static_cast<Word>(count);
    } else {
      const auto segment = static_cast<Word>(cells.size());
      (node->first == 0 ? node->first : cells[tail]) = segment;
      node->payload = (node->payload >> 32 << 32) | segment;
      cells.push_back(0);
      cells.push_back(static_cast<Word>(count));
    }
    for (std::size_t i = from; i < stack_.size(); ++i) cells.push_back(stack_[i]);
    node->payload += static_cast<std::uint64_t>(count / per_entry) << 32;
  }
  stack_.truncate(from);
}

}  // namespace tessera::exchange
