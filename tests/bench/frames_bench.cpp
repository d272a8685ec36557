// SPDX-License-Identifier: Apache-2.0
// What a frame of each panel costs on a trace, while one pans and zooms through it.
//
//   bench_frames run.tessera [WIDTHxHEIGHT [SCALE [PANEL]]]
//
// The mouse moves over the panel meanwhile. Memory is the most that the process has had: of one
// panel only where it is the only one.
#include <fmt/format.h>
#include <sys/resource.h>

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <fstream>
#include <string_view>

#include "inspector/app/app.h"
#include "inspector/app/panels.h"
#include "inspector/render/headless.h"
#include "tests/bench/measure.h"

namespace tessera::inspector {
namespace {

constexpr int warm_frames = 20, frames = 120;
constexpr Time settles_ns = 20'000'000'000;  // at most, of what threads find out

double cpu_ms() {
  std::int64_t ns = 0;  // getrusage counts ticks of milliseconds
  std::ifstream("/proc/thread-self/schedstat") >> ns;
  return 1e-6 * static_cast<double>(ns);
}

/// At most so far, of all threads.
long resident_mb() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  return usage.ru_maxrss / 1024;
}

int measure(const std::string& path, int width, int height, float scale, std::string_view only) {
  fmt::print("{}x{}, scale {}: CPU ms of the window's thread, without rasterising\n", width, height,
             scale);
  fmt::print("  {:<14} {:>8} {:>8} {:>8} {:>8} {:>9} {:>9}\n", "panel", "first", "median", "p95",
             "most", "vertices", "MB so far");
  for (const PanelRow& row : panel_rows()) {
    if (!only.empty() && only != row.name) continue;
    InspectOptions options{.path = path, .width = width, .height = height, .panel = row.name};
    if (std::string_view(row.name) == "compare") options.against = path;
    const double before = cpu_ms();
    auto app = App::open(options);
    if (!app.ok()) {
      fmt::print("  {:<14} {}\n", row.name, app.status().message());
      continue;
    }
    Headless screen(width, height, ThemeKind::dark, scale);
    const auto step = [&] {
      screen.step([&](Surface& ui) {
        ui.scripted = false;  // as in a window: threads find out what takes long
        (*app)->draw(ui);
      });
    };
    step();
    const double first = cpu_ms() - before;
    const Time from = bench::now();
    for (int k = 0; k < warm_frames || ((*app)->state().busy && bench::now() - from < settles_ns);
         ++k) {
      step();
    }
    std::vector<double> times;
    int vertices = 0;
    for (int k = 0; k < frames; ++k) {
      TimeView& view = (*app)->state().time;
      k % 8 < 4 ? view.pan(0.05) : view.zoom(k % 32 < 16 ? 0.8 : 1.25, 0.5);
      if (k == frames / 2) view.show(0, (*app)->model().info().end);
      const auto share = static_cast<float>(k) / frames;
      screen.move_mouse(share * static_cast<float>(width),
                        (1 - share) * static_cast<float>(height));
      const double start = cpu_ms();
      step();
      times.push_back(cpu_ms() - start);
      vertices = std::max(vertices, screen.vertex_count());
    }
    std::sort(times.begin(), times.end());
    fmt::print("  {:<14} {:>8.1f} {:>8.2f} {:>8.2f} {:>8.2f} {:>9} {:>9}\n", row.name, first,
               bench::median(times), times[frames * 95 / 100], times.back(), vertices,
               resident_mb());
    std::fflush(stdout);
  }
  return 0;
}

}  // namespace
}  // namespace tessera::inspector

int main(int count, char** words) {
  int width = 1920, height = 1080;
  if (count < 2 || (count > 2 && std::sscanf(words[2], "%dx%d", &width, &height) != 2)) {
    fmt::print("bench_frames TRACE [WIDTHxHEIGHT [SCALE [PANEL]]]\n");
    return 2;
  }
  const float scale = count > 3 ? std::strtof(words[3], nullptr) : 1.0F;
  return tessera::inspector::measure(words[1], width, height, scale, count > 4 ? words[4] : "");
}
