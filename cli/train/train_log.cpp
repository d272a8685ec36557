// SPDX-License-Identifier: Apache-2.0
#include "cli/train/train_log.h"

#include <fmt/format.h>
#include <unistd.h>

#include <array>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "cli/command.h"
#include "cli/report/table.h"
#include "cli/text_file.h"

namespace tessera::cli {

TrainLog::TrainLog(const TrainFigures& figures)
    : figures_(figures), progress_("training", "steps", figures.quiet) {}

namespace {

std::string host_in_names() {
  std::array<char, 256> name{};
  return gethostname(name.data(), name.size() - 1) == 0 ? std::string(name.data()) : "host";
}

// What logs begin with; a full disk may have cut even that.
constexpr std::string_view json_begin = "{\"step\":", csv_begin = "step,";

Status check_log(const char* option, const std::string& path, std::string_view begin) {
  return check_overwrites(option, path, [begin](std::string_view text) {
    return begin.starts_with(text.substr(0, begin.size())) ? "" : "is no log of a run";
  });
}

Status open_file(const char* option, const std::string& path, bool append, std::ofstream& file) {
  if (path.empty()) return {};
  file.open(path, append ? std::ios::app : std::ios::trunc);
  if (file) return {};
  return Status(Code::io_error, fmt::format("{} {}: cannot be written", option, path));
}

}  // namespace

Status check_logs(const LogFiles& files) {
  TESSERA_TRY(check_log("--json", files.json, json_begin));
  return check_log("--csv", files.csv, csv_begin);
}

Status TrainLog::open(const LogFiles& files) {
  files_ = files;
  const bool append = figures_.first > 0;
  std::error_code error;
  const bool has_names = append && std::filesystem::file_size(files.csv, error) > 0 && !error;
  TESSERA_TRY(open_file("--json", files.json, append, json_));
  TESSERA_TRY(open_file("--csv", files.csv, append, csv_));
  if (csv_.is_open() && !has_names) {
    std::string names;
    for (const Figure& figure : figures_of({})) {
      names += fmt::format("{}{}", names.empty() ? "" : ",", figure.name);
    }
    csv_ << names << '\n' << std::flush;
  }
  if (files.tensorboard.empty()) return {};
  auto events = EventFile::create(files.tensorboard, host_in_names(), figures_.first);
  if (!events.ok()) {
    return Status(events.status().code(), "--tensorboard " + events.status().message());
  }
  events_ = std::move(events).value();
  return {};
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
  if (json_.is_open()) write_line(json_line(logged), "--json", json_, step.step);
  if (csv_.is_open()) write_csv(logged);
  if (events_) write_events(logged);
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

std::string TrainLog::json_line(const LoggedStep& logged) const {
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
  return line.dump();
}

std::vector<TrainLog::Figure> TrainLog::figures_of(const LoggedStep& logged) const {
  const TrainedStep& step = logged.step;
  const auto tokens = static_cast<double>(step.tokens);
  return {{"step", nullptr, static_cast<double>(step.step)},
          {"loss", "loss/train", step.loss},
          {"validation_loss", "loss/validation", logged.validation_loss},
          {"grad_norm", "optimizer/grad_norm", step.grad_norm},
          {"learning_rate", "optimizer/learning_rate", step.learning_rate},
          {"loss_scale", "optimizer/loss_scale", step.loss_scale},
          {"skipped_steps", "optimizer/skipped_steps", static_cast<double>(step.skipped_steps)},
          {"ms", "speed/ms", logged.seconds * 1e3},
          {"tokens", nullptr, tokens},
          {"tokens_per_s", "speed/tokens_per_s", tokens / logged.seconds},
          {"mfu", "speed/mfu", mfu(logged.seconds)},
          {"memory_bytes", "memory/bytes", static_cast<double>(logged.memory.value)}};
}

void TrainLog::write_csv(const LoggedStep& logged) {
  std::string line;
  for (const Figure& figure : figures_of(logged)) {  // the first, the step, always has a value
    if (!line.empty()) line += ',';
    if (!figure.value) continue;
    const bool whole = std::floor(*figure.value) == *figure.value;
    line += whole ? fmt::format("{:.0f}", *figure.value) : fmt::format("{:.9g}", *figure.value);
  }
  write_line(line, "--csv", csv_, logged.step.step);
}

void TrainLog::write_events(const LoggedStep& logged) {
  EventFile::Scalars scalars;
  for (const Figure& figure : figures_of(logged)) {
    if (figure.tag != nullptr && figure.value) scalars.emplace_back(figure.tag, *figure.value);
  }
  const Status written = events_->scalars(logged.step.step, all_seconds_, scalars);
  if (written.ok()) return;
  events_.reset();
  print_warnings({fmt::format("--tensorboard {} It ends before step {}; training goes on",
                              written.message(), logged.step.step)});
}

void TrainLog::write_line(const std::string& line, const char* option, std::ofstream& file,
                          std::int64_t step) {
  if (!file.is_open()) return;
  file << line << '\n' << std::flush;
  if (file) return;
  file.close();
  const bool json = &file == &json_;
  print_warnings(
      {fmt::format("{} {}: cannot be written, is the disk full? It ends before step {}; "
                   "training goes on",
                   option, json ? files_.json : files_.csv, step)});
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
