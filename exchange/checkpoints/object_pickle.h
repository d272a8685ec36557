// SPDX-License-Identifier: Apache-2.0
// Pickles of Python objects, opcode by opcode: what is called is a name, nothing is called here.
// What each opcode does: https://github.com/python/cpython/blob/main/Lib/pickletools.py
#pragma once

#include <vector>

#include "exchange/export/pickle_writer.h"

namespace tessera::exchange {

class ObjectPickle : public PickleWriter {
 public:
  void name(std::string_view module, std::string_view name) {
    bytes_.append("c").append(module).append("\n").append(name).append("\n");
  }
  void mark() { bytes_ += '('; }
  void tuple() { bytes_ += 't'; }  // of what is above the mark
  void empty_tuple() { bytes_ += ')'; }
  void call() { bytes_ += 'R'; }  // name and tuple
  /// An object of a class that is given by `name`, whose attributes are a dict that follows.
  void make() { bytes_ += ")\x81"; }
  void attributes() { bytes_ += 'b'; }
  void persistent() { bytes_ += 'Q'; }  // of a tuple

  void numbers(const std::vector<std::int64_t>& values) {
    mark();
    for (const std::int64_t value : values) number(value);
    tuple();
  }
  void torch_size(const std::vector<std::int64_t>& values) {
    name("torch", "Size");
    mark();
    numbers(values);
    tuple();
    call();
  }
};

}  // namespace tessera::exchange
