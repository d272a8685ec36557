// SPDX-License-Identifier: Apache-2.0
#include "cli/report/table.h"

#include <algorithm>

#include "cli/printable.h"
#include "tessera/assert.h"

namespace tessera::cli {
namespace {

// Characters, not bytes: continuation bytes of UTF-8 do not count.
std::size_t width_of(const std::string& text) {
  return static_cast<std::size_t>(std::count_if(text.begin(), text.end(), [](char c) {
    return (static_cast<unsigned char>(c) & 0xC0) != 0x80;
  }));
}

// Indented lines of at most 100 columns; longer words stay whole.
std::string wrapped(const std::string& paragraph) {
  constexpr std::size_t columns_max = 100;
  std::string text;
  std::string line = " ";
  for (std::size_t at = 0; at < paragraph.size();) {
    const std::size_t end = std::min(paragraph.find(' ', at), paragraph.size());
    const std::string word = paragraph.substr(at, end - at);
    if (line.size() > 1 && width_of(line) + 1 + width_of(word) > columns_max) {
      text += line + "\n";
      line = "   ";
    }
    line += " " + word;
    at = end + 1;
  }
  return text + line + "\n";
}

}  // namespace

std::string shortened(const std::string& name) {
  constexpr std::size_t most = 70;
  return name.size() <= most ? name : name.substr(0, most - 3) + "...";
}

Table::Table(const std::string& heading, std::vector<std::string> columns)
    : heading_(printable(heading)), columns_(columns.size()) {
  if (!columns.empty()) rows_.push_back(std::move(columns));
}

void Table::row(std::vector<std::string> cells) {
  TESSERA_ASSERT(columns_ == 0 || cells.size() == columns_, "a row with as many cells as columns");
  for (std::string& cell : cells) cell = printable(cell);
  rows_.push_back(std::move(cells));
}

void Table::note(const std::string& text) { notes_.push_back(printable(text)); }

std::string Table::text(bool bold) const {
  std::vector<std::size_t> widths;
  for (const auto& row : rows_) {
    widths.resize(std::max(widths.size(), row.size()));
    for (std::size_t c = 0; c < row.size(); ++c) widths[c] = std::max(widths[c], width_of(row[c]));
  }
  std::string text = bold ? "\033[1m" + heading_ + "\033[0m\n" : heading_ + "\n";
  for (const auto& row : rows_) {
    std::string line = " ";
    for (std::size_t c = 0; c < row.size(); ++c) {
      const std::string padding(widths[c] - width_of(row[c]), ' ');
      const bool left = c == 0 || left_ || (last_left_ && c + 1 == row.size());
      line += (c == 0 ? " " : "  ") + (left ? row[c] + padding : padding + row[c]);
    }
    text += line.substr(0, line.find_last_not_of(' ') + 1) + "\n";
  }
  for (const std::string& note : notes_) text += wrapped(note);
  return text + "\n";
}

}  // namespace tessera::cli
