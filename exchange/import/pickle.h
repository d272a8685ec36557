// SPDX-License-Identifier: Apache-2.0
// Python's pickles, read as data: nothing in them is ever called.
//
// The idea: a pickle is a program for a small stack machine, protocols 0 to 5 of which Python's
// `pickletools` documents. Its numbers, texts and containers become values. What would import a
// name or call it becomes an `object` that only remembers name, arguments and state. Values are 4
// bytes each and texts stay where they are in the file, so that a tree takes no more than three
// times the file.
//
//   TESSERA_ASSIGN(const Pickle pickle, Pickle::parse(bytes));
//   for (PickleItems entries(pickle.root()["entries"]); entries.next();) {
//     use(entries.value()["time_us"].integer());
//   }
//
// Containers may be shared and may contain themselves: who follows values has to know how deep.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "tessera/status.h"

namespace tessera::exchange {

enum class PickleKind : std::uint8_t {
  missing,  // asked for, but not there
  none,
  boolean,
  integer,
  real,
  text,  // str or bytes
  list,  // list, tuple, set or frozenset
  dict,
  object,  // a name, or what calling it would give
};

struct PickleHeap;

/// One value: a view, valid as long as its `Pickle`.
class PickleValue {
 public:
  PickleValue() = default;

  PickleKind kind() const;
  bool is(PickleKind kind) const { return this->kind() == kind; }
  bool present() const { return kind() != PickleKind::missing && kind() != PickleKind::none; }

  /// Integers, booleans and, rounded towards zero, reals; beyond 64 bits the nearest that fits.
  std::int64_t integer(std::int64_t otherwise = 0) const;
  double real(double otherwise = 0) const;
  /// Valid as long as the pickle.
  std::string_view text() const;
  /// Entries of a list or dict, also of an object that was filled like one.
  std::int64_t size() const;
  /// A dict's value, also of an object's items or state. Records have few keys: looks at the first
  /// 256 only, whatever a file has.
  PickleValue operator[](std::string_view key) const;
  /// An entry of a list; takes a step for each thousand before it.
  PickleValue at(std::int64_t index) const;
  /// An object's name, "module.name"; "" if there is none.
  std::string name() const;
  /// What an object was made from; missing for a mere name.
  PickleValue arguments() const;
  /// Equal for values that are one object in Python: lists and dicts that are shared.
  std::uint32_t identity() const { return word_; }

 private:
  friend class Pickle;
  friend class PickleItems;
  PickleValue(const PickleHeap* heap, std::uint32_t word) : heap_(heap), word_(word) {}

  const PickleHeap* heap_ = nullptr;
  std::uint32_t word_ = 0;
};

/// The entries of a list, or those of a dict with their keys; none of other values. All iterations
/// of one pickle together end after a number of entries that its size allows, so that containers
/// which contain one another a thousandfold cost nothing: see `Pickle::exhausted`.
class PickleItems {
 public:
  explicit PickleItems(PickleValue container);
  bool next();
  PickleValue key() const { return {heap_, key_}; }
  PickleValue value() const { return {heap_, value_}; }

 private:
  bool word(std::uint32_t& word);

  const PickleHeap* heap_ = nullptr;
  bool dict_ = false;
  std::uint32_t segment_ = 0, at_ = 0;
  std::uint32_t key_ = 0, value_ = 0;
};

class Pickle {
 public:
  /// Takes the bytes of a file. Fails: corrupt, with the place; not_supported for buffers out of
  /// band; out_of_memory for a tree that would take more than three times the file and 24 MB.
  static Result<Pickle> parse(std::string bytes);

  Pickle(Pickle&&) noexcept;
  Pickle& operator=(Pickle&&) noexcept;
  ~Pickle();

  PickleValue root() const;
  /// An iteration was cut short: the pickle has more in it than its size can have.
  bool exhausted() const;
  /// Bytes that the tree takes, without the file's own.
  std::int64_t memory() const;

 private:
  explicit Pickle(std::unique_ptr<PickleHeap> heap);
  std::unique_ptr<PickleHeap> heap_;
};

}  // namespace tessera::exchange
