// SPDX-License-Identifier: Apache-2.0
// A recording in the notation of PyTorch's reducer: which gradients became ready, which buckets
// were reduced. For comparing line by line with recorded runs.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <map>

#include "tessera/recording.h"
#include "tessera/replicate.h"

namespace tessera {
namespace {

class DdpNotation {
 public:
  explicit DdpNotation(const Recording& recording) : recording_(recording) {}

  std::vector<std::string> lines() {
    for (const Record& record : recording_.records) {
      const bool bucket =
          record.kind != Record::Kind::op && record.buffer.valid() && is_bucket(record.buffer);
      if (bucket && record.kind == Record::Kind::allocate) buckets_[record.buffer];
      if (bucket && record.kind == Record::Kind::release) buckets_.erase(record.buffer);
      if (record.kind == Record::Kind::op && record.cause.phase != Phase::init) op(record);
    }
    return std::move(lines_);
  }

 private:
  struct Place {
    std::string_view parameter;
    Numel numel{};
  };
  using Places = std::map<Numel, Place>;  // by offset

  bool is_bucket(BufferId id) const {
    return recording_.buffers[id.index()].memory_class == MemoryClass::reduce_buffers;
  }

  void op(const Record& r) {
    if (const auto* note = std::get_if<Mark>(&r.op.what)) {
      const bool begins =
          note->kind == marks::phase && r.cause.phase == Phase::forward && r.cause.micro_batch == 0;
      if (begins) lines_.push_back(fmt::format("iter {}", r.cause.step));
      if (note->kind == marks::gradient_ready) {
        lines_.push_back(fmt::format("  grad computed {}", r.cause.module));
      }
    } else if (r.cause.reason == Reason::copy_in) {
      if (const auto* work = std::get_if<Compute>(&r.op.what)) remember(r, work->writes.at(0));
      if (const auto* copy = std::get_if<Copy>(&r.op.what)) remember(r, copy->pieces.at(0).to);
    } else if (const auto* reduce = std::get_if<AllReduce>(&r.op.what)) {
      if (is_bucket(reduce->output.buffer)) all_reduce(reduce->output);
    }
  }

  void remember(const Record& r, const View& to) {
    const auto found = buckets_.find(to.buffer);
    if (found != buckets_.end()) found->second[to.first] = {r.cause.module, to.numel};
  }

  void all_reduce(const View& view) {
    std::vector<std::string> parameters;
    for (const auto& [offset, place] : buckets_[view.buffer]) {
      parameters.push_back(fmt::format("'{}'", place.parameter));
    }
    // Buckets are allocated in the order in which they are reduced.
    const auto index = std::distance(buckets_.begin(), buckets_.find(view.buffer));
    const bool last = static_cast<std::size_t>(index) + 1 == buckets_.size();
    lines_.push_back(
        fmt::format("  allreduce bucket index={} is_last={} numel={} bytes={} params=[{}]", index,
                    last ? "True" : "False", view.numel.value,
                    bytes_of(view.numel, view.dtype).value, fmt::join(parameters, ", ")));
  }

  const Recording& recording_;
  std::map<BufferId, Places> buckets_;  // alive
  std::vector<std::string> lines_;
};

}  // namespace

std::vector<std::string> to_ddp_notation(const Recording& recording) {
  return DdpNotation(recording).lines();
}

}  // namespace tessera
