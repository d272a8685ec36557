// SPDX-License-Identifier: Apache-2.0
#include "engine/schemes/zero3/deepspeed_swap_lines.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "engine/schemes/zero3/parameters/marks.h"
#include "tessera/assert.h"

namespace tessera {

std::string quoted_list(const std::vector<std::string>& names) {
  std::vector<std::string> quoted;
  for (const std::string& name : names) quoted.push_back(fmt::format("'{}'", name));
  return fmt::format("[{}]", fmt::join(quoted, ", "));
}

std::string DeepSpeedSwapLines::call(const char* name, const std::vector<std::string>& parameters,
                                     const char* async) const {
  return fmt::format("   SWAP.{} {} async={} free_buffers={} inflight={}", name,
                     quoted_list(parameters), async, free_, quoted_list(flying_));
}

void DeepSpeedSwapLines::end_call(std::vector<std::string>& lines) {
  if (!std::exchange(open_, false)) return;
  std::vector<std::string> names;
  for (const Read& read : reads_) names.push_back(read.parameter);
  lines.push_back(call("swap_in", names, async_ ? "True" : "False"));
  for (const Read& read : reads_) {
    lines.push_back(fmt::format("    AIO submit READ {}_param.tensor.swp numel={}",
                                ids_[read.parameter], read.numel));
    flying_.push_back(read.parameter);
    --free_;
  }
  reads_.clear();
}

bool DeepSpeedSwapLines::shows(const Mark& mark) {
  return mark.kind == marks::swapping_in || mark.kind == marks::swapping_in_ahead ||
         mark.kind == marks::reading || mark.kind == marks::reads_awaited ||
         mark.kind == marks::buffer_released;
}

void DeepSpeedSwapLines::note(const Mark& mark, const std::string& parameter,
                              std::vector<std::string>& lines) {
  TESSERA_ASSERT(shows(mark), "a mark of NVMe");
  if (mark.kind == marks::reading) {
    reads_.push_back({parameter, mark.number});
    return;
  }
  end_call(lines);
  if (mark.kind == marks::reads_awaited) {
    lines.push_back(call("synchronize_reads", {}, "-"));
    if (mark.number > 0) lines.push_back(fmt::format("    AIO wait -> {}", mark.number));
    flying_.clear();
  } else if (mark.kind == marks::buffer_released) {
    free_ = mark.number;
    lines.push_back(call("remove_partition_and_release_buffers", {parameter}, "-"));
  } else {
    open_ = true;
    async_ = mark.kind == marks::swapping_in_ahead;
    free_ = mark.number;
  }
}

}  // namespace tessera
