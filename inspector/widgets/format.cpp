// SPDX-License-Identifier: Apache-2.0
#include "inspector/widgets/format.h"

#include <fmt/format.h>

#include <array>
#include <cmath>
#include <span>

#include "tessera/analysis/text.h"

namespace tessera::inspector {
namespace {

// Three significant digits, never "1.00e+03".
std::string three_digits(double value) {
  const double size = std::abs(value);
  if (size >= 99.95 || value == 0) return fmt::format("{:.0f}", value);
  return size >= 9.995 ? fmt::format("{:.1f}", value) : fmt::format("{:.2f}", value);
}

std::string scaled(double value, double base, std::span<const char* const> units) {
  std::size_t k = 0;
  while (k + 1 < units.size() && std::abs(value) >= base * 0.9995) {
    value /= base;
    ++k;
  }
  return fmt::format("{} {}", three_digits(value), units[k]);
}

}  // namespace

std::string format_time(Time ns) { return analysis::time_text(ns); }

std::string format_moment(Time time, Time range) { return analysis::moment_text(time, range); }

std::string format_bytes(Bytes bytes) {
  static constexpr std::array units = {"B", "kB", "MB", "GB", "TB", "PB"};
  return scaled(static_cast<double>(bytes.value), 1000, units);
}

std::string format_memory(Bytes bytes) {
  static constexpr std::array units = {"B", "KiB", "MiB", "GiB", "TiB", "PiB"};
  return scaled(static_cast<double>(bytes.value), 1024, units);
}

std::string format_rate(double bytes_per_s) {
  static constexpr std::array units = {"B/s", "kB/s", "MB/s", "GB/s", "TB/s"};
  return scaled(bytes_per_s, 1000, units);
}

std::string format_flops(double flops) {
  static constexpr std::array units = {"FLOP", "kFLOP", "MFLOP", "GFLOP", "TFLOP", "PFLOP"};
  return scaled(flops, 1000, units);
}

std::string format_percent(double share) { return fmt::format("{} %", three_digits(100 * share)); }

std::string format_count(std::int64_t n) { return analysis::with_separators(n); }

std::string format_many(std::int64_t count, const char* noun) {
  return fmt::format("{} {}{}", format_count(count), noun, count == 1 ? "" : "s");
}

std::string format_metric(analysis::Metric metric, std::int64_t value) {
  return metric == analysis::Metric::peak_memory ? format_memory(Bytes{value}) : format_time(value);
}

}  // namespace tessera::inspector
