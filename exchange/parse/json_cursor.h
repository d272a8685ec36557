// SPDX-License-Identifier: Apache-2.0
// Reads JSON where it lies in memory, without making a tree: gigabytes of events are passed over
// once, and only the few members that somebody asks for are looked at.
//
// The idea: a cursor moves over values. Where the text ends before the value does it is `starved`,
// and whoever has more of the text starts over from the value's begin.
//
//   JsonCursor at(text);
//   for (JsonMembers members(at); members.next();) {
//     if (members.key() == "ts") at.scalar(time); else at.skip();
//   }
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>

namespace tessera::exchange {

class JsonCursor {
 public:
  explicit JsonCursor(std::string_view text) : at_(text.data()), end_(text.data() + text.size()) {}

  bool starved() const { return starved_; }
  const char* at() const { return at_; }

  /// The next character that is no space; 0: the text ended (starved).
  char peek() {
    while (at_ != end_ && (*at_ == ' ' || *at_ == '\n' || *at_ == '\t' || *at_ == '\r')) ++at_;
    if (at_ != end_) return *at_;
    starved_ = true;
    return 0;
  }
  bool take(char wanted) {
    if (peek() != wanted) return false;
    ++at_;
    return true;
  }

  /// What is between quotes, escapes as they are.
  bool string(std::string_view& raw) {
    if (!take('"')) return false;
    const char* const begin = at_;
    // Most are short, and without escapes.
    const char* const near_end = end_ - at_ > short_string ? at_ + short_string : end_;
    const char* from = at_;
    while (from != near_end && *from != '"' && *from != '\\') ++from;
    if (from != near_end && *from == '"') {
      raw = {begin, static_cast<std::size_t>(from - begin)};
      at_ = from + 1;
      return true;
    }
    while (true) {
      const auto left = static_cast<std::size_t>(end_ - from);
      const auto* quote = static_cast<const char*>(std::memchr(from, '"', left));
      if (quote == nullptr) return starve();
      const char* before = quote;
      while (before != begin && before[-1] == '\\') --before;
      from = quote + 1;
      if ((quote - before) % 2 == 1) continue;
      raw = {begin, static_cast<std::size_t>(quote - begin)};
      at_ = from;
      return true;
    }
  }

  /// A number, true, false or null, or the inside of a string.
  bool scalar(std::string_view& raw) {
    if (peek() == '"') return string(raw);
    const char* const begin = at_;
    while (at_ != end_ && !is_end(*at_)) ++at_;
    if (at_ == end_) return starve();
    raw = {begin, static_cast<std::size_t>(at_ - begin)};
    return !raw.empty();
  }

  /// Any value; however deep, it needs no more room.
  bool skip() {
    std::string_view ignored;
    if (const char first = peek(); first != '{' && first != '[') return scalar(ignored);
    std::int64_t depth = 0;
    while (at_ != end_) {
      const char c = *at_;
      if (c == '"') {
        if (!string(ignored)) return false;
        continue;
      }
      ++at_;
      if (c == '{' || c == '[') ++depth;
      if ((c == '}' || c == ']') && --depth == 0) return true;
    }
    return starve();
  }

  /// The text of a value, passing over it.
  bool raw(std::string_view& text) {
    if (peek() == 0) return false;
    const char* const begin = at_;
    if (!skip()) return false;
    text = {begin, static_cast<std::size_t>(at_ - begin)};
    return true;
  }

 private:
  static constexpr std::ptrdiff_t short_string = 24;
  static constexpr std::array<bool, 256> ends = [] {
    std::array<bool, 256> table{};
    for (const char c : std::string_view(",}] \n\r\t{[\":"))
      table[static_cast<std::uint8_t>(c)] = true;
    return table;
  }();
  static bool is_end(char c) { return ends[static_cast<std::uint8_t>(c)]; }
  bool starve() {
    starved_ = true;
    return false;
  }

  const char* at_;
  const char* end_;
  bool starved_ = false;
};

/// The members of an object; whoever takes one passes over its value.
class JsonMembers {
 public:
  explicit JsonMembers(JsonCursor& cursor) : cursor_(cursor), good_(cursor.take('{')) {}

  bool next() {
    if (!good_ || over_) return false;
    if (!first_ && cursor_.peek() == ',') cursor_.take(',');
    first_ = false;
    if (cursor_.peek() == '}') {
      cursor_.take('}');
      over_ = true;
      return false;
    }
    good_ = cursor_.string(key_) && cursor_.take(':');
    return good_;
  }
  std::string_view key() const { return key_; }
  /// All members were read: the object is whole.
  bool whole() const { return over_; }
  /// A value that is not what it should be ends the object.
  void fail() { good_ = false; }

 private:
  JsonCursor& cursor_;
  std::string_view key_;
  bool good_, over_ = false, first_ = true;
};

/// The text that a raw string stands for.
std::string unescaped(std::string_view raw);

/// A decimal number with up to `places` digits behind the point counted in: microseconds with three
/// of them are nanoseconds. Saturates; 0 for what is no number.
std::int64_t decimal(std::string_view raw, int places);

}  // namespace tessera::exchange
