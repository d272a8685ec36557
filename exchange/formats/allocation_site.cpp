// SPDX-License-Identifier: Apache-2.0
#include "exchange/formats/allocation_site.h"

#include <fmt/format.h>

namespace tessera::exchange {
namespace {

constexpr int frames_max = 200;
constexpr std::size_t sites_max = 100'000;  // more than a program has

struct StackFrame {
  std::string_view name, file;
  std::int64_t line = 0;

  explicit StackFrame(TreeValue frame)
      : name(frame["name"].text()), file(frame["filename"].text()), line(frame["line"].integer()) {}
  bool in(std::string_view folder) const { return file.find(folder) != std::string_view::npos; }
  bool of_python() const { return file.ends_with(".py"); }
  bool of_torch() const { return in("/torch/") || file.starts_with("torch/"); }
};

std::string title_of(const StackFrame& frame) {
  const std::string_view file = frame.file.substr(frame.file.find_last_of('/') + 1);
  if (file.empty() || file == "??") return std::string(frame.name.substr(0, 120));
  return fmt::format("{} ({}:{})", frame.name.substr(0, 120), file.substr(0, 120), frame.line);
}

/// What the libraries on the stack allocate for; the innermost that says so counts.
MemoryClass class_of(const StackFrame& frame) {
  if (frame.in("fsdp/_fully_shard/_fsdp_coll") || frame.in("_fsdp_collectives")) {
    const bool reduces = frame.name.find("reduce") != std::string_view::npos;
    return reduces ? MemoryClass::reduce_buffers : MemoryClass::all_gather_buffers;
  }
  if (frame.in("_fsdp_param.py")) {
    const bool whole = frame.name.find("all_gather") != std::string_view::npos ||
                       frame.name.find("unsharded") != std::string_view::npos;
    return whole ? MemoryClass::unsharded_parameters : MemoryClass::sharded_parameters;
  }
  if (frame.in("torch/optim/")) {
    return frame.name == "_init_group" ? MemoryClass::optimizer_state : MemoryClass::temporary;
  }
  return MemoryClass::unknown;
}

}  // namespace

std::string site_of_frames(TreeValue frames) {
  std::string python, any;
  int left = frames_max;
  for (TreeItems items(frames); left > 0 && items.next(); --left) {
    const StackFrame frame(items.value());
    if (any.empty()) any = title_of(frame);
    if (!frame.of_python()) continue;
    if (!frame.of_torch()) return title_of(frame);
    if (python.empty()) python = title_of(frame);
  }
  return python.empty() ? any : python;
}

AllocationSite AllocationSites::of(TreeValue frames) {
  if (frames.size() == 0) return {};
  const auto [found, added] = known_.try_emplace(frames.identity());
  if (!added) return found->second;
  AllocationSite& site = found->second;
  if (known_.size() > sites_max) return site;
  site.name = run_.text(site_of_frames(frames));
  int left = frames_max;
  for (TreeItems items(frames); left > 0 && items.next(); --left) {
    site.memory_class = class_of(StackFrame(items.value()));
    if (site.memory_class != MemoryClass::unknown) break;
  }
  return site;
}

}  // namespace tessera::exchange
