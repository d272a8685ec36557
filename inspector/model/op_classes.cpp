// SPDX-License-Identifier: Apache-2.0
#include "inspector/model/op_classes.h"

#include <algorithm>

namespace tessera::inspector {
namespace {

constexpr std::size_t ids_at_once = 8192;

}  // namespace

OpClass class_of(const storage::OpSort& op) {
  switch (op.kind) {
    case OpKind::all_gather: return OpClass::all_gather;
    case OpKind::reduce_scatter: return OpClass::reduce_scatter;
    case OpKind::all_reduce: return OpClass::all_reduce;
    case OpKind::broadcast: return OpClass::broadcast;
    case OpKind::all_to_all: return OpClass::all_to_all;
    case OpKind::reduce: return OpClass::reduce;
    case OpKind::copy: return OpClass::host;
    default: break;
  }
  switch (op.reason) {
    case Reason::recompute: return OpClass::recompute;
    case Reason::copy_in:  // the engine's own work on buffers
    case Reason::copy_out:
    case Reason::divide:
    case Reason::accumulate: return OpClass::host;
    default: break;
  }
  if (op.phase == Phase::forward) return OpClass::forward;
  return op.phase == Phase::backward ? OpClass::backward : OpClass::optimizer;
}

OpClass class_of(const storage::OpRow& op) {
  return class_of(storage::OpSort{op.id, op.stream, op.kind, op.phase, op.reason});
}

Result<OpClasses> OpClasses::of(const storage::TraceReader& reader) {
  OpClasses classes(reader);
  TESSERA_ASSIGN(const auto range, reader.op_range());
  classes.first_ = range.first;
  classes.end_ = range.second;
  const auto ids = static_cast<std::size_t>(range.second - range.first);
  classes.classes_.assign(ids, static_cast<std::uint8_t>(OpClass::optimizer));
  classes.known_.assign(ids / ids_at_once + 1, false);
  return classes;
}

OpClass OpClasses::at(std::int32_t op) {
  if (op < first_ || op >= end_) return OpClass::optimizer;
  const auto place = static_cast<std::size_t>(op - first_);
  if (!known_[place / ids_at_once]) read(place / ids_at_once);
  return static_cast<OpClass>(classes_[place]);
}

void OpClasses::read(std::size_t page) {
  known_[page] = true;
  const std::size_t from = page * ids_at_once;
  const std::size_t to = std::min(from + ids_at_once, classes_.size());
  const auto id = [&](std::size_t place) { return first_ + static_cast<std::int32_t>(place); };
  const auto sorts = reader_->op_sorts(id(from), id(to));
  if (!sorts.ok()) {
    problem_ = sorts.status();
    return;
  }
  for (const storage::OpSort& op : *sorts) {
    classes_[static_cast<std::size_t>(op.id - first_)] = static_cast<std::uint8_t>(class_of(op));
  }
}

}  // namespace tessera::inspector
