// SPDX-License-Identifier: Apache-2.0
// Windows of every size and scale: no text lies on another, and every frame is bounded effort.
#include <algorithm>
#include <catch2/catch.hpp>
#include <cstdlib>
#include <string>
#include <vector>

#include "inspector/app/panels.h"
#include "inspector/app/shell.h"
#include "inspector/render/headless.h"
#include "tests/inspector/made_trace.h"
#include "tests/random.h"
#include "tests/temporary_folder.h"

namespace tessera::inspector {
namespace {

/// The part of a character that can be seen.
struct Glyph {
  Box box;
  std::size_t number;  // in the order of drawing
  float area() const { return box.width() * box.height(); }
};

bool is_glyph(const ImDrawVert* v) {
  // Filled shapes have the atlas' white point at all corners.
  const bool plain = v[0].uv.x == v[2].uv.x && v[0].uv.y == v[2].uv.y;
  return !plain && v[0].pos.y == v[1].pos.y && v[1].pos.x == v[2].pos.x &&
         v[2].pos.y == v[3].pos.y && v[3].pos.x == v[0].pos.x;
}

std::vector<Glyph> glyphs_of(const ImDrawData& data, ImTextureID font) {
  std::vector<Glyph> glyphs;
  for (int n = 0; n < data.CmdListsCount; ++n) {
    const ImDrawList& list = *data.CmdLists[n];
    for (const ImDrawCmd& command : list.CmdBuffer) {
      if (command.TextureId != font) continue;
      const ImDrawIdx* index = list.IdxBuffer.Data + command.IdxOffset;
      for (unsigned k = 0; k + 6 <= command.ElemCount; k += 3) {
        const ImDrawVert* v = list.VtxBuffer.Data + command.VtxOffset + index[k];
        const bool quad = index[k + 1] == index[k] + 1 && index[k + 2] == index[k] + 2 &&
                          index[k + 3] == index[k] && index[k + 5] == index[k] + 3;
        if (!quad || !is_glyph(v)) continue;
        const ImVec4 clip = command.ClipRect;
        const Box seen{{std::max(v[0].pos.x, clip.x), std::max(v[0].pos.y, clip.y)},
                       {std::min(v[2].pos.x, clip.z), std::min(v[2].pos.y, clip.w)}};
        if (seen.width() > 1 && seen.height() > 1) glyphs.push_back({seen, glyphs.size()});
      }
    }
  }
  return glyphs;
}

/// Where two characters lie on each other by more than a third of the smaller one; "" if nowhere.
std::string overlap_of(std::vector<Glyph> glyphs) {
  std::sort(glyphs.begin(), glyphs.end(),
            [](const Glyph& a, const Glyph& b) { return a.box.min.x < b.box.min.x; });
  for (std::size_t i = 0; i < glyphs.size(); ++i) {
    const Box& a = glyphs[i].box;
    for (std::size_t j = i + 1; j < glyphs.size() && glyphs[j].box.min.x < a.max.x; ++j) {
      const Box& b = glyphs[j].box;
      const float wide = std::min(a.max.x, b.max.x) - std::max(a.min.x, b.min.x);
      const float tall = std::min(a.max.y, b.max.y) - std::max(a.min.y, b.min.y);
      if (wide <= 0 || tall <= 0) continue;
      // Neighbours in one text: a few pixels of the smallest fonts are a large part of a letter.
      if (glyphs[i].number + 1 == glyphs[j].number) continue;
      if (wide * tall <= 0.34F * std::min(glyphs[i].area(), glyphs[j].area())) continue;
      return "at " + std::to_string(static_cast<int>(b.min.x)) + ", " +
             std::to_string(static_cast<int>(b.min.y));
    }
  }
  return "";
}

template <class Draw>
void check_frame(Draw draw, int width, int height, float scale) {
  Headless screen(width, height, ThemeKind::dark, scale);
  ImTextureID font = nullptr;
  for (int k = 0; k < 3; ++k) {
    screen.step([&](Surface& ui) {
      ImGui::GetStyle().AntiAliasedLinesUseTex = false;  // lines would look like characters
      font = ImGui::GetIO().Fonts->TexID;
      draw(ui);
    });
  }
  const bool beyond_4k = width * height > 3840 * 2160;  // more rows than anybody looks at
  CHECK(screen.vertex_count() < (beyond_4k ? 150'000 : 100'000));
  CHECK(overlap_of(glyphs_of(screen.draw_data(), font)) == "");
}

void check_layout(const std::string& path, const std::string& panel, int width, int height,
                  float scale) {
  auto app = App::open({.path = path, .panel = panel, .against = path});
  REQUIRE(app.ok());
  INFO(panel << " at " << width << "x" << height << ", scale " << scale);
  check_frame([&](Surface& ui) { (*app)->draw(ui); }, width, height, scale);
}

constexpr std::pair<int, int> sizes[] = {{200, 150},   {320, 240},   {440, 600},   {455, 1000},
                                         {640, 480},   {800, 600},   {1280, 720},  {1920, 1080},
                                         {2560, 1440}, {3840, 2160}, {5120, 1440}, {7680, 4320}};
constexpr float scales[] = {0.5F, 1.0F, 1.5F, 2.0F, 3.0F};

TEST_CASE("no text lies on another at 60 sizes and scales", "[inspector][layout]") {
  const std::string gpt2 = std::string(TESSERA_SOURCE_DIR) + "/traces/gpt2-8-h100.tessera";
  std::size_t turn = 0;  // each size and scale has two panels, so that all are seen at all sizes
  for (const auto& [width, height] : sizes) {
    for (const float scale : scales) {
      for (int k = 0; k < 2; ++k) {
        const auto rows = panel_rows();
        check_layout(gpt2, rows[turn++ % rows.size()].name, width, height, scale);
      }
    }
  }
}

TEST_CASE("no text lies on another in any panel at any size and scale", "[.every-layout]") {
  const std::string gpt2 = std::string(TESSERA_SOURCE_DIR) + "/traces/gpt2-8-h100.tessera";
  for (const PanelRow& row : panel_rows()) {
    for (const auto& [width, height] : sizes) {
      for (const float scale : scales) check_layout(gpt2, row.name, width, height, scale);
    }
  }
}

/// A number of the environment, or else `usual`.
std::int64_t number_of(const char* name, std::int64_t usual) {
  const char* const text = std::getenv(name);
  return text == nullptr ? usual : std::stoll(text);
}

TEST_CASE("no text lies on another at random sizes and scales", "[inspector][layout]") {
  const std::int64_t seed = number_of("TESSERA_LAYOUT_SEED", 1);
  const std::int64_t count = number_of("TESSERA_LAYOUTS", 20);
  const char* const names[] = {"gpt2-8-h100", "straggler-16384", "torch-fsdp2", "offload-nvme",
                               "out-of-memory"};
  for (std::int64_t number = seed; number < seed + count; ++number) {
    test::Random random(static_cast<std::uint64_t>(number));
    INFO("TESSERA_LAYOUT_SEED=" << number << " TESSERA_LAYOUTS=1");
    // Small windows are where room is short.
    const auto most = static_cast<int>(random.chance(70) ? 1600 : 4400);
    const int width = 200 + static_cast<int>(random.below(most));
    const int height = 150 + static_cast<int>(random.below(most / 2));
    const auto scale = static_cast<float>(50 + random.below(251)) / 100;
    const auto rows = panel_rows();
    const char* const panel = rows[static_cast<std::size_t>(random.below(std::ssize(rows)))].name;
    const std::string name = names[random.below(std::ssize(names))];
    INFO(name);
    check_layout(std::string(TESSERA_SOURCE_DIR) + "/traces/" + name + ".tessera", panel, width,
                 height, scale);
  }
}

TEST_CASE("no text of two panels lies on another", "[inspector][layout]") {
  const std::string gpt2 = std::string(TESSERA_SOURCE_DIR) + "/traces/gpt2-8-h100.tessera";
  const auto rows = panel_rows();
  std::size_t turn = 0;
  for (const auto& [width, height] : sizes) {
    for (const float scale : {0.5F, 1.0F, 2.0F}) {
      const std::string first = rows[turn % rows.size()].name;
      const std::string second = rows[(turn + 1 + turn / rows.size()) % rows.size()].name;
      ++turn;
      INFO(first << " and " << second << " at " << width << "x" << height << ", scale " << scale);
      InspectOptions options{.path = gpt2, .panel = first, .against = gpt2};
      (turn % 2 == 0 ? options.beside : options.below) = second;
      auto app = App::open(options);
      REQUIRE(app.ok());
      check_frame([&](Surface& ui) { (*app)->draw(ui); }, width, height, scale);
    }
  }
}

TEST_CASE("no text lies on another on the first page", "[inspector][layout]") {
  for (const auto& [width, height] : sizes) {
    for (const float scale : scales) {
      INFO(width << "x" << height << ", scale " << scale);
      auto shell = Shell::open({.traces = std::string(TESSERA_SOURCE_DIR) + "/traces"});
      REQUIRE(shell.ok());
      check_frame([&](Surface& ui) { (*shell)->draw(ui); }, width, height, scale);
    }
  }
}

TEST_CASE("a failed run of many ranks and steps is laid out at every size", "[inspector][layout]") {
  test::TemporaryFolder folder;
  const std::string path = folder.path() + "/made.tessera";
  write_trace({.ranks = 64,
               .steps = 40,
               .slow_rank = 21,
               .out_of_memory = 5 * made_step,
               .recorded = 24,
               .memory_classes = 12},
              path);
  for (const PanelRow& row : panel_rows()) {
    for (const auto& [width, height] : {std::pair(200, 150), {640, 480}, {1280, 720}}) {
      for (const float scale : {1.0F, 2.0F}) check_layout(path, row.name, width, height, scale);
    }
  }
}

}  // namespace
}  // namespace tessera::inspector
