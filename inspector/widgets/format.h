// SPDX-License-Identifier: Apache-2.0
// Numbers for people: three significant digits and a unit.
#pragma once

#include <cstdint>
#include <string>

#include "tessera/analysis/metrics.h"
#include "tessera/types.h"

namespace tessera::inspector {

std::string format_time(Time ns);  // "1.24 ms", "84.1 µs", "39.4 min"
/// A moment with as many digits as tell hundredths of `range` apart: "24,287.12 ms".
std::string format_moment(Time time, Time range);
std::string format_bytes(Bytes bytes);   // "404.8 MB", "1.21 GB" (powers of 1000, as links count)
std::string format_memory(Bytes bytes);  // "41.2 GiB" (powers of 1024, as GPUs count)
std::string format_rate(double bytes_per_s);  // "301 GB/s"
std::string format_flops(double flops);       // "1.24 TFLOP", "84.1 GFLOP"
std::string format_percent(double share);     // 0.164 -> "16.4 %"
std::string format_count(std::int64_t n);     // "8,030,261,248"
/// `count` names things: "1 rank", "64 ranks".
std::string format_many(std::int64_t count, const char* noun);

/// A value of a metric, ns or bytes.
std::string format_metric(analysis::Metric metric, std::int64_t value);

}  // namespace tessera::inspector
