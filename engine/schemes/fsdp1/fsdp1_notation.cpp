// SPDX-License-Identifier: Apache-2.0
// A recording in the notation of recorded FSDP1 runs, so that it can be compared line by line.
//
// Those runs were seen through hooks on PyTorch 1.13: its stream names are kept, what its recorder
// did not see (autograd's tensors, divisions, the optimizer's work) is left out, and a unit's
// backward computation stands before what its pre-backward hook does.
#include <fmt/format.h>

#include <map>

#include "engine/schemes/fsdp1/marks.h"
#include "tessera/fsdp1.h"
#include "tessera/recording.h"

namespace tessera {
namespace {

class Fsdp1Notation {
 public:
  Fsdp1Notation(const Recording& recording, std::span<const UnitInfo> units)
      : recording_(recording), units_(units) {}

  std::vector<std::string> lines() {
    for (std::size_t k = 1; k < units_.size(); ++k) layout(units_[k]);
    if (!units_.empty()) layout(units_.front());
    for (const Record& record : recording_.records) {
      if (record.cause.phase == Phase::init) continue;
      switch (record.kind) {
        case Record::Kind::op: op(record); break;
        case Record::Kind::allocate: allocate(record); break;
        case Record::Kind::release: release(record); break;
        case Record::Kind::host_wait: host_wait(record); break;
      }
    }
    let_go();
    return std::move(lines_);
  }

 private:
  const Recording::Buffer& buffer(BufferId id) const { return recording_.buffers[id.index()]; }
  std::string stream(StreamId id) const {
    const std::string& name = recording_.streams[id.index()];
    if (name == "unshard") return "all_gather";
    return name == "pre_unshard" ? "pre_all_gather" : name;
  }

  void emit(std::string line) { (holding_ ? held_ : lines_).push_back(std::move(line)); }
  void let_go() {
    holding_ = false;
    for (std::string& line : held_) lines_.push_back(std::move(line));
    held_.clear();
  }

  void layout(const UnitInfo& unit) {
    emit(fmt::format("LAYOUT {} unpadded {} shard {} shard_numel_padded {}", unit.name,
                     unit.unsharded.value, unit.shard.value,
                     std::max<std::int64_t>(0, (unit.shard - unit.unsharded).value)));
  }

  static bool gathered(const Recording::Buffer& b) {
    return b.memory_class == MemoryClass::unsharded_parameters;
  }

  void allocate(const Record& record) {
    const auto& b = buffer(record.buffer);
    if (gathered(b))
      emit(fmt::format("[{}] ALLOC {} {}B", stream(b.stream), b.name, b.bytes.value));
  }

  void release(const Record& record) {
    const auto& b = buffer(record.buffer);
    if (!gathered(b)) return;
    const std::string user = user_of(record.event);
    emit(fmt::format("[{}] record_stream {} on {}", user, b.name, user));
    emit(fmt::format("[{}] FREE {}", user, b.name));
  }

  // The stream of the op that recorded `event`.
  std::string user_of(EventId event) const {
    const auto found = stream_of_event_.find(event);
    return found == stream_of_event_.end() ? "default" : stream(found->second);
  }

  void host_wait(const Record& record) {
    const auto found = events_.find(record.event);
    emit(found == events_.end() ? std::string("[host] stream.synchronize(BLOCK) default")
                                : fmt::format("[host] event.synchronize(BLOCK) {}", found->second));
  }

  void op(const Record& record) {
    if (record.event.valid()) stream_of_event_[record.event] = record.stream;
    std::visit([&](const auto& what) { this->what(record, what); }, record.op.what);
  }

