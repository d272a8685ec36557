// SPDX-License-Identifier: Apache-2.0
#include "engine/backends/cuda/windows.h"

#include <algorithm>

namespace tessera {

void EqualGrowth::placed(BufferId buffer, Rank ranks, Bytes reserved) {
  if (buffer != buffer_) {
    close();
    buffer_ = buffer;
    counted_ = 0;
    reserved_ = reserved;
    equal_ = true;
  }
  counted_ += ranks;
  equal_ = equal_ && reserved == reserved_;
  reserved_ = std::max(reserved_, reserved);
}

Bytes EqualGrowth::end() {
  close();
  return end_;
}

void EqualGrowth::close() {
  if (ended_ || reserved_ <= end_) return;
  if (equal_ && counted_ == ranks_) {
    end_ = reserved_;
  } else {
    ended_ = true;
  }
}

Status Windows::open() {
  if (api_.comm_window_register == nullptr) {
    return Status(Code::not_supported,
                  "CudaOptions::windows needs NCCL 2.27 or newer: switch it off");
  }
  open_ = true;
  return {};
}

Status Windows::cover(CommunicatorId id, const DeviceMemory& memory, Bytes end) {
  const NcclComm comm = communicators_.at(id);
  std::size_t& covered = covered_[id];
  while (covered < memory.segments() && memory.segment(covered).end <= end) {
    const DeviceMemory::Range range = memory.segment(covered++);
    known_.push_back({comm, nullptr});
    const int code = api_.comm_window_register(
        comm, memory.at(range.begin), static_cast<std::size_t>((range.end - range.begin).value),
        &known_.back().handle);
    TESSERA_TRY(communicators_.await(comm, code, "ncclCommWindowRegister"));
  }
  return {};
}

Status Windows::close() {
  for (const Known& known : known_) {
    TESSERA_TRY(communicators_.await(known.comm,
                                     api_.comm_window_deregister(known.comm, known.handle),
                                     "ncclCommWindowDeregister"));
  }
  known_.clear();
  return {};
}

}  // namespace tessera
