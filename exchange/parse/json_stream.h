// SPDX-License-Identifier: Apache-2.0
// A JSON file that is larger than memory, value by value.
//
//   JsonStream stream(source);
//   TESSERA_TRY(stream.begin());
//   TESSERA_TRY(stream.value([&](JsonCursor& at) { return read_event(at); }));
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "exchange/parse/json_cursor.h"
#include "exchange/parse/source_file.h"

namespace tessera::exchange {

class JsonStream {
 public:
  /// `value_max`: bytes of a value, at least a MiB.
  explicit JsonStream(SourceFile& source, std::size_t value_max = std::size_t{64} << 20)
      : source_(source), value_max_(value_max), buffer_(first_size) {}

  /// The next character that is no space; 0 at the end of the file.
  Result<char> peek();
  /// Passes over it.
  void skip_char() { ++at_; }

  /// Calls `parse` (JsonCursor& -> bool) with one whole value; it is called again with more text if
  /// the value was not whole. Fails: corrupt (parse returned false, the file ends inside a value),
  /// out_of_memory (a value of more than `value_max`), and as the file.
  template <class Parse>
  Status value(Parse parse) {
    cut_off_ = false;
    while (true) {
      JsonCursor cursor(rest());
      const bool good = parse(cursor);
      if (good && !cursor.starved()) {
        at_ = static_cast<std::size_t>(cursor.at() - buffer_.data());
        return {};
      }
      if (!cursor.starved()) return broken();
      if (ended_) return cut();
      TESSERA_TRY(fill());
    }
  }

  /// The name of an object's next member; its colon is passed over. Fails: as `value`.
  Result<std::string> key();

  /// Passes over what is before the first item of the list `name` of the file's object.
  /// `member`(key, JsonCursor&) -> bool reads another member, again with more text if it was not
  /// whole. Fails: invalid_argument (there is no such list), and as `value`.
  template <class Member>
  Status enter_list(std::string_view name, Member member) {
    TESSERA_ASSIGN(const char brace, peek());
    if (brace != '{') return broken();
    skip_char();
    while (true) {
      TESSERA_ASSIGN(const char next, peek());
      if (next == ',') {
        skip_char();
        continue;
      }
      if (next != '"') return lacks_list(name);
      TESSERA_ASSIGN(const std::string found, key());
      TESSERA_ASSIGN(const char first, peek());
      if (found == name && first == '[') {
        skip_char();
        return {};
      }
      TESSERA_TRY(value([&](JsonCursor& at) { return member(found, at); }));
    }
  }

  /// Passes over the rest of the line; false: there is no further one. Fails: as the file.
  Result<bool> next_line();

  /// Whether the last failure was the file's end.
  bool cut_off() const { return cut_off_; }
  /// Bytes of the content that were passed over.
  std::int64_t offset() const { return passed_ + static_cast<std::int64_t>(at_); }
  Status broken() const;

 private:
  static constexpr std::size_t first_size = 1 << 20;

  std::string_view rest() const { return {buffer_.data() + at_, filled_ - at_}; }
  Status fill();
  Status cut();
  Status lacks_list(std::string_view name) const;

  SourceFile& source_;
  const std::size_t value_max_;
  std::vector<char> buffer_;
  std::size_t at_ = 0, filled_ = 0;
  std::int64_t passed_ = 0;
  bool ended_ = false, cut_off_ = false;
};

}  // namespace tessera::exchange
