// SPDX-License-Identifier: Apache-2.0
#include "cli/collective/collective_rows.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <string_view>

#include "engine/text/nearest_word.h"

namespace tessera::cli {
namespace {

constexpr std::array kinds = {OpKind::all_gather, OpKind::reduce_scatter, OpKind::all_reduce,
                              OpKind::broadcast,  OpKind::reduce,         OpKind::all_to_all};
constexpr std::int64_t bytes_max = std::int64_t{1} << 50;
constexpr std::size_t sizes_max = 1000;

Result<std::vector<Bytes>> doubling(Bytes first, Bytes last) {
  if (last < first) {
    return Status(Code::invalid_argument,
                  fmt::format("--sizes: {} is less than {}: give the smaller one first",
                              short_size(last), short_size(first)));
  }
  std::vector<Bytes> sizes;
  for (std::int64_t size = first.value; size <= last.value; size *= 2) sizes.push_back(Bytes{size});
  return sizes;
}

// Traffic of a link beside the bytes of the collective (nccl-tests, PERFORMANCE.md).
double bus_factor(OpKind kind, double n) {
  if (kind == OpKind::broadcast || kind == OpKind::reduce) return 1;
  return (kind == OpKind::all_reduce ? 2 : 1) * (n - 1) / n;
}

bool by_parts(OpKind kind) {
  return kind == OpKind::all_gather || kind == OpKind::reduce_scatter || kind == OpKind::all_to_all;
}

}  // namespace

Result<std::vector<OpKind>> parse_operations(const std::vector<std::string>& names) {
  std::vector<OpKind> found;
  for (const std::string& name : names) {
    if (name == "all") {
      found.insert(found.end(), kinds.begin(), kinds.end());
      continue;
    }
    const auto kind =
        std::find_if(kinds.begin(), kinds.end(), [&](OpKind k) { return name_of(k) == name; });
    if (kind != kinds.end()) {
      found.push_back(*kind);
      continue;
    }
    std::vector<std::string_view> known = {"all"};
    for (const OpKind k : kinds) known.push_back(name_of(k));
    const std::string_view meant = nearest_word(name, known);
    return Status(
        Code::invalid_argument,
        meant.empty()
            ? fmt::format("'{}' is no collective: choose {}", name, fmt::join(known, ", "))
            : fmt::format("'{}' is no collective: did you mean {}?", name, meant));
  }
  for (auto kind = found.begin(); kind != found.end(); ++kind) {
    if (std::find(found.begin(), kind, *kind) == kind) continue;
    return Status(Code::invalid_argument, fmt::format("'{}' is named twice", name_of(*kind)));
  }
  return found;
}

Result<Bytes> parse_size(const char* option, std::string_view text) {
  const auto bad = [&] {
    return Status(Code::invalid_argument,
                  fmt::format("{}: '{}' is no size: give bytes such as 4096, 32K, 16M or 1G, "
                              "at most 1024T",
                              option, text));
  };
  constexpr std::string_view units = "KMGT";
  std::string_view digits = text;
  std::int64_t unit = 1;
  if (const auto at = text.empty() ? units.npos : units.find(text.back()); at != units.npos) {
    unit = std::int64_t{1} << (10 * (at + 1));
    digits.remove_suffix(1);
  }
  std::int64_t value = 0;
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), value);
  if (error != std::errc{} || end != digits.data() + digits.size()) return bad();
  if (value < 1 || value > bytes_max / unit) return bad();
  return Bytes{value * unit};
}

Result<std::vector<Bytes>> parse_sizes(const std::string& text) {
  const std::size_t colon = text.find(':');
  if (colon != std::string::npos) {
    TESSERA_ASSIGN(const Bytes first,
                   parse_size("--sizes", std::string_view(text).substr(0, colon)));
    TESSERA_ASSIGN(const Bytes last,
                   parse_size("--sizes", std::string_view(text).substr(colon + 1)));
    return doubling(first, last);
  }
  std::vector<Bytes> sizes;
  for (std::size_t begin = 0; begin <= text.size();) {
    const std::size_t comma = std::min(text.find(',', begin), text.size());
    TESSERA_ASSIGN(const Bytes size,
                   parse_size("--sizes", std::string_view(text).substr(begin, comma - begin)));
    if (std::find(sizes.begin(), sizes.end(), size) != sizes.end()) {
      return Status(Code::invalid_argument,
                    fmt::format("--sizes: {} is there twice", short_size(size)));
    }
    sizes.push_back(size);
    begin = comma + 1;
  }
  if (sizes.size() > sizes_max) {
    return Status(Code::invalid_argument,
                  fmt::format("--sizes: {} sizes, give at most {}", sizes.size(), sizes_max));
  }
  return sizes;
}

std::string short_size(Bytes bytes) {
  constexpr std::string_view units = "KMGT";
  std::int64_t value = bytes.value;
  std::size_t unit = 0;
  while (unit < units.size() && value >= 1024 && value % 1024 == 0) {
    value /= 1024;
    ++unit;
  }
  return unit == 0 ? std::to_string(value) : fmt::format("{}{}", value, units[unit - 1]);
}

Bytes least_size(OpKind kind, Index ranks) {
  return bytes_of(Numel{by_parts(kind) ? ranks : 1}, DType::float32);
}

CollectiveTable collective_table(const sim::Cluster& cluster, const sim::CollectiveShape& group,
                                 OpKind kind, const std::vector<Bytes>& sizes) {
  CollectiveTable table{kind, {}};
  for (const Bytes bytes : sizes) {
    sim::CollectiveShape shape = group;
    shape.kind = kind;
    shape.bytes = bytes;
    CollectiveRow row{.bytes = bytes};
    row.count = bytes.value / least_size(kind, group.ranks).value;
    row.plan = plan_collective(cluster, shape);
    // Bytes by ns are GB/s.
    row.algbw = static_cast<double>(bytes.value) / static_cast<double>(row.plan.time);
    row.busbw = row.algbw * bus_factor(kind, group.ranks);
    table.rows.push_back(std::move(row));
  }
  return table;
}

}  // namespace tessera::cli
