// SPDX-License-Identifier: Apache-2.0
#include "engine/backends/cuda/run_ahead.h"

#include "engine/backends/cuda/calls.h"

namespace tessera {

RunAhead::~RunAhead() {
  for (CudaEvent mark : marks_) events_.give_back(mark);
}

Status RunAhead::enqueued(CudaStream stream, int entries) {
  since_mark_ += entries;
  if (since_mark_ < window) return {};
  since_mark_ = 0;
  TESSERA_ASSIGN(const CudaEvent mark, events_.record(stream));
  marks_.push_back(mark);
  return {};
}

Result<bool> RunAhead::has_room() {
  if (marks_.size() < marks_max) return true;
  TESSERA_ASSIGN(const bool over, has_happened(api_, marks_.front()));
  if (!over) return false;
  events_.give_back(marks_.front());
  marks_.pop_front();
  return true;
}

}  // namespace tessera
