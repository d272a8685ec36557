// SPDX-License-Identifier: Apache-2.0
// Writes Python's pickles, protocol 2: numbers, texts, lists and dicts.
//
//   PickleWriter pickle;
//   pickle.begin_dict();
//   pickle.text("size"); pickle.number(512);
//   pickle.end_dict();
//   pickle.finish();
#pragma once

#include <bit>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>

namespace tessera::exchange {

class PickleWriter {
 public:
  PickleWriter() : bytes_("\x80\x02") {}

  void number(std::int64_t value) {
    if (value == static_cast<std::int32_t>(value)) {
      bytes_ += 'J';
      little(static_cast<std::uint64_t>(value), 4);
    } else {
      bytes_ += "\x8a\x08";
      little(static_cast<std::uint64_t>(value), 8);
    }
  }
  void real(double value) {
    const auto bits = std::bit_cast<std::uint64_t>(value);
    bytes_ += 'G';
    for (int i = 7; i >= 0; --i) bytes_ += static_cast<char>(bits >> (8 * i) & 0xFF);
  }
  void boolean(bool value) { bytes_ += value ? '\x88' : '\x89'; }
  /// REQUIRES: UTF-8.
  void text(std::string_view value) {
    bytes_ += 'X';
    little(value.size(), 4);
    bytes_.append(value);
  }
  void begin_dict() { bytes_ += "}("; }  // keys and values, in turn
  void end_dict() { bytes_ += 'u'; }
  void begin_list() { bytes_ += "]("; }
  void end_list() { bytes_ += 'e'; }
  void finish() { bytes_ += '.'; }

  void member(std::string_view key, std::int64_t value) {
    text(key);
    number(value);
  }
  void member(std::string_view key, std::string_view value) {
    text(key);
    text(value);
  }

  /// What was written since the last call.
  std::string take() { return std::exchange(bytes_, {}); }

 private:
  void little(std::uint64_t value, int size) {
    for (int i = 0; i < size; ++i) bytes_ += static_cast<char>(value >> (8 * i) & 0xFF);
  }

 protected:
  std::string bytes_;
};

}  // namespace tessera::exchange
