// SPDX-License-Identifier: Apache-2.0
#include "engine/backends/cuda/device_clock.h"

#include <cmath>

#include "engine/backends/cuda/calls.h"

namespace tessera {
namespace {

constexpr int references_at_start = 16;
constexpr Time between_references = 100'000'000;
constexpr Rank device_rank = 1;

}  // namespace

DeviceClock::~DeviceClock() {
  for (CudaEvent event : {reference_, next_}) {
    if (event != nullptr) events_.give_back(event);
  }
  if (stream_ != nullptr) api_.stream_destroy(stream_);
}

Status DeviceClock::open(const Wait& wait) {
  TESSERA_TRY(cuda_status(api_, api_.stream_create(&stream_, /*priority=*/-1),
                          "cudaStreamCreateWithPriority"));
  for (int k = 0; k < references_at_start; ++k) {
    TESSERA_TRY(record());
    TESSERA_TRY(wait([this] { return look(); }));
  }
  open_ = true;
  return {};
}

Status DeviceClock::tick() {
  if (!open_) return {};
  if (next_ != nullptr) return look().status();
  return host_() - recorded_ < between_references ? Status{} : record();
}

Status DeviceClock::record() {
  recorded_ = host_();
  TESSERA_ASSIGN(next_, events_.record(stream_));
  return {};
}

Result<bool> DeviceClock::look() {
  TESSERA_ASSIGN(const bool over, has_happened(api_, next_));
  if (!over) return false;
  const Time seen = host_();
  Time happened = 0;
  if (reference_ != nullptr) {
    TESSERA_ASSIGN(happened, device_time(next_));
    events_.give_back(reference_);
  }
  reference_ = std::exchange(next_, nullptr);
  reference_time_ = happened;
  if (open_) {
    clocks_.bound(device_rank, happened - seen, happened - recorded_, happened);
  } else {
    clocks_.exchange(device_rank, recorded_, happened, seen);
  }
  return true;
}

Result<Time> DeviceClock::device_time(CudaEvent event) const {
  float milliseconds = 0;
  TESSERA_TRY(cuda_status(api_, api_.event_elapsed_time(&milliseconds, reference_, event),
                          "cudaEventElapsedTime"));
  return reference_time_ + std::llround(double{milliseconds} * 1e6);
}

Result<Time> DeviceClock::time_of(CudaEvent event) const {
  TESSERA_ASSIGN(const Time happened, device_time(event));
  return clocks_.aligned(device_rank, happened);
}

}  // namespace tessera
