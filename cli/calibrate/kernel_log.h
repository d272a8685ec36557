// SPDX-License-Identifier: Apache-2.0
// What scripts/kernel-sweep printed.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "tessera/sim/calibrate.h"
#include "tessera/status.h"

namespace tessera::cli {

struct KernelLog {
  Index multiprocessors = 0;         // 0: it does not say
  std::string attention = "flash2";  // the curve's name
  std::vector<sim::MeasuredKernel> kernels;
  std::size_t repeated = 0;  // lines that are there already, which are left out
};

/// Whether a file begins as that script's do.
bool is_kernel_log(std::string_view text);

/// Fails: invalid_argument, naming `source` and line.
Result<KernelLog> parse_kernel_log(std::string_view text, const std::string& source);

}  // namespace tessera::cli
