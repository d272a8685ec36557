// SPDX-License-Identifier: Apache-2.0
#include "tessera/inspector/inspector.h"

#include <fmt/format.h>

#include "inspector/app/shell.h"
#include "inspector/render/headless.h"
#include "inspector/render/window.h"

namespace tessera::inspector {
namespace {

constexpr int usual_width = 1920, usual_height = 1080;

Status check(const InspectOptions& options) {
  const auto sized = [](int px, int least) { return px == 0 || (px >= least && px <= 16384); };
  if (!sized(options.width, 200) || !sized(options.height, 150)) {
    return Status(Code::invalid_argument, fmt::format("a picture of {}x{} px: give 200x150 to "
                                                      "16384x16384",
                                                      options.width, options.height));
  }
  if (options.scale && !(*options.scale >= 0.5F && *options.scale <= 3.0F)) {
    return Status(Code::invalid_argument, fmt::format("scale {}: give 0.5 to 3", *options.scale));
  }
  return {};
}

int first_of(int asked, int kept, int usual) { return asked > 0 ? asked : kept > 0 ? kept : usual; }

}  // namespace

Status inspect(const InspectOptions& options) {
  TESSERA_TRY(check(options));
  TESSERA_ASSIGN(auto shell, Shell::open(options));
  const Layout& kept = shell->layout();
  const bool sized = options.width > 0 && options.height > 0;
  const WindowOptions window{
      .title = shell->title(),
      .width = first_of(options.width, kept.width, usual_width),
      .height = first_of(options.height, kept.height, usual_height),
      .theme = options.theme.value_or(kept.theme.value_or(ThemeKind::dark)),
      .zoom = options.scale.value_or(kept.zoom.value_or(1.0F)),
      .maximised = kept.maximised && !sized,
      .within_display = !sized,
  };
  return run_window(window, [&](Surface& ui) { return shell->draw(ui); });
}

Status screenshot(const InspectOptions& options, const std::string& png_path) {
  TESSERA_TRY(check(options));
  TESSERA_ASSIGN(auto shell, Shell::open(options));
  Headless screen(first_of(options.width, 0, usual_width),
                  first_of(options.height, 0, usual_height),
                  options.theme.value_or(ThemeKind::dark), options.scale.value_or(1.0F));
  // Two frames without a picture: ImGui learns sizes in the first.
  screen.step([&](Surface& ui) { shell->draw(ui); });
  screen.step([&](Surface& ui) { shell->draw(ui); });
  if (App* const app = shell->app()) {
    TESSERA_TRY(app->model().await_check());
    if (app->model().against() != nullptr) TESSERA_TRY(app->model().against()->await_check());
    TESSERA_TRY(app->state().answered);
  }
  return write_png(screen.frame([&](Surface& ui) { shell->draw(ui); }), png_path);
}

}  // namespace tessera::inspector
