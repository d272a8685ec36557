// SPDX-License-Identifier: Apache-2.0
#include "exchange/formats/kineto_context.h"

#include <algorithm>
#include <limits>
#include <tuple>

#include "exchange/parse/json_cursor.h"

namespace tessera::exchange {
namespace {

constexpr std::size_t open_frames_max = 200;  // open at once; deeper ones say nothing more
constexpr std::string_view step_prefix = "ProfilerStep#";
constexpr std::string_view optimizer_prefix = "Optimizer.step#";
constexpr std::string_view backward_prefix = "autograd::engine::evaluate_function: ";

/// "layers.0" of "FSDP::all_gather (layers.0)"; the root has no name there.
std::string_view unit_in(std::string_view name) {
  const auto open = name.rfind(" (");
  if (open != std::string_view::npos && name.ends_with(')')) {
    const auto unit = name.substr(open + 2, name.size() - open - 3);
    return unit.empty() ? "root" : unit;
  }
  const auto after = name.find(" for ");
  if (after == std::string_view::npos) return "root";
  const auto unit = name.substr(after + 5);
  return unit.empty() ? "root" : unit;
}

bool has(std::string_view text, std::string_view part) {
  return text.find(part) != std::string_view::npos;
}

}  // namespace

KinetoContexts::KinetoContexts(const KinetoFile& file, ImportedRun& run) {
  frames_.resize(file.threads.size());
  backward_threads_.resize(file.threads.size());
  root_ = run.text("root");
  find_steps(file, run);
  first_backward_.assign(steps_.size() + 1, std::numeric_limits<Time>::max());
  for (const KinetoEvent& event : file.events) add(event, run);
  for (auto& frames : frames_) {
    std::sort(frames.begin(), frames.end(), [](const Frame& a, const Frame& b) {
      return std::tuple(a.begin, -a.end, a.mark, a.unit) <
             std::tuple(b.begin, -b.end, b.mark, b.unit);
    });
    find_marks(frames);
  }
  find_main(file);
}

void KinetoContexts::add(const KinetoEvent& event, ImportedRun& run) {
  if (event.category != KinetoCategory::annotation && event.category != KinetoCategory::cpu_op) {
    return;
  }
  Frame frame = frame_of(run.text(event.name), run);
  const bool operation = event.category == KinetoCategory::cpu_op;
  if (operation && frame.mark == Frame::Mark::none) frame.mark = Frame::Mark::operation;
  frame.begin = event.begin;
  frame.end = event.end;
  const auto thread = static_cast<std::size_t>(event.thread);
  if (operation && frame.phase == Phase::backward) {
    backward_threads_[thread] = true;
    const std::int64_t step = step_at(event.begin);
    const auto found = std::lower_bound(
        steps_.begin(), steps_.end(), step,
        [](const ImportedStep& a, std::int64_t number) { return a.number < number; });
    Time& first = first_backward_[static_cast<std::size_t>(found - steps_.begin())];
    first = std::min(first, event.begin);
  }
  frames_[thread].push_back(frame);
}

KinetoContexts::Frame KinetoContexts::frame_of(std::string_view name, ImportedRun& run) {
  Frame frame;
  if (name.starts_with("FSDP::")) {
    scheme_ = "fully_shard";
    const std::string unit(unit_in(name));
    frame.unit = run.text(unit);
    frame.has_unit = true;
    const std::string_view what = name.substr(6);
    if (what.starts_with("pre_forward")) {
      frame.phase = Phase::forward;
      frame.mark = Frame::Mark::enter_forward;
    } else if (what.starts_with("post_forward")) {
      frame.phase = Phase::forward;
      frame.mark = Frame::Mark::leave_forward;
    } else if (what.starts_with("pre_backward")) {
      frame.phase = Phase::backward;
      frame.mark = Frame::Mark::enter_backward;
    } else if (what.starts_with("root_post_backward")) {
      frame.phase = Phase::backward;
      frame.mark = Frame::Mark::leave_backward;
      frame.has_unit = false;
    } else if (what.starts_with("all_gather_copy_out")) {
      frame.reason = Reason::copy_out;
      frame.memory_class = MemoryClass::unsharded_parameters;
    } else if (what.starts_with("all_gather")) {
      frame.reason = Reason::copy_in;
      frame.memory_class = MemoryClass::all_gather_buffers;
    } else if (what.starts_with("post_backward")) {
      frame.phase = Phase::backward;
    } else if (has(what, "prefetch")) {
      frame.collective_reason =
          what.starts_with("backward") ? Reason::backward_prefetch : Reason::forward_prefetch;
    } else if (what.starts_with("root_pre_forward")) {
      frame.has_unit = false;
    }
    if (what.starts_with("post_backward_reduce")) {
      frame.reason = Reason::copy_in;
      frame.collective_reason = Reason::reduce_gradients;
      frame.memory_class = MemoryClass::reduce_buffers;
      frame.mark = Frame::Mark::leave_unit;
    }
    if (what.starts_with("post_backward_accumulate")) frame.reason = Reason::accumulate;
    return frame;
  }
  if (name.starts_with(backward_prefix)) {
    frame.phase = Phase::backward;
    if (has(name, "CheckpointFunctionBackward")) frame.reason = Reason::recompute;
    return frame;
  }
  if (name.starts_with(optimizer_prefix)) {
    frame.phase = Phase::optimizer;
    frame.reason = Reason::step;
  } else if (name == "DistributedDataParallel.forward") {
    scheme_ = "replicate";
    frame.phase = Phase::forward;
  } else if (name.starts_with("FullyShardedDataParallel.")) {
    scheme_ = "full_shard";
    frame.phase = has(name, "backward") ? Phase::backward : Phase::forward;
    if (has(name, "_prefetch")) {
      frame.collective_reason =
          frame.phase == Phase::backward ? Reason::backward_prefetch : Reason::forward_prefetch;
    }
  }
  return frame;
}

void KinetoContexts::find_steps(const KinetoFile& file, const ImportedRun& run) {
  std::vector<ImportedStep> ends;
  Time first = std::numeric_limits<Time>::max();
  for (const KinetoEvent& event : file.events) {
    if (event.category != KinetoCategory::annotation && event.category != KinetoCategory::cpu_op) {
      continue;
    }
    const std::string_view name = run.text(event.name);
    first = std::min(first, event.begin);
    if (name.starts_with(step_prefix)) {
      steps_.push_back({decimal(name.substr(step_prefix.size()), 0), event.begin, event.end});
    } else if (name.starts_with(optimizer_prefix)) {
      ends.push_back({0, event.begin, event.end});
    }
  }
  if (steps_.empty()) {
    std::sort(ends.begin(), ends.end(),
              [](const ImportedStep& a, const ImportedStep& b) { return a.end < b.end; });
    for (const ImportedStep& step : ends) {
      steps_.push_back({static_cast<std::int64_t>(steps_.size()), first, step.end});
      first = step.end;
    }
  }
  std::sort(steps_.begin(), steps_.end(), [](const ImportedStep& a, const ImportedStep& b) {
    return std::pair(a.begin, a.number) < std::pair(b.begin, b.number);
  });
  // Numbers ascend with time, or a file has been put together from several.
  const auto wrong = std::adjacent_find(
      steps_.begin(), steps_.end(),
      [](const ImportedStep& a, const ImportedStep& b) { return a.number >= b.number; });
  constexpr std::int64_t most = std::numeric_limits<std::int32_t>::max();
  if (wrong != steps_.end() ||
      (!steps_.empty() && (steps_.front().number < 0 || steps_.back().number > most))) {
    for (std::size_t i = 0; i < steps_.size(); ++i) {
      steps_[i].number = static_cast<std::int64_t>(i);
    }
  }
}

// autograd calls the hooks of FSDP, which wait for collectives: such an operation is no computing.
void KinetoContexts::find_marks(std::vector<Frame>& frames) {
  std::vector<std::size_t> open;
  for (std::size_t i = 0; i < frames.size(); ++i) {
    std::erase_if(open, [&](std::size_t o) { return frames[o].end <= frames[i].begin; });
    if (frames[i].has_unit) {
      for (const std::size_t o : open) frames[o].holds_marks = true;
    }
    if (frames[i].mark == Frame::Mark::operation && open.size() < open_frames_max)
      open.push_back(i);
  }
}

void KinetoContexts::find_main(const KinetoFile& file) {
  std::vector<std::int64_t> votes(file.threads.size());
  for (const KinetoEvent& event : file.events) {
    const auto thread = static_cast<std::size_t>(event.thread);
    if (event.category == KinetoCategory::cpu_op) ++votes[thread];
  }
  for (std::size_t t = 0; t < frames_.size(); ++t) {
    for (const Frame& frame : frames_[t]) {
      if (frame.phase == Phase::optimizer || frame.mark == Frame::Mark::enter_forward) {
        votes[t] += 1'000'000;
      }
    }
  }
  const auto most = std::max_element(votes.begin(), votes.end());
  if (most != votes.end() && *most > 0) main_ = static_cast<std::int32_t>(most - votes.begin());
}

std::int64_t KinetoContexts::step_at(Time time) const {
  const auto after =
      std::upper_bound(steps_.begin(), steps_.end(), time,
                       [](Time t, const ImportedStep& step) { return t < step.begin; });
  if (after == steps_.begin()) return ImportedSpan::unknown_step;
  const ImportedStep& step = *std::prev(after);
  return time < step.end ? step.number : ImportedSpan::unknown_step;
}

bool KinetoContexts::before_backward(Time time) const {
  const auto after =
      std::upper_bound(steps_.begin(), steps_.end(), time,
                       [](Time t, const ImportedStep& step) { return t < step.begin; });
  if (after == steps_.begin()) return false;
  const Time first = first_backward_[static_cast<std::size_t>(after - steps_.begin()) - 1];
  return first != std::numeric_limits<Time>::max() && time < first;
}

bool KinetoContexts::runs_backward(std::int32_t thread) const {
  return backward_threads_[static_cast<std::size_t>(thread)];
}

void KinetoContexts::sort(std::vector<Question>& questions) {
  std::sort(questions.begin(), questions.end(), [](const Question& a, const Question& b) {
    return std::tuple(a.thread, a.time, a.id) < std::tuple(b.thread, b.time, b.id);
  });
}

KinetoContexts::Sweep::Sweep(const KinetoContexts& contexts, std::int32_t thread)
    : contexts_(contexts),
      frames_(contexts.frames_[static_cast<std::size_t>(thread)]),
      main_(thread == contexts.main_) {}

// Frames of a thread nest, but clocks are coarse: whatever is over is closed, in the order of ends.
void KinetoContexts::Sweep::close_until(Time time) {
  while (true) {
    auto first = open_.end();
    for (auto it = open_.begin(); it != open_.end(); ++it) {
      if (it->end <= time && (first == open_.end() || it->end <= first->end)) first = it;
    }
    if (first == open_.end()) return;
    const Frame frame = *first;
    open_.erase(first);
    close(frame);
  }
}

void KinetoContexts::Sweep::close(const Frame& frame) {
  switch (frame.mark) {
    case Frame::Mark::enter_forward: forward_.push_back(frame.unit); break;
    case Frame::Mark::leave_forward:
      if (!forward_.empty()) forward_.pop_back();
      break;
    case Frame::Mark::enter_backward:
      backward_ = frame.unit;
      in_backward_ = true;
      break;
    case Frame::Mark::leave_unit: backward_ = contexts_.root_; break;
    case Frame::Mark::leave_backward: in_backward_ = false; break;
    default: break;
  }
}

// Frames that begin at the time asked for are open already, but an operation is not inside itself.
KinetoContext KinetoContexts::Sweep::at(Time time) {
  while (next_ < frames_.size() && frames_[next_].begin <= time) {
    close_until(frames_[next_].begin);
    if (open_.size() < open_frames_max) open_.push_back(frames_[next_]);
    ++next_;
  }
  close_until(time);
  KinetoContext context;
  context.step = contexts_.step_at(time);
  if (context.step != step_) forward_.clear();  // whatever was not left
  step_ = context.step;
  if (main_ && contexts_.before_backward(time)) context.phase = Phase::forward;
  if (!forward_.empty()) {
    context.phase = Phase::forward;
    context.unit = forward_.back();
  }
  if (in_backward_ && forward_.empty()) context.unit = backward_;
  for (const Frame& frame : open_) {
    if (frame.phase != Phase::none) context.phase = frame.phase;
    if (frame.phase == Phase::optimizer) context.unit = 0;
    if (frame.has_unit) context.unit = frame.unit;
    if (frame.reason != Reason::none) context.reason = frame.reason;
    if (frame.collective_reason != Reason::none) {
      context.collective_reason = frame.collective_reason;
    }
    if (frame.memory_class != MemoryClass::unknown) context.memory_class = frame.memory_class;
    if (frame.mark != Frame::Mark::operation) continue;
    context.inside_op |= frame.begin < time && !frame.holds_marks;
    context.holds_marks |= frame.begin == time && frame.holds_marks;
  }
  return context;
}

}  // namespace tessera::exchange
