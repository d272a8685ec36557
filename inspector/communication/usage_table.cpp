// SPDX-License-Identifier: Apache-2.0
#include "inspector/communication/usage_table.h"

#include <fmt/format.h>

#include <algorithm>

#include "inspector/widgets/drawing.h"
#include "inspector/widgets/format.h"
#include "inspector/widgets/op_text.h"
#include "inspector/widgets/show_op.h"
#include "query/text.h"

namespace tessera::inspector {
namespace {

using analysis::UsageBy;
using Row = analysis::GroupUsage;

constexpr unsigned bit(UsageBy by) { return 1U << static_cast<unsigned>(by); }
constexpr unsigned of_groups = bit(UsageBy::group), of_units = bit(UsageBy::unit),
                   of_all = bit(UsageBy::operation);

constexpr int most_dispensable = 5;

/// One column of the table. Those of a higher rank are left out first where there is little room.
struct Column {
  const char* title;
  unsigned of;      // which rows have it
  float width;      // px at scale 1
  int dispensable;  // up to most_dispensable; 0: always shown
  bool left;        // text, not a number
  std::string (*text)(const Row&);
};

constexpr Column table_columns[] = {
    {"operation", of_all, 200, 0, true, [](const Row& r) { return r.name; }},
    {"kind", of_groups | of_units, 112, 0, true,
     [](const Row& r) { return std::string(name_of(r.kind)); }},
    {"unit", of_units, 170, 1, true,
     [](const Row& r) { return r.name.empty() ? "of no unit" : short_name(r.name); }},
    {"group", of_groups, 150, 1, true,
     [](const Row& r) { return fmt::format("{} of {} ranks", r.group, r.group_size); }},
    {"algorithm", of_groups, 110, 4, true, [](const Row& r) { return r.algorithm; }},
    {"count", of_groups | of_units | of_all, 76, 3, false,
     [](const Row& r) { return format_count(r.count); }},
    {"bytes", of_groups | of_units | of_all, 84, 2, false,
     [](const Row& r) { return r.bytes > Bytes{} ? format_bytes(r.bytes) : ""; }},
    {"time", of_all, 84, 0, false, [](const Row& r) { return format_time(r.duration); }},
    {"mean", of_all, 84, 2, false,
     [](const Row& r) { return format_time(r.duration / std::max<std::int64_t>(1, r.count)); }},
    {"wait", of_groups | of_units | of_all, 84, 3, false,
     [](const Row& r) { return format_time(r.wait); }},
    {"transfer", of_groups | of_units, 84, 1, false,
     [](const Row& r) { return format_time(r.transfer); }},
    {"exposed", of_groups | of_units | of_all, 84, 0, false,
     [](const Row& r) { return format_time(r.exposed); }},
    {"blocking", of_groups | of_units, 84, 2, false,
     [](const Row& r) { return r.blocking < 0 ? "" : format_time(r.blocking); }},
    {"algbw", of_groups, 92, 5, false,
     [](const Row& r) {
       return r.algorithm_bandwidth > 0 ? format_rate(r.algorithm_bandwidth) : "";
     }},
    {"busbw", of_groups | of_units | of_all, 92, 1, false,
     [](const Row& r) { return r.bus_bandwidth > 0 ? format_rate(r.bus_bandwidth) : ""; }},
    {"of the links", of_groups, 128, 3, false,
     [](const Row& r) {
       if (r.link_bandwidth <= 0 || r.bus_bandwidth <= 0) return std::string();
       return fmt::format("{} of {}", format_percent(r.bus_bandwidth / r.link_bandwidth),
                          format_rate(r.link_bandwidth));
     }},
};

// The columns of such rows that fit, the most important ones; what no row has is none.
std::vector<const Column*> fitting(const Surface& ui, const std::vector<Row>& rows, UsageBy by,
                                   float width) {
  const auto blank = [&](const Column& column) {
    return std::all_of(rows.begin(), rows.end(),
                       [&](const Row& row) { return column.text(row).empty(); });
  };
  std::vector<const Column*> shown;
  float sum = 0;
  for (int rank = 0; rank <= most_dispensable; ++rank) {
    for (const Column& column : table_columns) {
      if (column.dispensable != rank || (column.of & bit(by)) == 0 || blank(column)) continue;
      const float wide = ui.theme.px(column.width);
      if (rank > 0 && sum + wide > width) continue;
      shown.push_back(&column);
      sum += wide;
    }
  }
  std::sort(shown.begin(), shown.end());  // as in the table
  return shown;
}

// Names of algorithms get what the others leave.
float width_of(const Surface& ui, const Column& column, float spare) {
  constexpr float algorithm_most = 90;  // px more than it needs at least
  const bool takes = std::string_view(column.title) == "algorithm";
  return ui.theme.px(column.width) + (takes ? std::min(spare, ui.theme.px(algorithm_most)) : 0);
}

// The columns that fit, and how wide they are.
struct Columns {
  std::vector<const Column*> shown;
  float spare = 0;

