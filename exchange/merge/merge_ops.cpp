// SPDX-License-Identifier: Apache-2.0
#include "exchange/merge/merge_ops.h"

#include <fmt/format.h>

#include <limits>
#include <vector>

namespace tessera::exchange {
namespace {

bool same_op(const storage::OpRow& a, const storage::OpRow& b) {
  return a.kind == b.kind && a.stream == b.stream && a.communicator == b.communicator &&
         a.step == b.step && a.micro_batch == b.micro_batch && a.phase == b.phase &&
         a.reason == b.reason && a.unit == b.unit && a.module == b.module && a.label == b.label &&
         a.bytes == b.bytes && a.dtype == b.dtype && a.flops == b.flops;
}

Result<std::vector<storage::OpRow>> fetch_ops(const storage::TraceReader& reader,
                                              const storage::OpRow* last, std::int32_t most) {
  constexpr std::int32_t id_max = std::numeric_limits<std::int32_t>::max();
  if (last == nullptr) return reader.first_ops(0, most);
  if (last->id == id_max) return std::vector<storage::OpRow>();
  return reader.first_ops(last->id + 1, most);
}

}  // namespace

MergeOps::MergeOps(const MergeSources& all) : all_(all), pages_(all, id_of, fetch_ops) {}

Result<const MergeOp*> MergeOps::next() {
  TESSERA_ASSIGN(const auto rows, pages_.next());
  if (rows.empty()) return nullptr;
  const auto& [first, op] = rows.front();
  for (const auto& [source, row] : rows) {
    if (same_op(*op, *row)) continue;
    return not_one_run(
        all_, first, source,
        fmt::format("operation {} is \"{}\" of step {} in one and \"{}\" of step {} in the other",
                    op->id, op->label, op->step, row->label, row->step));
  }
  op_ = {*op, first, nullptr};
  for (const storage::CommunicatorRow& c : all_.info(first).communicators) {
    if (c.id == op->communicator) op_.communicator = &c;
  }
  return &op_;
}

}  // namespace tessera::exchange
