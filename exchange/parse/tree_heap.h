// SPDX-License-Identifier: Apache-2.0
// Where the values of a tree lie: words of 4 bytes that are small integers, constants or the
// numbers of nodes.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <string>
#include <vector>

#include "exchange/parse/tree.h"

namespace tessera::exchange {

/// A column that grows by blocks: growing copies nothing and never doubles.
template <class T>
class Blocks {
 public:
  static constexpr std::size_t per_block = std::size_t{1} << 12;

  T& operator[](std::size_t i) { return blocks_[i / per_block][i % per_block]; }
  const T& operator[](std::size_t i) const { return blocks_[i / per_block][i % per_block]; }
  std::size_t size() const { return size_; }
  bool empty() const { return size_ == 0; }
  const T& back() const { return (*this)[size_ - 1]; }
  void push_back(const T& value) {
    if (size_ == blocks_.size() * per_block) blocks_.push_back(std::make_unique<T[]>(per_block));
    (*this)[size_++] = value;
  }
  void pop_back() { --size_; }
  void truncate(std::size_t size) { size_ = size; }
  std::size_t bytes() const { return blocks_.size() * per_block * sizeof(T); }

 private:
  std::vector<std::unique_ptr<T[]>> blocks_;
  std::size_t size_ = 0;
};

/// The low two bits of a word say what the others are.
namespace word {
enum Tag : std::uint32_t { node = 0, small = 1, constant = 2 };
inline constexpr std::uint32_t missing = constant, none = 4 | constant, no = 8 | constant,
                               yes = 12 | constant;
inline constexpr std::int64_t small_end = std::int64_t{1} << 29;  // small: [-end, end)
inline constexpr std::size_t nodes = std::size_t{1} << 30;

constexpr Tag tag_of(std::uint32_t word) { return static_cast<Tag>(word & 3); }
constexpr std::size_t index_of(std::uint32_t word) { return word >> 2; }
constexpr std::uint32_t of_node(std::size_t index) {
  return static_cast<std::uint32_t>(index) << 2 | node;
}
constexpr std::uint32_t of_small(std::int64_t value) {
  return static_cast<std::uint32_t>(value) << 2 | small;
}
constexpr std::int64_t small_of(std::uint32_t word) { return static_cast<std::int32_t>(word) >> 2; }
}  // namespace word

struct TreeNode {
  TreeKind kind = TreeKind::none;
  bool owned = false;         // a text in `texts` rather than in `bytes`
  std::uint32_t first = 0;    // text: length; list, dict: the first segment; object: its cells
  std::uint64_t payload = 0;  // number: its bits; text: where; list, dict: entries << 32 | tail
};

/// What an object remembers, in cells from `TreeNode::first`.
enum ObjectCell : std::uint32_t { module_cell, name_cell, arguments_cell, state_cell, items_cell };
inline constexpr std::size_t object_cells = 5;

struct TreeHeap {
  std::string bytes;  // of a pickle: the file
  Blocks<TreeNode> nodes;
  // Entries of containers lie in segments: [next segment or 0, words in it, word, word, ...].
  Blocks<std::uint32_t> cells;
  std::deque<std::string> texts;  // what the file has not as it is: with escapes
  std::size_t text_bytes = 0;
  std::uint32_t root = word::missing;
  mutable std::int64_t steps_left = 0;  // of iterations
  mutable bool exhausted = false;

  const TreeNode* node(std::uint32_t value) const {
    return word::tag_of(value) == word::node ? &nodes[word::index_of(value)] : nullptr;
  }
  std::size_t memory() const { return nodes.bytes() + cells.bytes() + text_bytes; }
};

}  // namespace tessera::exchange
