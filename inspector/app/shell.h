// SPDX-License-Identifier: Apache-2.0
// The window's content: the page that opens traces, or the trace that is open.
#pragma once

#include <memory>
#include <string>

#include "inspector/app/app.h"
#include "inspector/app/start_page.h"

namespace tessera::inspector {

class Shell {
 public:
  /// Without a path it begins with the start page. Fails: as App::open.
  static Result<std::unique_ptr<Shell>> open(const InspectOptions& options);

  /// One frame; as App::draw. A dropped file is opened.
  bool draw(Surface& ui);
  /// Keeps how the window looked.
  ~Shell();
  Shell(const Shell&) = delete;
  Shell& operator=(const Shell&) = delete;

  App* app() { return app_.get(); }  // nullptr: none is open
  StartPage& start() { return start_; }
  const Layout& layout() const { return layout_; }
  std::string title() const;  // of the window

 private:
  explicit Shell(const InspectOptions& options);
  void show(const Wanted& wanted, Surface& ui);
  bool draw_page(Surface& ui);
  void note_layout(const Surface& ui);

  const InspectOptions options_;
  std::unique_ptr<App> app_;
  StartPage start_;
  RecentFiles recent_;
  std::string problem_;  // why the last one could not be opened
  Layout layout_, kept_layout_;
  std::optional<ThemeKind> seen_theme_;  // what options or the last time said is not a change
  std::optional<float> seen_zoom_;
};

}  // namespace tessera::inspector
