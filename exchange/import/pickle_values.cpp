// SPDX-License-Identifier: Apache-2.0
// How values of pickles are made.
#include <limits>

#include "exchange/import/pickle_machine.h"

namespace tessera::exchange {

std::optional<PickleMachine::Word> PickleMachine::make(const PickleNode& node) {
  if (heap_.nodes.size() >= word::nodes) {
    fail("it has more than a billion values", Code::out_of_memory);
    return {};
  }
  heap_.nodes.push_back(node);
  return word::of_node(heap_.nodes.size() - 1);
}

void PickleMachine::push_integer(std::int64_t value) {
  const bool small = value >= -word::small_end && value < word::small_end;
  const PickleNode node{.kind = PickleKind::integer, .payload = static_cast<std::uint64_t>(value)};
  push(small ? word::of_small(value) : make(node).value_or(word::missing));
}

void PickleMachine::push_real(double value) {
  const PickleNode node{.kind = PickleKind::real, .payload = std::bit_cast<std::uint64_t>(value)};
  push(make(node).value_or(word::missing));
}

void PickleMachine::push_text(std::string_view in_bytes) {
  if (in_bytes.size() > std::numeric_limits<std::uint32_t>::max()) {
    return fail("a text has more than 4 GB", Code::out_of_memory);
  }
  const auto where =
      in_bytes.empty() ? 0 : static_cast<std::uint64_t>(in_bytes.data() - heap_.bytes.data());
  const PickleNode node{.kind = PickleKind::text,
                        .first = static_cast<std::uint32_t>(in_bytes.size()),
                        .payload = where};
  push(make(node).value_or(word::missing));
}

void PickleMachine::push_owned(std::string text) {
  heap_.text_bytes += text.capacity() + 2 * sizeof(std::string);
  const PickleNode node{.kind = PickleKind::text, .owned = true, .payload = heap_.texts.size()};
  heap_.texts.push_back(std::move(text));
  push(make(node).value_or(word::missing));
}

void PickleMachine::push_empty(PickleKind kind) {
  push(make({.kind = kind}).value_or(word::missing));
}

void PickleMachine::push_container(PickleKind kind, std::size_t from) {
  const Word container = make({.kind = kind}).value_or(word::missing);
  append(container, kind, from);
  push(container);
}

void PickleMachine::push_object(Word module, Word name, Word arguments) {
  const auto first = static_cast<std::uint32_t>(heap_.cells.size());
  for (const Word cell : {module, name, arguments, word::missing, word::missing}) {
    heap_.cells.push_back(cell);
  }
  push(make({.kind = PickleKind::object, .first = first}).value_or(word::missing));
}

PickleNode* PickleMachine::filled(Word container, PickleKind kind) {
  const PickleNode* node = heap_.node(container);
  if (node != nullptr && node->kind == PickleKind::object) {
    const std::size_t cell = node->first + items_cell;
    if (heap_.cells[cell] == word::missing) {
      heap_.cells[cell] = make({.kind = kind}).value_or(word::missing);
    }
    container = heap_.cells[cell];
    node = heap_.node(container);
  }
  if (node != nullptr && node->kind == kind) return &heap_.nodes[word::index_of(container)];
  fail(kind == PickleKind::dict ? "it sets a key of what is no dict"
                                : "it adds an entry to what is no list");
  return nullptr;
}

void PickleMachine::append(Word container, PickleKind kind, std::size_t from) {
  const std::size_t count = stack_.size() - from;
  const std::size_t per_entry = kind == PickleKind::dict ? 2 : 1;
  if (count % per_entry != 0) fail("a dict has a key without a value");
  Blocks<Word>& cells = heap_.cells;
  if (cells.size() + count + 2 > std::numeric_limits<Word>::max()) {
    fail("it has more than four billion entries", Code::out_of_memory);
  }
  PickleNode* const node = filled(container, kind);
  if (node != nullptr && count > 0 && status_.ok()) {
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
