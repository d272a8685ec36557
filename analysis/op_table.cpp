// SPDX-License-Identifier: Apache-2.0
#include "analysis/op_table.h"

namespace tessera::analysis {

std::int32_t OpLooks::place_of(const storage::OpRow& op) {
  const auto found =
      places_.find(Known{op.micro_batch, op.unit, op.module, op.kind, op.phase, op.reason});
  if (found != places_.end()) return found->second;
  const auto place = static_cast<std::int32_t>(looks_.size());
  Key key{op.micro_batch, op.unit, op.module, op.kind, op.phase, op.reason};
  places_.emplace(key, place);
  std::get<Reason>(key) = Reason::none;
  const std::int32_t alike = alike_.emplace(std::move(key), place).first->second;
  looks_.push_back({op.unit, op.kind, op.phase, op.reason, alike});
  return place;
}

OpTable::OpTable(const std::vector<storage::OpRow>& ops, OpLooks& looks) : looks_(&looks) {
  std::vector<std::int32_t> ids;
  for (const storage::OpRow& op : ops) {
    add(op);
    ids.push_back(op.id);
  }
  places_ = IdPlaces(std::move(ids));
}

Result<OpTable> OpTable::of(const Trace& trace, std::int32_t first, std::int32_t end,
                            OpLooks& looks) {
  OpTable table(looks);
  std::vector<std::int32_t> ids;
  TESSERA_TRY(trace.for_each_op([&](const storage::OpRow& op) {
    table.add(op);
    ids.push_back(op.id);
    if (op.step < first || op.step >= end) return;
    OpWork& work = table.work_[static_cast<std::size_t>(op.kind)];
    ++work.count;
    work.bytes += static_cast<double>(op.bytes.value);
  }));
  table.places_ = IdPlaces(std::move(ids));
  return table;
}

void OpTable::add(const storage::OpRow& op) {
  step_.push_back(op.step);
  look_.push_back(looks_->place_of(op));
}

}  // namespace tessera::analysis
