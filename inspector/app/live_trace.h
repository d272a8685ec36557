// SPDX-License-Identifier: Apache-2.0
// A trace that may still be written: it is opened again, beside the frames, when there is more.
//
// The idea: a recording commits several times a second, and a reader sees what was committed when
// it opened the file. So to follow one is to open it again; what is shown stays until then.
//
//   LiveTrace live(path, model->info().unfinished);
//   each frame: if (auto newer = live.take(*model, /*wait=*/false)) model = std::move(newer);
#pragma once

#include <array>
#include <chrono>
#include <cstdint>
#include <future>
#include <memory>
#include <string>

#include "inspector/model/trace_model.h"

namespace tessera::inspector {

class LiveTrace {
 public:
  /// `path`: what was opened; `unfinished`: whether it was a recording under way then.
  LiveTrace(const std::string& path, bool unfinished);
  LiveTrace(const LiveTrace&) = delete;
  LiveTrace& operator=(const LiveTrace&) = delete;

  /// False: what is shown is all there will be.
  bool goes_on() const { return goes_on_; }
  /// A newer model than `shown`, with the same ranks loaded, or nullptr. It is looked for twice a
  /// second at most, less often where opening takes long; with `wait` now, in this thread.
  std::unique_ptr<TraceModel> take(const TraceModel& shown, bool wait);

 private:
  using Clock = std::chrono::steady_clock;
  using Opened = Result<std::unique_ptr<TraceModel>>;
  // Sizes and times of the recording and its log.
  using Stamp = std::array<std::int64_t, 4>;

  Stamp stamp() const;
  std::string file() const;
  std::unique_ptr<TraceModel> accept(Opened opened);

  std::string partial_, finished_;  // names during the recording and afterwards
  bool goes_on_;
  Stamp seen_{};
  Clock::time_point began_, next_;
  std::future<Opened> opening_;
};

}  // namespace tessera::inspector
