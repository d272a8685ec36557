// SPDX-License-Identifier: Apache-2.0
#include "cli/collective/nccl_log.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <charconv>
#include <cmath>
#include <sstream>
#include <utility>

namespace tessera::cli {
namespace {

// Programs of nccl-tests. "reduce_perf" is a part of no other name.
constexpr std::array<std::pair<std::string_view, OpKind>, 6> programs = {{
    {"all_gather_perf", OpKind::all_gather},
    {"reduce_scatter_perf", OpKind::reduce_scatter},
    {"all_reduce_perf", OpKind::all_reduce},
    {"alltoall_perf", OpKind::all_to_all},
    {"broadcast_perf", OpKind::broadcast},
    {"reduce_perf", OpKind::reduce},
}};
constexpr std::array<std::string_view, 4> failures = {"Test NCCL failure", "Test CUDA failure",
                                                      "Test HIP failure", "Test failure"};

std::optional<double> number(std::string_view word) {
  double value = 0;
  const auto [end, error] = std::from_chars(word.data(), word.data() + word.size(), value);
  if (error != std::errc{} || end != word.data() + word.size()) return std::nullopt;
  return value;
}

std::size_t digits(std::string_view text) {
  const auto end =
      std::find_if(text.begin(), text.end(), [](unsigned char c) { return std::isdigit(c) == 0; });
  return static_cast<std::size_t>(end - text.begin());
}

// Without "[1,0]<stdout>:" of mpirun --tag-output and "0: " of srun --label.
std::string_view untagged(std::string_view line) {
  if (line.starts_with("[")) {
    const auto end = line.find("<stdout>:");
    const bool tag = end != std::string_view::npos && digits(line.substr(1)) > 0;
    return tag ? line.substr(end + 9) : line;
  }
  const std::size_t rank = digits(line);
  return rank > 0 && line.substr(rank).starts_with(": ") ? line.substr(rank + 2) : line;
}

std::vector<std::string> words_of(std::string_view line) {
  std::istringstream stream{std::string(line)};
  std::vector<std::string> words;
  for (std::string word; stream >> word;) words.push_back(word);
  return words;
}

bool begins_like_a_row(const std::vector<std::string>& words) {
  return words.size() >= 2 && number(words[0]) && number(words[1]) &&
         (words.size() == 2 || !number(words[2]));
}

struct Row {
  NcclLogRow row;
  bool wrong = false;
};

// size, count, type, redop, root, then time, algbw, busbw, #wrong twice; versions before 2.12 have
// no root. Which it is shows where size / time is the bandwidth.
std::optional<Row> row_of(const std::vector<std::string>& words, bool& contradicts) {
  const double bytes = *number(words[0]);
  if (!(bytes >= 1) || !(bytes < 1e15)) return std::nullopt;
  for (const std::size_t time : {std::size_t{5}, std::size_t{4}}) {
    if (words.size() < time + 3) continue;
    const auto us = number(words[time]);
    const auto algbw = number(words[time + 1]);
    if (!us || !algbw || !number(words[time + 2]) || !(*us > 0)) continue;
    contradicts = std::abs(bytes / *us / 1e3 - *algbw) > 0.02 * *algbw + 0.011;
    if (contradicts) continue;
    const auto wrong = words.size() > time + 3 ? number(words[time + 3]) : std::nullopt;
    return Row{{Bytes{static_cast<std::int64_t>(bytes)}, *us}, wrong.value_or(0) >= 1};
  }
  return std::nullopt;
}

class Reader {
 public:
  explicit Reader(const std::string& source) : source_(source) {}

  Status read(std::string_view line) {
    ++line_;
    for (const auto& [program, kind] : programs) {
      if (line.find(program) == std::string_view::npos) continue;
      if (!logs_.back().rows.empty()) logs_.emplace_back();
      if (!logs_.back().kind) logs_.back().kind = kind;
      break;
    }
    if (line.find("Using devices") != std::string_view::npos && !logs_.back().rows.empty()) {
      logs_.emplace_back();
    }
    NcclLog& log = logs_.back();
    for (const std::string_view failure : failures) {
      if (log.failure.empty() && line.find(failure) != std::string_view::npos) log.failure = line;
    }
    if (line.starts_with("#  Rank") || line.starts_with("#   Rank")) ++log.ranks;
    const std::vector<std::string> words = words_of(line);
    return begins_like_a_row(words) ? add(words, log) : Status();
  }
  std::vector<NcclLog> take() {
    std::erase_if(logs_, [](const NcclLog& log) { return log.rows.empty() && log.wrong == 0; });
    return std::move(logs_);
  }

 private:
  Status add(const std::vector<std::string>& words, NcclLog& log) {
    bool contradicts = false;
    const std::optional<Row> row = row_of(words, contradicts);
    if (contradicts && !row) {
      return {Code::invalid_argument,
              fmt::format("{}: line {}: its size divided by its time is not its algbw: the time is "
                          "in us and algbw in GB/s in what nccl-tests print",
                          source_, line_)};
    }
    if (!row) {
      ++log.unread;
    } else if (row->wrong) {
      ++log.wrong;
    } else {
      log.rows.push_back(row->row);
    }
    return {};
  }

  const std::string& source_;
  std::vector<NcclLog> logs_ = std::vector<NcclLog>(1);
  int line_ = 0;
};

}  // namespace

Result<std::vector<NcclLog>> parse_nccl_logs(std::string_view text, const std::string& source) {
  Reader reader(source);
  std::istringstream lines{std::string(text)};
  for (std::string line; std::getline(lines, line);) TESSERA_TRY(reader.read(untagged(line)));
  std::vector<NcclLog> logs = reader.take();
  if (!logs.empty()) return logs;
  return Status(Code::invalid_argument,
                fmt::format("{} has no row of nccl-tests: lines of size, count, type, redop, root, "
                            "time, algbw and busbw",
                            source));
}

std::vector<std::string> warnings_of(const NcclLog& log, const std::string& source) {
  std::vector<std::string> out;
  if (log.wrong > 0) {
    out.push_back(
        fmt::format("{}: {} rows had wrong results (#wrong) and are left out: what such "
                    "a machine is fast at is not worth knowing",
                    source, log.wrong));
  }
  if (log.unread > 0) {
    out.push_back(
        fmt::format("{}: {} lines begin like rows and cannot be read", source, log.unread));
  }
  if (!log.failure.empty()) {
    out.push_back(fmt::format("{}: the program failed: {}", source, log.failure));
  }
  return out;
}

}  // namespace tessera::cli
