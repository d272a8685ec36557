// SPDX-License-Identifier: Apache-2.0
// The sizes of a plan as a table and as JSON.
#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "cli/plan/wrap_sizes.h"
#include "cli/report/table.h"

namespace tessera::cli {
namespace {

using Json = nlohmann::ordered_json;

const char* name_of(WrapLayout layout) { return layout == WrapLayout::flat ? "flat" : "dim0"; }

// By integers, so that every place rounds alike.
std::string mebibytes(Bytes bytes) {
  const std::int64_t tenths =
      bytes.value / (1 << 20) * 10 + bytes.value % (1 << 20) * 10 / (1 << 20);
  return fmt::format("{}.{}", with_separators(tenths / 10), tenths % 10);
}

double padding_share(const UnitSizes& sizes) {
  const Numel whole = sizes.numel + sizes.padding;
  return whole == Numel{}
             ? 0
             : static_cast<double>(sizes.padding.value) / static_cast<double>(whole.value);
}

std::string count_or_dash(std::int64_t count) { return count == 0 ? "-" : with_separators(count); }

// The table's columns depend on what there is to show.
class Columns {
 public:
  explicit Columns(const UnitSizes& total)
      : small_(total.unsharded < Bytes{1 << 20}),
        shared_(total.shared > 0),
        frozen_(total.frozen > 0) {}

  std::vector<std::string> names() const {
    const std::string bytes = small_ ? "bytes" : "MiB";
    std::vector<std::string> names = {"unit", "class",         "tensors", "elements",
                                      bytes,  bytes + "/rank", "padding", "%"};
    if (shared_) names.push_back("shared");
    if (frozen_) names.push_back("frozen");
    return names;
  }

  std::vector<std::string> cells(const UnitSizes& unit) const {
    std::vector<std::string> cells = {unit.path,
                                      unit.class_name,
                                      with_separators(unit.parameters),
                                      with_separators(unit.numel.value),
                                      size(unit.unsharded),
                                      size(unit.per_rank),
                                      with_separators(unit.padding.value),
                                      fmt::format("{:.2f}", 100 * padding_share(unit))};
    if (shared_) cells.push_back(count_or_dash(unit.shared));
    if (frozen_) cells.push_back(count_or_dash(unit.frozen));
    return cells;
  }

 private:
  std::string size(Bytes bytes) const {
    return small_ ? with_separators(bytes.value) : mebibytes(bytes);
  }

  bool small_, shared_, frozen_;
};

Json to_json(const UnitSizes& sizes) {
  return {{"parameters", sizes.parameters},
          {"numel", sizes.numel.value},
          {"unsharded_bytes", sizes.unsharded.value},
          {"rank_bytes", sizes.per_rank.value},
          {"padding_numel", sizes.padding.value},
          {"padding_share", padding_share(sizes)},
          {"shared", sizes.shared},
          {"frozen", sizes.frozen}};
}

}  // namespace

std::string wrap_text(const WrapSizes& sizes, bool bold) {
  const Columns columns(sizes.total);
  Table table(
      fmt::format("{}: {} units by policy {}, layout {}, {} on {} ranks", sizes.model,
                  with_separators(static_cast<std::int64_t>(sizes.units.size())), sizes.policy,
                  name_of(sizes.sharding.layout), tessera::name_of(sizes.sharding.dtype),
                  with_separators(sizes.sharding.ranks)),
      columns.names());
  for (const UnitSizes& unit : sizes.units) table.row(columns.cells(unit));
  UnitSizes total = sizes.total;
  total.path = "total";
  table.row(columns.cells(total));
  for (const UnitSizes& unit : sizes.units) {
    if (unit.aliases.empty()) continue;
    table.note(
        fmt::format("{} is also {}, replaced with it", unit.path, fmt::join(unit.aliases, ", ")));
  }
  if (sizes.ignored.parameters > 0) {
    table.note(fmt::format("ignored: {} tensors of {} elements, {} MiB on every rank",
                           with_separators(sizes.ignored.parameters),
                           with_separators(sizes.ignored.numel.value),
                           mebibytes(sizes.ignored.unsharded)));
  }
  for (const std::string& warning : sizes.warnings) table.note("warning: " + warning);
  return table.text(bold);
}

std::string wrap_json(const WrapSizes& sizes) {
  Json json = {{"tessera_wrap", 1},
               {"model", sizes.model},
               {"policy", sizes.policy},
               {"layout", name_of(sizes.sharding.layout)},
               {"ranks", sizes.sharding.ranks},
               {"dtype", tessera::name_of(sizes.sharding.dtype)},
               {"units", Json::array()},
               {"total", to_json(sizes.total)},
               {"ignored",
                {{"parameters", sizes.ignored.parameters},
                 {"numel", sizes.ignored.numel.value},
                 {"bytes", sizes.ignored.unsharded.value}}},
               {"warnings", sizes.warnings}};
  for (const UnitSizes& unit : sizes.units) {
    Json row = {{"path", unit.path == "(root)" ? "" : unit.path},
                {"class", unit.class_name},
                {"aliases", unit.aliases}};
    row.update(to_json(unit));
    json["units"].push_back(std::move(row));
  }
  return json.dump(2, ' ', false, Json::error_handler_t::replace);
}

}  // namespace tessera::cli
