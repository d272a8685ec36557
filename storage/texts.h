// SPDX-License-Identifier: Apache-2.0
// The texts of a trace by their numbers, read once: a row has up to four, and a trace has very many
// rows of the same few.
#pragma once

#include <cstdint>
#include <string>
#include <unordered_map>

#include "storage/database.h"

namespace tessera::storage {

class Texts {
 public:
  Status read(const Database& database) {
    TESSERA_ASSIGN(Statement rows, database.prepare("SELECT id, text FROM string"));
    for (;;) {
      TESSERA_ASSIGN(const bool row, rows.next());
      if (!row) return {};
      if (rows.type(0) == SQLITE_INTEGER && rows.type(1) == SQLITE_TEXT) {
        by_id_.emplace(rows.integer(0), rows.text(1));
      }
    }
  }
  /// nullptr: there is none, or it is no text.
  const std::string* find(std::int64_t id) const {
    const auto found = by_id_.find(id);
    return found == by_id_.end() ? nullptr : &found->second;
  }

 private:
  std::unordered_map<std::int64_t, std::string> by_id_;
};

}  // namespace tessera::storage
