// SPDX-License-Identifier: Apache-2.0
// The content of a small file as values: numbers, texts, lists and dicts, whether it was a pickle
// or JSON.
//
// The idea: values are 4 bytes each and live in columns, so that a tree takes no more than three
// times its file, whatever is in it. Reading a value never fails: what is not there is `missing`.
//
//   TESSERA_ASSIGN(const Tree tree, parse_pickle(bytes));
//   for (TreeItems entries(tree.root()["entries"]); entries.next();) {
//     use(entries.value()["time_us"].integer());
//   }
//
// Containers of pickles may be shared and may contain themselves: who follows values has to know
// how deep.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "tessera/status.h"

namespace tessera::exchange {

enum class TreeKind : std::uint8_t {
  missing,  // asked for, but not there
  none,
  boolean,
  integer,
  real,
  text,  // of pickles: str or bytes
  list,  // of pickles: list, tuple, set or frozenset
  dict,
  object,  // of pickles: a name, or what calling it would give
};

struct TreeHeap;

/// One value: a view, valid as long as its `Tree`.
class TreeValue {
 public:
  TreeValue() = default;

  TreeKind kind() const;
  bool is(TreeKind kind) const { return this->kind() == kind; }
  bool present() const { return kind() != TreeKind::missing && kind() != TreeKind::none; }

  /// Integers, booleans and, rounded towards zero, reals; beyond 64 bits the nearest that fits.
  std::int64_t integer(std::int64_t otherwise = 0) const;
  double real(double otherwise = 0) const;
  /// Valid as long as the tree; bytes as they are, perhaps no UTF-8.
  std::string_view text() const;
  /// Entries of a list or dict, also of an object that was filled like one.
  std::int64_t size() const;
  /// A dict's value, also of an object's items or state. Records have few keys: looks at the first
  /// 256 only, whatever a file has.
  TreeValue operator[](std::string_view key) const;
  /// An object's name, "module.name"; "" if there is none.
  std::string name() const;
  /// What an object was made from; missing for a mere name.
  TreeValue arguments() const;
  /// Equal for values that are one in Python: lists and dicts that are shared.
  std::uint32_t identity() const { return word_; }

 private:
  friend class Tree;
  friend class TreeItems;
  TreeValue(const TreeHeap* heap, std::uint32_t word) : heap_(heap), word_(word) {}

  const TreeHeap* heap_ = nullptr;
  std::uint32_t word_ = 0;
};

/// The entries of a list, or those of a dict with their keys; none of other values. All iterations
/// of one tree together end after a number of entries that its file's size allows, so that
/// containers which contain one another a thousandfold cost nothing: see `Tree::exhausted`.
class TreeItems {
 public:
  explicit TreeItems(TreeValue container);
  bool next();
  TreeValue key() const { return {heap_, key_}; }
  TreeValue value() const { return {heap_, value_}; }

 private:
  bool word(std::uint32_t& word);

  const TreeHeap* heap_ = nullptr;
  bool dict_ = false;
  std::uint32_t segment_ = 0, at_ = 0;
  std::uint32_t key_ = 0, value_ = 0;
};

class Tree {
 public:
  explicit Tree(std::unique_ptr<TreeHeap> heap);
  Tree(Tree&&) noexcept;
  Tree& operator=(Tree&&) noexcept;
  ~Tree();

  TreeValue root() const;
  /// An iteration was cut short: there is more in it than its size can have.
  bool exhausted() const;
  /// Bytes that the tree takes, without the file's own.
  std::int64_t memory() const;

 private:
  std::unique_ptr<TreeHeap> heap_;
};

}  // namespace tessera::exchange
