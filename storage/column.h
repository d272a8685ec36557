// SPDX-License-Identifier: Apache-2.0
// The elements of a list of records.h: columns, and the key that orders rows.
#pragma once

#include <cstdint>

namespace tessera::storage {

/// A column: `member` is a pointer to a field of the record.
template <class Member>
struct Column {
  const char* name;
  Member member;
  const char* unit;  // "" for what is counted or has none
  const char* doc;
  bool interned = false;  // a text that is often the same: the number of a row of `string`
  bool hashed = true;     // part of the content hash by itself
  bool later = false;     // files may lack it: it is then as the record has it by default
};

template <class Member>
constexpr Column<Member> column(const char* name, Member member, const char* unit,
                                const char* doc) {
  return {name, member, unit, doc};
}
template <class Member>
constexpr Column<Member> interned(const char* name, Member member, const char* doc) {
  return {name, member, "", doc, true};
}
template <class Member>
constexpr Column<Member> unhashed(const char* name, Member member, const char* doc) {
  return {name, member, "", doc, false, false};
}
/// A value that an older file lacks enters the hash only where a row differs from 0 or "", so that
/// traces that do not use it keep their hash.
template <class Member>
constexpr Column<Member> later(Column<Member> column) {
  column.hashed = false;
  column.later = true;
  return column;
}

/// The columns that make a row unique, and the order in which rows are read.
enum class Key : std::uint8_t {
  none,     // one row
  first,    // the first column
  two,      // the first two columns
  three,    // the first three columns
  arrival,  // `id`, from 1 in the order of writing, which is in no record
};

/// The list of a record: `table`, `key`, `columns`, and `unlisted`, the fields that are kept
/// elsewhere or not at all.
template <class Record>
struct List;

}  // namespace tessera::storage
