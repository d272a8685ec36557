// SPDX-License-Identifier: Apache-2.0
// Writes pickles of protocol 2, opcode by opcode: what is called is a name, nothing is called here.
// What each opcode does: https://github.com/python/cpython/blob/main/Lib/pickletools.py
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace tessera::exchange {

class PickleWriter {
 public:
  PickleWriter() : out_("\x80\x02") {}

  void text(std::string_view value) {
    out_ += 'X';
    bytes(value.size(), 4);
    out_ += value;
  }
  void integer(std::int64_t value) {
    out_ += "\x8a\x08";  // 8 bytes, two's complement
    bytes(static_cast<std::uint64_t>(value), 8);
  }
  void boolean(bool value) { out_ += value ? '\x88' : '\x89'; }
  void name(std::string_view module, std::string_view name) {
    out_.append("c").append(module).append("\n").append(name).append("\n");
  }
  void mark() { out_ += '('; }
  void tuple() { out_ += 't'; }  // of what is above the mark
  void empty_tuple() { out_ += ')'; }
  void begin_dict() { out_ += "}("; }
  void end_dict() { out_ += 'u'; }
  void begin_list() { out_ += "]("; }
  void end_list() { out_ += 'e'; }
  void call() { out_ += 'R'; }  // name and tuple
  /// An object of a class that is given by `name`, whose attributes are a dict that follows.
  void make() { out_ += ")\x81"; }
  void attributes() { out_ += 'b'; }
  void persistent() { out_ += 'Q'; }  // of a tuple
  std::string finish() { return std::move(out_ += '.'); }

  void integers(const std::vector<std::int64_t>& values) {
    mark();
    for (const std::int64_t value : values) integer(value);
    tuple();
  }
  void torch_size(const std::vector<std::int64_t>& values) {
    name("torch", "Size");
    mark();
    integers(values);
    tuple();
    call();
  }

 private:
  void bytes(std::uint64_t value, int count) {
    for (int i = 0; i < count; ++i) out_ += static_cast<char>(value >> (8 * i) & 0xFF);
  }

  std::string out_;
};

}  // namespace tessera::exchange
