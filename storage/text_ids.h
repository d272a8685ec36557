// SPDX-License-Identifier: Apache-2.0
// Numbers of texts, in the order in which they first come.
//
// The idea: nearly every text was there before, and there are so many that none is in a cache. So
// a look-up goes to one place of a table of hashes and from there to the text, one behind the other
// in blocks that never move.
#pragma once

#include <algorithm>
#include <cstdint>
#include <functional>
#include <memory>
#include <string_view>
#include <utility>
#include <vector>

namespace tessera::storage {

class TextIds {
 public:
  /// The text's number, and whether it is new.
  std::pair<std::int32_t, bool> add(std::string_view text) {
    if (2 * (texts_.size() + 1) > places_.size()) grow();
    const std::size_t hash = std::hash<std::string_view>{}(text);
    std::size_t at = hash & (places_.size() - 1);
    while (places_[at].id >= 0) {
      const Place& place = places_[at];
      if (place.hash == hash && texts_[static_cast<std::size_t>(place.id)] == text) {
        return {place.id, false};
      }
      at = (at + 1) & (places_.size() - 1);
    }
    const auto id = static_cast<std::int32_t>(texts_.size());
    places_[at] = {hash, id};
    texts_.push_back(kept(text));
    return {id, true};
  }

 private:
  struct Place {
    std::size_t hash = 0;
    std::int32_t id = -1;  // none
  };
  static constexpr std::size_t block_size = 64 << 10;

  void grow() {
    std::vector<Place> old(places_.empty() ? 64 : 2 * places_.size());
    std::swap(places_, old);
    for (const Place& place : old) {
      if (place.id < 0) continue;
      std::size_t at = place.hash & (places_.size() - 1);
      while (places_[at].id >= 0) at = (at + 1) & (places_.size() - 1);
      places_[at] = place;
    }
  }

  std::string_view kept(std::string_view text) {
    if (text.size() > left_) {
      left_ = std::max(block_size, text.size());
      blocks_.push_back(std::make_unique<char[]>(left_));
      next_ = blocks_.back().get();
    }
    char* const to = next_;
    std::copy(text.begin(), text.end(), to);
    next_ += text.size();
    left_ -= text.size();
    return {to, text.size()};
  }

  std::vector<Place> places_;            // as many as a power of two, at most half of them taken
  std::vector<std::string_view> texts_;  // by number
  std::vector<std::unique_ptr<char[]>> blocks_;
  char* next_ = nullptr;  // in the last block
  std::size_t left_ = 0;
};

}  // namespace tessera::storage
