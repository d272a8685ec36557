// SPDX-License-Identifier: Apache-2.0
// The log of `tessera train`: a line per step for people, JSON for programs.
#pragma once

#include <fstream>
#include <optional>
#include <string>

#include "cli/report/progress.h"
#include "tessera/host_runtime.h"
#include "tessera/trainer.h"

namespace tessera::cli {

/// The quantities that the figures of a step refer to.
struct TrainFigures {
  std::int64_t steps = 1;     // of the run
  std::int64_t first = 0;     // done before
  double flops_per_step = 0;  // of the model, all ranks
  double peak_flops = 0;      // of all ranks; 0: unknown
  std::int64_t log_every = 1;
  bool quiet = false;
};

struct LoggedStep {
  TrainedStep step;
  double seconds = 0;
  Bytes memory{};  // the most that a rank held so far
  std::optional<float> validation_loss;
  GraphCounts graphs;  // so far
};

class TrainLog {
 public:
  explicit TrainLog(const TrainFigures& figures);

  /// Steps go to `path`, one JSON object a line; `append`: after those that are there.
  /// Fails: io_error, naming it.
  Status open_json(const std::string& path, bool append);

  /// A file that cannot be written ends with a warning.
  void step(const LoggedStep& logged);

 private:
  std::optional<double> mfu(double seconds_per_step) const;
  void print(const LoggedStep& logged);
  void write_json(const LoggedStep& logged);

  const TrainFigures figures_;
  std::string path_;
  std::ofstream json_;
  Progress progress_;
  double seconds_ = 0;      // of the steps since the last line
  std::int64_t steps_ = 0;  // likewise
  double all_seconds_ = 0;
};

/// "46.2 MiB".
std::string readable(Bytes bytes);
/// "989.4 TFLOP/s".
std::string readable_flops(double flops_per_s);
/// "3:05", "2:07:30".
std::string readable_time(double seconds);

}  // namespace tessera::cli
