// SPDX-License-Identifier: Apache-2.0
#include "inspector/app/commands.h"

#include <GLFW/glfw3.h>

#include <algorithm>

#include "inspector/app/app.h"

namespace tessera::inspector {
namespace {

void other_theme(App&, Surface& ui) {
  ui.wish.kind = ui.wish.kind == ThemeKind::dark ? ThemeKind::light : ThemeKind::dark;
}

void scale_by(Surface& ui, float factor) { ui.wish.zoom = ui.wish.zoom * factor; }

constexpr float scale_step = 1.1F;

constexpr Command table_of_commands[] = {
    {"zoom/in", "zoom in at the cursor", GLFW_KEY_W},
    {"zoom/out", "zoom out at the cursor", GLFW_KEY_S},
    {"pan/left", "earlier; Shift: faster", GLFW_KEY_A},
    {"pan/right", "later; Shift: faster", GLFW_KEY_D},
    {"rank/previous", "open the rank above", GLFW_KEY_UP, 0, true,
     [](App& app, Surface&) { app.step_rank(-1); }},
    {"rank/next", "open the rank below", GLFW_KEY_DOWN, 0, true,
     [](App& app, Surface&) { app.step_rank(1); }},
    {"span/previous", "select the operation before", GLFW_KEY_LEFT, 0, true,
     [](App& app, Surface&) { app.step_span(-1); }},
    {"span/next", "select the operation after", GLFW_KEY_RIGHT, 0, true,
     [](App& app, Surface&) { app.step_span(1); }},
    {"match/next", "the next operation that was searched for", GLFW_KEY_N, 0, true,
     [](App& app, Surface&) { app.step_match(1); }},
    {"match/previous", "the one before", GLFW_KEY_N, GLFW_MOD_SHIFT, true,
     [](App& app, Surface&) { app.step_match(-1); }},
    {"pin", "the opened rank's row on top, or not", GLFW_KEY_P, 0, false,
     [](App& app, Surface&) { app.state().pin_rank(); }},
    {"flow/cause", "select what it waited for", GLFW_KEY_LEFT_BRACKET, 0, false,
     [](App& app, Surface&) { app.select_cause(); }},
    {"flow/use", "select what first waited for it", GLFW_KEY_RIGHT_BRACKET, 0, false,
     [](App& app, Surface&) { app.select_use(); }},
    {"frame", "frame the selection, again: the step in view", GLFW_KEY_F, 0, false,
     [](App& app, Surface&) { app.frame_selection(); }},
    {"run", "show the whole run", GLFW_KEY_HOME, 0, false,
     [](App& app, Surface&) { app.state().time.show(0, app.model().info().end); }},
    {"step/previous", "show the step before", GLFW_KEY_COMMA, 0, true,
     [](App& app, Surface&) { app.step_step(-1); }},
    {"step/next", "show the step after", GLFW_KEY_PERIOD, 0, true,
     [](App& app, Surface&) { app.step_step(1); }},
    {"follow", "follow the end of a running recording, or stand still", GLFW_KEY_L, 0, false,
     [](App& app, Surface&) { app.follow(!app.follows()); }},
    {"path", "critical path in the timeline", GLFW_KEY_C, 0, false,
     [](App& app, Surface&) { app.state().show_path = !app.state().show_path; }},
    {"note", "a note at the cursor", GLFW_KEY_M, 0, false,
     [](App& app, Surface&) { app.add_note(); }},
    {"layout/details", "details beside the timeline, or not", GLFW_KEY_H, 0, false,
     [](App& app, Surface&) {
       app.state().layout.hides_details = !app.state().layout.hides_details;
     }},
    {"layout/memory", "memory below the timeline, or not", GLFW_KEY_J, 0, false,
     [](App& app, Surface&) {
       app.state().layout.hides_memory = !app.state().layout.hides_memory;
     }},
    {"split", "a second panel, or one alone", GLFW_KEY_BACKSLASH, 0, false,
     [](App& app, Surface&) { SecondPanel::toggle(app.state()); }},
    {"split/turn", "the second panel below the first, or beside it", GLFW_KEY_BACKSLASH,
     GLFW_MOD_SHIFT, false,
     [](App& app, Surface&) { app.state().layout.below = !app.state().layout.below; }},
    {"split/exchange", "exchange the two panels", GLFW_KEY_X, 0, false,
     [](App& app, Surface&) { SecondPanel::exchange(app.state()); }},
    {"back", "back to what was shown before", GLFW_KEY_LEFT, GLFW_MOD_ALT, true,
     [](App& app, Surface&) { app.history().back(app.state()); }},
    {"forward", "forward again", GLFW_KEY_RIGHT, GLFW_MOD_ALT, true,
     [](App& app, Surface&) { app.history().forward(app.state()); }},
    {"copy", "copy the selected operation as text", GLFW_KEY_C, GLFW_MOD_CONTROL, false,
     [](App& app, Surface&) { app.take_along().copy_text(app.model(), app.state()); }},
    {"copy/sql", "copy a query in SQL that has it", GLFW_KEY_C, GLFW_MOD_CONTROL | GLFW_MOD_SHIFT,
     false, [](App& app, Surface&) { app.take_along().copy_sql(app.state()); }},
    {"picture", "save a picture of the window beside the trace", GLFW_KEY_S, GLFW_MOD_CONTROL,
     false,
     [](App& app, Surface& ui) { app.take_along().save_picture(ui, app.model(), app.state()); }},
    {"palette", "find a command, a rank, a unit or a step", GLFW_KEY_P, GLFW_MOD_CONTROL, false,
     [](App& app, Surface&) { app.state().show_palette = !app.state().show_palette; }},
    {"find", "the same", GLFW_KEY_SLASH, 0, false,
     [](App& app, Surface&) { app.state().show_palette = true; }},
    {"open", "open another trace", GLFW_KEY_O, GLFW_MOD_CONTROL, false,
     [](App& app, Surface&) { app.state().show_start = true; }},
    {"theme", "dark or light", GLFW_KEY_T, 0, false, other_theme},
    {"scale/larger", "larger text", GLFW_KEY_EQUAL, GLFW_MOD_CONTROL, true,
     [](App&, Surface& ui) { scale_by(ui, scale_step); }},
    {"scale/smaller", "smaller text", GLFW_KEY_MINUS, GLFW_MOD_CONTROL, true,
     [](App&, Surface& ui) { scale_by(ui, 1 / scale_step); }},
    {"scale/usual", "text of the usual size", GLFW_KEY_0, GLFW_MOD_CONTROL, false,
     [](App&, Surface& ui) { ui.wish.zoom = 1; }},
    {"clear", "clear the selection, close what is open", GLFW_KEY_ESCAPE, 0, false,
     [](App& app, Surface&) { app.clear(); }},
    {"help", "this list", GLFW_KEY_SLASH, GLFW_MOD_SHIFT, false,
     [](App& app, Surface&) { app.state().show_help = !app.state().show_help; }},
};

constexpr MouseHabit habits[] = {
    {"wheel", "zoom at the cursor; Shift: scroll the ranks"},
    {"drag", "move in time, and over the ranks"},
    {"middle drag", "zoom to a range"},
    {"side buttons", "back, and forward again"},
    {"click", "select an operation, open a rank"},
    {"double click", "zoom to the operation"},
    {"Ctrl+drag", "measure a range, which Communication then is of"},
    {"drag an edge", "resize a part or the second panel; double click: back"},
    {"Ctrl+click, Ctrl+1", "on a tab, or its key: it is the second panel"},
    {"click a flag", "write into a note"},
};

std::string name_of_key(int key) {
  switch (key) {
    case GLFW_KEY_UP: return "↑";
    case GLFW_KEY_DOWN: return "↓";
    case GLFW_KEY_LEFT: return "←";
    case GLFW_KEY_RIGHT: return "→";
    case GLFW_KEY_HOME: return "Home";
    case GLFW_KEY_ESCAPE: return "Esc";
    case GLFW_KEY_EQUAL: return "+";
    default: return {static_cast<char>(key)};  // GLFW's codes of characters are ASCII
  }
}

}  // namespace

std::span<const Command> commands() { return table_of_commands; }

const Command* find_command(std::string_view name) {
  const auto found = std::find_if(std::begin(table_of_commands), std::end(table_of_commands),
                                  [&](const Command& command) { return command.name == name; });
  return found == std::end(table_of_commands) ? nullptr : found;
}

std::string keys_text(const Command& command) {
  if (command.key == GLFW_KEY_SLASH && command.mods == GLFW_MOD_SHIFT) return "?";
  std::string text;
  if ((command.mods & GLFW_MOD_CONTROL) != 0) text += "Ctrl+";
  if ((command.mods & GLFW_MOD_ALT) != 0) text += "Alt+";
  if ((command.mods & GLFW_MOD_SHIFT) != 0) text += "Shift+";
  return command.key == 0 ? "" : text + name_of_key(command.key);
}

std::span<const MouseHabit> mouse_habits() { return habits; }

}  // namespace tessera::inspector
