// SPDX-License-Identifier: Apache-2.0
#include "cli/collective/collective_plot.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>

namespace tessera::cli {
namespace {

constexpr double width = 860;
constexpr double height = 480;
constexpr double left = 70;
constexpr double right = 160;
constexpr double top = 50;
constexpr double bottom = 60;
constexpr std::array colours = {"#1f77b4", "#d62728", "#2ca02c", "#9467bd", "#ff7f0e", "#17becf"};

std::string escaped(const std::string& text) {
  std::string out;
  for (const char c : text) {
    if (c == '&')
      out += "&amp;";
    else if (c == '<')
      out += "&lt;";
    else if (c == '>')
      out += "&gt;";
    else
      out += c;
  }
  return out;
}

struct Axes {
  double first = 0;  // logarithms of sizes
  double last = 1;
  double most = 1;  // GB/s

  double x(Bytes bytes) const {
    const double at = std::log2(static_cast<double>(bytes.value));
    return left + (width - left - right) * (at - first) / (last - first);
  }
  double y(double busbw) const { return height - bottom - (height - top - bottom) * busbw / most; }
};

// A round number of at least `value`, for the top of the axis.
double round_up(double value) {
  double unit = 1;
  while (unit * 10 <= value) unit *= 10;
  for (const double factor : {1.0, 2.0, 5.0, 10.0}) {
    if (unit * factor >= value) return unit * factor;
  }
  return value;
}

Axes axes_of(const std::vector<CollectiveTable>& tables) {
  Axes axes{1e9, 0, 1};
  for (const CollectiveTable& table : tables) {
    for (const CollectiveRow& row : table.rows) {
      const double at = std::log2(static_cast<double>(row.bytes.value));
      axes.first = std::min(axes.first, at);
      axes.last = std::max(axes.last, at);
      axes.most = std::max(axes.most, row.busbw);
    }
  }
  if (axes.last <= axes.first) axes.last = axes.first + 1;
  axes.most = round_up(axes.most);
  return axes;
}

std::string grid(const Axes& axes) {
  std::string out;
  for (int i = 0; i <= 5; ++i) {
    const double value = axes.most * i / 5;
    out += fmt::format(
        "<line x1='{:.1f}' y1='{:.1f}' x2='{:.1f}' y2='{:.1f}' stroke='#ddd'/>"
        "<text x='{:.1f}' y='{:.1f}' text-anchor='end'>{:g}</text>\n",
        left, axes.y(value), width - right, axes.y(value), left - 8, axes.y(value) + 4, value);
  }
  for (int at = static_cast<int>(std::ceil(axes.first)); at <= axes.last; at += 2) {
    const Bytes size{std::int64_t{1} << at};
    out += fmt::format(
        "<line x1='{0:.1f}' y1='{1:.1f}' x2='{0:.1f}' y2='{2:.1f}' stroke='#eee'/>"
        "<text x='{0:.1f}' y='{3:.1f}' text-anchor='middle'>{4}</text>\n",
        axes.x(size), top, height - bottom, height - bottom + 18, short_size(size));
  }
  return out;
}

}  // namespace

std::string collective_plot(const std::string& title, const std::vector<CollectiveTable>& tables) {
  const Axes axes = axes_of(tables);
  std::string out = fmt::format(
      "<svg xmlns='http://www.w3.org/2000/svg' viewBox='0 0 {0} {1}' width='{0}' height='{1}' "
      "font-family='sans-serif' font-size='12'>\n<rect width='{0}' height='{1}' fill='white'/>\n"
      "<text x='{2}' y='28' font-size='16'>{3}</text>\n<text x='{2}' y='{4}'>bytes</text>\n"
      "<text x='{5}' y='{6}' text-anchor='end'>busbw, GB/s</text>\n",
      width, height, left, escaped(title), height - 12, left + 30, top - 8);
  out += grid(axes);
  for (std::size_t i = 0; i < tables.size(); ++i) {
    const char* colour = colours[i % colours.size()];
    std::string points;
    for (const CollectiveRow& row : tables[i].rows) {
      points += fmt::format("{:.1f},{:.1f} ", axes.x(row.bytes), axes.y(row.busbw));
      out += fmt::format("<circle cx='{:.1f}' cy='{:.1f}' r='2.5' fill='{}'/>\n", axes.x(row.bytes),
                         axes.y(row.busbw), colour);
    }
    out += fmt::format("<polyline points='{}' fill='none' stroke='{}'/>\n", points, colour);
    out += fmt::format("<text x='{:.1f}' y='{:.1f}' fill='{}'>{}</text>\n", width - right + 12,
                       top + 18.0 * static_cast<double>(i + 1), colour, name_of(tables[i].kind));
  }
  return out + "</svg>\n";
}

}  // namespace tessera::cli
