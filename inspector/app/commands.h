// SPDX-License-Identifier: Apache-2.0
// All that can be done by a key: one row each, from which keys, the help page, the palette of
// commands and scripts follow.
//
//   for (const Command& command : commands()) print(keys_text(command), command.title);
#pragma once

#include <span>
#include <string>
#include <string_view>

#include "inspector/render/surface.h"

namespace tessera::inspector {

class App;

struct Command {
  const char* name;                              // for scripts: "rank/next"
  const char* title;                             // "open the rank below"
  int key;                                       // GLFW's code; 0: none
  int mods = 0;                                  // GLFW's bits
  bool repeats = false;                          // again and again while the key is held
  void (*run)(App& app, Surface& ui) = nullptr;  // nullptr: lasts as long as the key is held
};

std::span<const Command> commands();
/// nullptr: there is none of that name.
const Command* find_command(std::string_view name);
/// "Ctrl+P", "W", "↑".
std::string keys_text(const Command& command);

/// A gesture of the mouse, for the help page.
struct MouseHabit {
  const char* gesture;
  const char* meaning;
};
std::span<const MouseHabit> mouse_habits();

}  // namespace tessera::inspector
