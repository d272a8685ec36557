// SPDX-License-Identifier: Apache-2.0
// The line that finds commands, panels, ranks, steps and units by a few letters, and does or shows
// what is chosen.
#pragma once

#include <array>
#include <functional>
#include <string>
#include <vector>

#include "inspector/render/surface.h"

namespace tessera::inspector {

class App;

class Finder {
 public:
  /// While it is open: draws the line with what fits it, and carries out what Enter or a click
  /// chooses. ↑ ↓ choose, Esc closes.
  void draw(App& app, Surface& ui);

 private:
  struct Entry {
    std::string words;
    std::string keys;  // that do the same
    std::function<void(App&, Surface&)> run;
  };
  std::vector<Entry> matches(App& app) const;
  void move_choice(const Surface& ui, std::size_t count);

  bool open_ = false;
  std::array<char, 128> text_{};
  std::size_t chosen_ = 0;
};

}  // namespace tessera::inspector
