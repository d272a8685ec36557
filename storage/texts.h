// SPDX-License-Identifier: Apache-2.0
// The texts of a trace by their numbers, read once: a row has up to four, and a trace has very many
// rows of the same few.
#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "storage/database.h"

namespace tessera::storage {

class Texts {
 public:
  Status read(const Database& database) {
    TESSERA_ASSIGN(Statement rows, database.prepare("SELECT id, text FROM string ORDER BY id"));
    for (;;) {
      TESSERA_ASSIGN(const bool row, rows.next());
      if (!row) return {};
      if (rows.type(0) != SQLITE_INTEGER || rows.type(1) != SQLITE_TEXT) continue;
      all_ += rows.text(1);
      places_.push_back({rows.integer(0), all_.size()});
    }
  }
  /// Nothing: there is none, or it is no text.
  std::optional<std::string_view> find(std::int64_t id) const {
    // A recording counts them from 0.
    auto at = places_.begin() + std::clamp<std::int64_t>(id, 0, std::ssize(places_));
    if (at == places_.end() || at->id != id) {
      at = std::lower_bound(
          places_.begin(), places_.end(), id,
          [](const Place& place, std::int64_t wanted) { return place.id < wanted; });
    }
    if (at == places_.end() || at->id != id) return {};
    const std::size_t begin = at == places_.begin() ? 0 : std::prev(at)->end;
    return std::string_view(all_).substr(begin, at->end - begin);
  }

 private:
  struct Place {
    std::int64_t id;
    std::size_t end;  // of its text in all_
  };

  std::string all_;  // one behind the other
  std::vector<Place> places_;
};

}  // namespace tessera::storage
