// SPDX-License-Identifier: Apache-2.0
#include "engine/backends/cuda/lane.h"

#include <algorithm>

#include "engine/backends/cuda/calls.h"

namespace tessera {
namespace {

constexpr std::size_t unread_events_max = 64;  // beyond it, querying costs less than keeping them

}  // namespace

Lane::~Lane() {
  for (const Recorded& recorded : recorded_) events_.give_back(recorded.event);
  if (stream_ != nullptr) api_.stream_destroy(stream_);
}

Status Lane::open(int priority) {
  return cuda_status(api_, api_.stream_create(&stream_, priority), "cudaStreamCreateWithPriority");
}

Status Lane::submitted(const Accessor& op, bool needs_event) {
  youngest_ = op;
  if (recorded_.size() > unread_events_max) TESSERA_TRY(retire());
  return needs_event ? record() : Status{};
}

Status Lane::record() {
  TESSERA_ASSIGN(const CudaEvent event, events_.record(stream_));
  recorded_.push_back({youngest_, event});
  return {};
}

// The first recorded CUDA event at or behind `event`. If there is none, one is recorded now: it
// covers younger work as well, so a wait for it may be longer than needed but never too short.
Result<CudaEvent> Lane::covering(EventId event) {
  if (event <= finished_ || !youngest_.event.valid()) return CudaEvent{};
  const auto later = [&](const Recorded& r) { return r.last.event >= event; };
  auto found = std::find_if(recorded_.begin(), recorded_.end(), later);
  if (found != recorded_.end()) return found->event;
  TESSERA_TRY(record());
  return recorded_.back().event;
}

// The awaited CUDA event may go back to the pool and be recorded again at once: a stream waits for
// the record that was the latest when cudaStreamWaitEvent was called.
Status Lane::wait(Lane& other, EventId event) {
  TESSERA_ASSIGN(const CudaEvent awaited, other.covering(event));
  if (awaited == nullptr) return {};
  return cuda_status(api_, api_.stream_wait_event(stream_, awaited), "cudaStreamWaitEvent");
}

Status Lane::retire() {
  while (!recorded_.empty()) {
    TESSERA_ASSIGN(const bool over, has_happened(api_, recorded_.front().event));
    if (!over) return {};
    finished_ = recorded_.front().last.event;
    events_.give_back(recorded_.front().event);
    recorded_.pop_front();
  }
  return {};
}

Result<bool> Lane::reached(EventId event) {
  TESSERA_TRY(covering(event).status());
  TESSERA_TRY(retire());
  return event <= finished_ || !youngest_.event.valid();
}

Accessor Lane::oldest() {
  if (!recorded_.empty()) return recorded_.front().last;
  return youngest_.event <= finished_ ? Accessor{} : youngest_;
}

}  // namespace tessera
