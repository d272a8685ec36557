// SPDX-License-Identifier: Apache-2.0
#include "cli/train/train_log.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "cli/command.h"
#include "cli/report/table.h"

namespace tessera::cli {

TrainLog::TrainLog(const TrainFigures& figures)
    : figures_(figures), progress_("training", "steps", figures.quiet) {}

Status TrainLog::open_json(const std::string& path, bool append) {
  path_ = path;
  json_.open(path, append ? std::ios::app : std::ios::trunc);
  if (json_) return {};
  return Status(Code::io_error, fmt::format("--json {}: cannot be written", path));
}

std::optional<double> TrainLog::mfu(double seconds_per_step) const {
  if (!(figures_.peak_flops > 0) || !(seconds_per_step > 0)) return {};
  return figures_.flops_per_step / seconds_per_step / figures_.peak_flops;
}

void TrainLog::step(const LoggedStep& logged) {
  const TrainedStep& step = logged.step;
  seconds_ += logged.seconds;
  all_seconds_ += logged.seconds;
  ++steps_;
  if (json_.is_open()) write_json(logged);
  const bool last = step.step == figures_.steps;
  if (step.step % figures_.log_every == 0 || last || logged.validation_loss) {
    progress_.clear();
    if (!figures_.quiet) print(logged);
    seconds_ = 0;
    steps_ = 0;
  }
  const auto done = static_cast<double>(step.step - figures_.first);
  const double left = all_seconds_ / done * static_cast<double>(figures_.steps - step.step);
  progress_.update(step.step, figures_.steps, readable_time(left) + " left");
}

namespace {

std::string scale_text(const TrainedStep& step) {
  if (!step.loss_scale) {
    return step.skipped_steps > 0 ? fmt::format("| {} skipped ", step.skipped_steps) : "";
  }
  return fmt::format("| scale {:g}, {} skipped ", *step.loss_scale, step.skipped_steps);
}

}  // namespace

void TrainLog::print(const LoggedStep& logged) {
  const TrainedStep& step = logged.step;
  const double seconds = seconds_ / static_cast<double>(steps_);
  const auto width = fmt::formatted_size("{}", figures_.steps);
  const auto share = mfu(seconds);
  fmt::print(
      "step {:>{}}/{} | loss {:.4f} {}| norm {:.3f} {}| lr {:.2e} | {:.1f} ms | {} tokens/s | "
      "MFU {} | {}\n",
      step.step, width, figures_.steps, step.loss,
      logged.validation_loss ? fmt::format("| validation {:.4f} ", *logged.validation_loss) : "",
      step.grad_norm, scale_text(step), step.learning_rate, seconds * 1e3,
      with_separators(static_cast<std::int64_t>(static_cast<double>(step.tokens) / seconds)),
      share ? fmt::format("{:.1f}%", *share * 100) : "-", readable(logged.memory));
  std::fflush(stdout);
}

void TrainLog::write_json(const LoggedStep& logged) {
  const TrainedStep& step = logged.step;
  nlohmann::ordered_json line;
  line["step"] = step.step;
  line["loss"] = step.loss;
  if (logged.validation_loss) line["validation_loss"] = *logged.validation_loss;
  line["grad_norm"] = step.grad_norm;
  line["learning_rate"] = step.learning_rate;
  if (step.loss_scale) line["loss_scale"] = *step.loss_scale;
  if (step.loss_scale || step.skipped_steps > 0) line["skipped_steps"] = step.skipped_steps;
  line["ms"] = logged.seconds * 1e3;
  line["tokens"] = step.tokens;
  line["tokens_per_s"] = static_cast<double>(step.tokens) / logged.seconds;
  const auto share = mfu(logged.seconds);
  line["mfu"] = share ? nlohmann::ordered_json(*share) : nlohmann::ordered_json(nullptr);
  line["memory_bytes"] = logged.memory.value;
  if (const GraphCounts& graphs = logged.graphs; graphs.all() > 0) {
    line["graphs"] = {{"launched", graphs.launched},
                      {"first", graphs.first},
                      {"moved", graphs.moved},
                      {"unrepeated", graphs.unrepeated}};
  }
  json_ << line.dump() << '\n' << std::flush;
  if (json_) return;
  json_.close();
  print_warnings(
      {fmt::format("--json {}: cannot be written, is the disk full? It ends before step "
                   "{}; training goes on",
                   path_, step.step)});
}

std::string readable(Bytes bytes) {
  const auto value = static_cast<double>(bytes.value);
  if (value >= 1 << 30) return fmt::format("{:.2f} GiB", value / (1 << 30));
  return fmt::format("{:.1f} MiB", value / (1 << 20));
}

std::string readable_flops(double flops_per_s) {
  if (flops_per_s >= 1e12) return fmt::format("{:.1f} TFLOP/s", flops_per_s / 1e12);
  return fmt::format("{:.1f} GFLOP/s", flops_per_s / 1e9);
}

std::string readable_time(double seconds) {
  const auto whole = static_cast<std::int64_t>(seconds + 0.5);
  if (whole >= 3600) {
    return fmt::format("{}:{:02}:{:02}", whole / 3600, whole / 60 % 60, whole % 60);
  }
  return fmt::format("{}:{:02}", whole / 60, whole % 60);
}

}  // namespace tessera::cli