  Columns(const Surface& ui, const std::vector<Row>& rows, UsageBy by, float width)
      : shown(fitting(ui, rows, by, width)) {
    for (const Column* column : shown) width -= ui.theme.px(column->width);
    spare = std::max(width, 0.0F);
  }
  template <class Text>
  void draw(const Surface& ui, ImVec2 at, Colour colour, Text text_of) const {
    const float gap = ui.theme.px(8), y = at.y + ui.theme.px(4);
    float x = at.x;
    ImGui::PushFont(ui.fonts.body);
    for (const Column* column : shown) {
      const float wide = width_of(ui, *column, spare);
      const std::string all = text_of(*column);
      const std::string words =
          column->left ? fitted_middle(all, wide - gap) : fitted(all, wide - gap);
      column->left ? draw_text(ui.fonts.body, {x, y}, colour, words)
                   : draw_text_right(ui.fonts.body, {x + wide - gap, y}, colour, words);
      x += wide;
    }
    ImGui::PopFont();
  }
};

}  // namespace

Colour colour_of_kind(const Surface& ui, OpKind kind) {
  storage::OpRow op;
  op.kind = kind;
  return ui.colours().of(class_of(op));
}

float draw_usage_table(const Surface& ui, TraceModel& model, ViewState& state,
                       const std::vector<analysis::GroupUsage>& rows, UsageBy by, const Box& box) {
  const Theme& theme = ui.theme;
  const float pad = theme.px(14), line = theme.row_px;
  const Columns columns(ui, rows, by, box.width() - 2 * pad);
  columns.draw(ui, {box.min.x + pad, box.min.y}, theme.dim,
               [](const Column& column) { return std::string(column.title); });
  float y = box.min.y + line;
  for (std::size_t k = 0; k < rows.size(); ++k, y += line) {
    const Row& row = rows[k];
    const Box place{{box.min.x + pad / 2, y}, {box.max.x - pad / 2, y + line}};
    const std::string name = fmt::format("communication/{}", k);
    state.place(name, place.min, place.max);
    state.fields[name] =
        by == UsageBy::operation
            ? fmt::format("{} {}", row.name, format_time(row.duration))
            : fmt::format("{} {} exposed, {}{}", row.name.empty() ? name_of(row.kind) : row.name,
                          format_time(row.exposed), format_rate(row.bus_bandwidth),
                          row.link_bandwidth > 0 ? " of " + format_rate(row.link_bandwidth) : "");
    if (!ImGui::IsRectVisible(place.min, place.max)) continue;
    const bool hovered = place.contains(ImGui::GetIO().MousePos) && ImGui::IsWindowHovered();
    ImDrawList* draw = ImGui::GetWindowDrawList();
    if (hovered) draw->AddRectFilled(place.min, place.max, theme.hover, 4);
    if (by != UsageBy::operation) {
      draw->AddRectFilled({place.min.x, y + theme.px(5)},
                          {place.min.x + theme.px(4), y + line - theme.px(5)},
                          colour_of_kind(ui, row.kind));
    }
    columns.draw(ui, {box.min.x + pad, y}, theme.text,
                 [&](const Column& column) { return column.text(row); });
    if (hovered && ImGui::IsMouseClicked(0)) show_op(model, state, state.rank, row.costliest);
  }
  return y;
}

std::string usage_sql(UsageBy by, Rank rank, Time from, Time to) {
  const char* columns = "r.kind, r.phase, r.reason";
  const char* order = "duration";
  if (by == UsageBy::group) columns = "r.kind, g.name, g.group_size, r.algorithm";
  if (by == UsageBy::unit) columns = "r.unit, r.kind";
  if (by != UsageBy::operation) order = "exposed";
  return fmt::format(
      "SELECT {0}, count(*) AS count, sum(r.bytes) AS bytes, sum(r.duration) AS duration,\n"
      "       sum(r.wait) AS wait, sum(r.transfer) AS transfer, sum(r.exposed) AS exposed\n"
      "FROM op_rank r{1}\n"
      "WHERE r.rank = {2} AND r.begin >= {3} AND r.begin < {4}{5}\n"
      "GROUP BY {0} ORDER BY {6} DESC;",
      columns,
      by == UsageBy::group
          ? " JOIN op o ON o.id = r.op JOIN communicator g ON g.id = o.communicator"
          : "",
      rank, from, to, by == UsageBy::operation ? "" : " AND r.wait IS NOT NULL", order);
}

std::string usage_csv(const std::vector<analysis::GroupUsage>& rows) {
  std::string csv = query::csv_line({"name", "kind", "group", "group_size", "algorithm", "count",
                                     "bytes", "duration", "wait", "transfer", "exposed", "blocking",
                                     "algbw", "busbw", "link"});
  for (const Row& r : rows) {
    csv += query::csv_line(
        {r.name, std::string(name_of(r.kind)), r.group, std::to_string(r.group_size), r.algorithm,
         std::to_string(r.count), std::to_string(r.bytes.value), std::to_string(r.duration),
         std::to_string(r.wait), std::to_string(r.transfer), std::to_string(r.exposed),
         r.blocking < 0 ? "" : std::to_string(r.blocking),
         fmt::format("{:.0f}", r.algorithm_bandwidth), fmt::format("{:.0f}", r.bus_bandwidth),
         r.link_bandwidth > 0 ? fmt::format("{:.0f}", r.link_bandwidth) : ""});
  }
  return csv;
}

}  // namespace tessera::inspector
