// SPDX-License-Identifier: Apache-2.0
#include "tessera/inspector/inspector.h"

#include <fmt/format.h>

#include "inspector/app/shell.h"
#include "inspector/render/headless.h"
#include "inspector/render/window.h"

namespace tessera::inspector {
namespace {

Status check(const InspectOptions& options) {
  const bool sized = options.width >= 200 && options.width <= 16384 && options.height >= 150 &&
                     options.height <= 16384;
  if (!sized) {
    return Status(Code::invalid_argument, fmt::format("a picture of {}x{} px: give 200x150 to "
                                                      "16384x16384",
                                                      options.width, options.height));
  }
  if (!(options.scale >= 0.5F && options.scale <= 3.0F)) {
    return Status(Code::invalid_argument, fmt::format("scale {}: give 0.5 to 3", options.scale));
  }
  return {};
}

}  // namespace

Status inspect(const InspectOptions& options) {
  TESSERA_TRY(check(options));
  TESSERA_ASSIGN(auto shell, Shell::open(options));
  const WindowOptions window{.title = shell->title(),
                             .width = options.width,
                             .height = options.height,
                             .theme = options.theme,
                             .zoom = options.scale};
  return run_window(window, [&](Surface& ui) { return shell->draw(ui); });
}

Status screenshot(const InspectOptions& options, const std::string& png_path) {
  TESSERA_TRY(check(options));
  TESSERA_ASSIGN(auto shell, Shell::open(options));
  Headless screen(options.width, options.height, options.theme, options.scale);
  // Two frames without a picture: ImGui learns sizes in the first.
  screen.step([&](Surface& ui) { shell->draw(ui); });
  screen.step([&](Surface& ui) { shell->draw(ui); });
  if (App* const app = shell->app()) {
    TESSERA_TRY(app->model().await_check());
    if (app->model().against() != nullptr) TESSERA_TRY(app->model().against()->await_check());
  }
  return write_png(screen.frame([&](Surface& ui) { shell->draw(ui); }), png_path);
}

}  // namespace tessera::inspector
