// SPDX-License-Identifier: Apache-2.0
// The log of `tessera train`: a line per step for people, JSON, CSV and TensorBoard's events for
// programs.
#pragma once

#include <fstream>
#include <optional>
#include <string>
#include <vector>

#include "cli/report/progress.h"
#include "cli/train/event_file.h"
#include "tessera/host_runtime.h"
#include "tessera/trainer.h"

namespace tessera::cli {

/// Files that get the figures of each step; "": none.
struct LogFiles {
  std::string json;         // one object a line
  std::string csv;          // one line a step behind a line of names
  std::string tensorboard;  // folder of event files
};

/// Fails: invalid_argument, if a file of such a name is there that no run has written as its log.
Status check_logs(const LogFiles& files);

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

  /// Steps go to `files`; those of a run that goes on come behind what is there.
  /// Fails: io_error, naming the option.
  Status open(const LogFiles& files);

  /// A file that cannot be written any more ends with a warning.
  void step(const LoggedStep& logged);

 private:
  std::optional<double> mfu(double seconds_per_step) const;
  void print(const LoggedStep& logged);
  std::string json_line(const LoggedStep& logged) const;
  void write_csv(const LoggedStep& logged);
  void write_events(const LoggedStep& logged);
  void write_line(const std::string& line, const char* option, std::ofstream& file,
                  std::int64_t step);

  /// A number of a step: its names in CSV and in TensorBoard.
  struct Figure {
    const char* name;
    const char* tag;
    std::optional<double> value;
  };
  std::vector<Figure> figures_of(const LoggedStep& logged) const;

  const TrainFigures figures_;
  LogFiles files_;
  std::ofstream json_, csv_;
  std::optional<EventFile> events_;
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
