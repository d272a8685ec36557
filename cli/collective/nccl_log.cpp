// SPDX-License-Identifier: Apache-2.0
#include "cli/collective/nccl_log.h"

#include <fmt/format.h>

#include <array>
#include <charconv>
#include <sstream>
#include <utility>

namespace tessera::cli {
namespace {

// Programs of nccl-tests; the first that a comment names is the one that ran.
constexpr std::array<std::pair<std::string_view, OpKind>, 6> programs = {{
    {"all_gather_perf", OpKind::all_gather},
    {"reduce_scatter_perf", OpKind::reduce_scatter},
    {"all_reduce_perf", OpKind::all_reduce},
    {"alltoall_perf", OpKind::all_to_all},
    {"broadcast_perf", OpKind::broadcast},
    {"reduce_perf", OpKind::reduce},
}};

std::optional<double> number(const std::string& word) {
  double value = 0;
  const auto [end, error] = std::from_chars(word.data(), word.data() + word.size(), value);
  if (error != std::errc{} || end != word.data() + word.size()) return std::nullopt;
  return value;
}

// size, count, type, redop, root, then time, algbw, busbw, #wrong twice.
std::optional<NcclLogRow> row_of(const std::string& line) {
  std::istringstream stream(line);
  std::vector<std::string> words;
  for (std::string word; stream >> word;) words.push_back(word);
  if (words.size() < 8) return std::nullopt;
  const auto bytes = number(words[0]);
  const auto count = number(words[1]);
  const auto us = number(words[5]);
  const auto busbw = number(words[7]);
  if (!bytes || !count || !us || !busbw || number(words[2])) return std::nullopt;
  if (!(*bytes >= 1) || !(*bytes < 1e15) || !(*us > 0)) return std::nullopt;
  return NcclLogRow{Bytes{static_cast<std::int64_t>(*bytes)}, *us};
}

}  // namespace

Result<NcclLog> parse_nccl_log(std::string_view text, const std::string& source) {
  NcclLog log;
  std::istringstream lines{std::string(text)};
  for (std::string line; std::getline(lines, line);) {
    for (const auto& [program, kind] : programs) {
      if (!log.kind && line.find(program) != std::string::npos) log.kind = kind;
    }
    if (line.starts_with("#  Rank") || line.starts_with("#   Rank")) ++log.ranks;
    if (const auto row = row_of(line)) log.rows.push_back(*row);
  }
  if (!log.rows.empty()) return log;
  return Status(Code::invalid_argument,
                fmt::format("{} has no row of nccl-tests: lines of size, count, type, redop, root, "
                            "time, algbw and busbw",
                            source));
}

}  // namespace tessera::cli
