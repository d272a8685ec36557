// SPDX-License-Identifier: Apache-2.0
#include "inspector/model/layout.h"

#include <fmt/format.h>

#include <array>
#include <charconv>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <system_error>

namespace tessera::inspector {
namespace {

constexpr float part_px_max = 4000;
constexpr float share_least = 0.1F, share_most = 0.9F;
constexpr float zoom_least = 0.5F, zoom_most = 3;
constexpr int window_least = 200, window_most = 16384;
constexpr std::size_t file_most = 4096;  // bytes; what is longer was not written by us

template <class T>
void read_number(const std::string& text, T least, T most, T& into) {
  T value{};
  const char* const end = text.data() + text.size();
  const auto [last, error] = std::from_chars(text.data(), end, value);
  if (error == std::errc{} && last == end && value >= least && value <= most) into = value;
}

void read_switch(const std::string& text, bool& into) {
  if (text == "0" || text == "1") into = text == "1";
}

void read_line(const std::string& name, const std::string& value, Layout& layout) {
  if (name == "memory") read_number(value, 0.0F, part_px_max, layout.memory);
  if (name == "details") read_number(value, 0.0F, part_px_max, layout.details);
  if (name == "hides_memory") read_switch(value, layout.hides_memory);
  if (name == "hides_details") read_switch(value, layout.hides_details);
  if (name == "second") layout.second = value;
  if (name == "split") read_switch(value, layout.split);
  if (name == "below") read_switch(value, layout.below);
  if (name == "share") read_number(value, share_least, share_most, layout.share);
  if (name == "theme" && value == "dark") layout.theme = ThemeKind::dark;
  if (name == "theme" && value == "light") layout.theme = ThemeKind::light;
  if (name == "width") read_number(value, window_least, window_most, layout.width);
  if (name == "height") read_number(value, window_least, window_most, layout.height);
  if (name == "maximised") read_switch(value, layout.maximised);
  if (name == "scale") {
    float zoom = 0;
    read_number(value, zoom_least, zoom_most, zoom);
    if (zoom > 0) layout.zoom = zoom;
  }
}

std::string text_of(const Layout& l) {
  std::string text = fmt::format("memory {}\ndetails {}\nhides_memory {:d}\nhides_details {:d}\n",
                                 l.memory, l.details, l.hides_memory, l.hides_details);
  if (!l.second.empty()) text += fmt::format("second {}\n", l.second);
  text += fmt::format("split {:d}\nbelow {:d}\nshare {}\n", l.split, l.below, l.share);
  if (l.theme) text += *l.theme == ThemeKind::dark ? "theme dark\n" : "theme light\n";
  if (l.zoom) text += fmt::format("scale {}\n", *l.zoom);
  if (l.width > 0 && l.height > 0) text += fmt::format("width {}\nheight {}\n", l.width, l.height);
  return text + fmt::format("maximised {:d}\n", l.maximised);
}

}  // namespace

Layout read_layout(const std::string& path) {
  Layout layout;
  std::ifstream file(path, std::ios::binary);
  std::array<char, file_most> bytes{};
  file.read(bytes.data(), static_cast<std::streamsize>(bytes.size()));
  std::istringstream text(std::string(bytes.data(), static_cast<std::size_t>(file.gcount())));
  for (std::string line; std::getline(text, line);) {
    std::istringstream words(line);
    std::string name, value, more;
    if (words >> name >> value && !(words >> more)) read_line(name, value, layout);
  }
  return layout;
}

void write_layout(const std::string& path, const Layout& layout) {
  if (path.empty()) return;
  std::error_code error;
  std::filesystem::create_directories(std::filesystem::path(path).parent_path(), error);
  const std::string beside = path + ".new";
  {
    std::ofstream file(beside);
    file << text_of(layout);
    if (!file.flush()) return;
  }
  std::filesystem::rename(beside, path, error);
}

}  // namespace tessera::inspector
