// SPDX-License-Identifier: Apache-2.0
#include "cli/view/inspect_view.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <filesystem>
#include <iterator>
#include <string_view>

#include "cli/text_file.h"

namespace tessera::cli {
namespace {

template <class T>
bool parse_pair(std::string_view text, char separator, T& first, T& second) {
  const auto read = [](std::string_view part, T& value) {
    const auto [end, error] = std::from_chars(part.data(), part.data() + part.size(), value);
    return error == std::errc{} && end == part.data() + part.size();
  };
  const std::size_t at = text.find(separator);
  return at != std::string_view::npos && read(text.substr(0, at), first) &&
         read(text.substr(at + 1), second);
}

}  // namespace

Result<PictureSize> parse_size(const std::string& text) {
  PictureSize size;
  if (parse_pair(text, 'x', size.width, size.height) && size.width >= 200 && size.height >= 150 &&
      size.width <= 16384 && size.height <= 16384) {
    return size;
  }
  return Status(Code::invalid_argument,
                fmt::format("--size {}: give WIDTHxHEIGHT from 200x150 to 16384x16384", text));
}

Result<std::pair<Time, Time>> parse_time_range(const std::string& text) {
  double begin_ms = 0;
  double end_ms = 0;
  constexpr double ms_max = 1e12;
  if (parse_pair(text, ':', begin_ms, end_ms) && begin_ms >= 0 && end_ms > begin_ms &&
      end_ms <= ms_max) {
    const auto begin = static_cast<Time>(std::llround(begin_ms * 1e6));
    const auto end = static_cast<Time>(std::llround(end_ms * 1e6));
    if (end > begin) return std::pair(begin, end);
  }
  return Status(Code::invalid_argument,
                fmt::format("--time {}: give BEGIN:END in ms since the run began, BEGIN at "
                            "least 0 and before END, such as 12.5:40",
                            text));
}

Status check_picture(const std::string& path) {
  constexpr std::string_view others[] = {".jpg", ".jpeg", ".gif",  ".bmp", ".webp",
                                         ".svg", ".pdf",  ".tiff", ".tif"};
  std::string ending = std::filesystem::path(path).extension().string();
  for (char& c : ending) c = c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
  if (std::find(std::begin(others), std::end(others), ending) != std::end(others)) {
    return {Code::invalid_argument,
            fmt::format("--screenshot {}: pictures are PNG files: give a name that ends in .png",
                        path)};
  }
  return check_overwrites("--screenshot", path, [](std::string_view text) {
    return text.starts_with("\x89PNG\r\n\x1a\n") ? "" : "is no PNG picture";
  });
}

}  // namespace tessera::cli