  void what(const Record& r, const AllGather& o) {
    emit(fmt::format("[{}] ALL_GATHER {} in={} out={} torch.{}", stream(r.stream),
                     buffer(o.output.buffer).name, o.input.numel.value, o.output.numel.value,
                     name_of(o.output.dtype)));
  }
  void what(const Record& r, const ReduceScatter& o) {
    emit(fmt::format("[{}] REDUCE_SCATTER in={} out={} torch.{}", stream(r.stream),
                     o.input.numel.value, o.output.numel.value, name_of(o.output.dtype)));
  }
  void what(const Record& r, const AllReduce& o) {
    emit(fmt::format("[{}] ALL_REDUCE {} torch.{}", stream(r.stream), o.output.numel.value,
                     name_of(o.output.dtype)));
  }
  void what(const Record& r, const Reduce&) { emit(fmt::format("[{}] REDUCE", stream(r.stream))); }
  void what(const Record& r, const AllToAll&) {
    emit(fmt::format("[{}] ALL_TO_ALL", stream(r.stream)));
  }
  void what(const Record& r, const Broadcast& o) {
    emit(fmt::format("[{}] BROADCAST {}", stream(r.stream), buffer(o.data.buffer).name));
  }
  void what(const Record& r, const Copy& o) {
    if (r.cause.reason == Reason::copy_in || r.cause.reason == Reason::accumulate) return;
    emit(fmt::format("[{}] COPY {} -> {}", stream(r.stream),
                     buffer(o.pieces.at(0).from.buffer).name,
                     buffer(o.pieces.at(0).to.buffer).name));
  }

  void what(const Record& r, const Compute&) {
    if (r.cause.module.empty() || r.cause.phase == Phase::optimizer) return;
    const bool again = r.cause.reason == Reason::recompute;
    const bool backward = r.cause.phase == Phase::backward && !again;
    const std::string line = fmt::format("[{}] COMPUTE {} {}", stream(r.stream),
                                         backward ? "bwd"
                                         : again  ? "refwd"
                                                  : "fwd",
                                         r.cause.module);
    if (holding_) {
      lines_.push_back(line);
      let_go();
    } else {
      emit(line);
    }
  }

  void what(const Record& r, const Wait& o) {
    if (!o.stream.valid()) return;
    emit(fmt::format("[host] wait_stream {} waits {}", stream(r.stream), stream(o.stream)));
  }

  void what(const Record& r, const Mark& o) {
    if (o.kind == marks::phase) {
      phase(r.cause);
    } else if (o.kind == marks::pre_backward) {
      holding_ = true;
    } else if (o.kind == marks::storage_prepared) {
      storage_prepared(r);
    } else if (o.kind == marks::storage_freed) {
      events_[r.event] = fmt::format("ev{}", events_.size());
      emit(fmt::format("[{}] record {}", stream(r.stream), events_[r.event]));
    } else if (o.kind == marks::gradients_sharded) {
      emit(fmt::format("[{0}] record_stream <tensor> on {0}", stream(r.stream)));
    }
  }

  void phase(const Cause& cause) {
    if (cause.phase == Phase::optimizer) return emit("[host] ---- optim.step");
    if (cause.phase == Phase::forward && cause.micro_batch == 0) {
      emit(fmt::format("[host] ======== iteration {}", cause.step));
    }
    emit(fmt::format("[host] ---- {}", name_of(cause.phase)));
  }

  void storage_prepared(const Record& r) {
    for (const UnitInfo& unit : units_) {
      if (unit.name != r.cause.unit) continue;
      emit(fmt::format("[{}] FREE t[{}]", stream(r.stream), (unit.numel + unit.padding).value));
    }
  }

  const Recording& recording_;
  const std::span<const UnitInfo> units_;
  std::vector<std::string> lines_;
  std::vector<std::string> held_;  // since a pre-backward hook, until its unit computes
  bool holding_ = false;
  std::map<EventId, std::string> events_;
  std::map<EventId, StreamId> stream_of_event_;
};

}  // namespace

std::vector<std::string> to_fsdp1_notation(const Recording& recording,
                                           std::span<const UnitInfo> units) {
  return Fsdp1Notation(recording, units).lines();
}

}  // namespace tessera
