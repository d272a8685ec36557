// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <catch2/catch.hpp>
#include <sstream>

#include "inspector/render/headless.h"
#include "inspector/widgets/drawing.h"

namespace tessera::inspector {
namespace {

TEST_CASE("no line begins with the unit of a number, and none is too long", "[inspector][text]") {
  const std::string words =
      "In 2.61 s of 2.63 s per step, 95.2 µs of that are waiting (99.4 % of 4.21 GiB), and compute "
      "takes 17.0 ms.";
  Headless screen(400, 300, ThemeKind::dark, 1.0F);
  screen.step([&](Surface& ui) {
    for (float width = 60; width < 900; width += 1) {
      INFO(width);
      const std::string lines = wrapped_lines(ui.fonts.body, words, width);
      std::string joined = lines;
      std::replace(joined.begin(), joined.end(), '\n', ' ');
      CHECK(joined == words);
      std::istringstream in(lines);
      for (std::string line; std::getline(in, line);) {
        if (line.find(' ') != std::string::npos) CHECK(text_width(ui.fonts.body, line) <= width);
        for (const char* unit : {"s ", "µs", "%", "GiB", "ms"}) CHECK_FALSE(line.starts_with(unit));
      }
      // ImGui breaks none of them again.
      const auto count = 1 + std::count(lines.begin(), lines.end(), '\n');
      CHECK(WrappedText(ui.fonts.body, words, width).height() ==
            Approx(static_cast<float>(count) * ui.fonts.body->FontSize));
    }
    CHECK(wrapped_lines(ui.fonts.body, "", 100).empty());
  });
}

}  // namespace
}  // namespace tessera::inspector
