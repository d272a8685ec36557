// SPDX-License-Identifier: Apache-2.0
// A recording in the notation of FSDP2's stream operations, so that it can be compared line by line
// with what PyTorch does.
//
// What only our engine has (gradient and activation buffers, optimizer state, shards) is left out,
// as the recorded runs leave it out; `live` counts the transient buffers only.
#include <fmt/format.h>

#include <map>

#include "engine/schemes/fully_shard/marks.h"
#include "tessera/fully_shard.h"
#include "tessera/recording.h"

namespace tessera {
namespace {

class FsdpNotation {
 public:
  explicit FsdpNotation(const Recording& recording) : recording_(recording) {}

  std::vector<std::string> lines() {
    for (const Record& record : recording_.records) {
      if (record.cause.phase == Phase::init) continue;
      switch (record.kind) {
        case Record::Kind::op: op(record); break;
        case Record::Kind::allocate: allocate(record); break;
        case Record::Kind::release: release(record); break;
        case Record::Kind::host_wait: emit("[host] synchronize"); break;
      }
    }
    emit(
        fmt::format("peak transient bytes (all-gather outputs + unsharded + rs_in + rs_out; "
                    "activations and unsharded grads excluded): {}",
                    peak_.value));
    return std::move(lines_);
  }

 private:
  const Recording::Buffer& buffer(BufferId id) const { return recording_.buffers[id.index()]; }
  const std::string& stream(StreamId id) const { return recording_.streams[id.index()]; }
  void emit(std::string line) { lines_.push_back(std::move(line)); }

  static bool transient(MemoryClass memory_class) {
    return memory_class == MemoryClass::all_gather_buffers ||
           memory_class == MemoryClass::unsharded_parameters ||
           memory_class == MemoryClass::reduce_buffers ||
           memory_class == MemoryClass::sharded_gradients;
  }

  void allocate(const Record& record) {
    const auto& b = buffer(record.buffer);
    if (!transient(b.memory_class)) return;
    live_ += b.bytes;
    peak_ = std::max(peak_, live_);
    emit(fmt::format("[{}] ALLOC {} {}B   live={}", stream(b.stream), b.name, b.bytes.value,
                     live_.value));
  }

  void release(const Record& record) {
    const auto& b = buffer(record.buffer);
    if (b.memory_class == MemoryClass::unsharded_gradients) {
      const std::string line =
          fmt::format("[host] FREE {} unsharded grads   live={}", b.unit, live_.value);
      if (lines_.empty() || lines_.back() != line) emit(line);
      return;
    }
    if (!transient(b.memory_class)) return;
    live_ -= b.bytes;
    if (b.memory_class == MemoryClass::sharded_gradients) {
      const std::string line = "[host] ==== zero_grad(set_to_none): FREE rs_out of every group";
      if (lines_.empty() || lines_.back() != line) emit(line);
      return;
    }
    const bool parameter = b.memory_class == MemoryClass::unsharded_parameters;
    emit(fmt::format("[host] FREE {}{}   live={}", b.name,
                     parameter ? fmt::format(" (alloc stream {})", stream(b.stream)) : "",
                     live_.value));
  }

  void record_event(const Record& record, std::string_view label) {
    const auto name = fmt::format("e{}:{}.{}", events_.size(), label, record.cause.unit);
    events_[record.event] = name;
    emit(fmt::format("[{}] record {}", stream(record.stream), name));
  }

  void op(const Record& record) {
    std::visit([&](const auto& what) { this->what(record, what); }, record.op.what);
  }

  void what(const Record& r, const AllGather& o) {
    emit(fmt::format("[{}] ALL_GATHER {} in={} out={}{}", stream(r.stream), r.cause.unit,
                     o.input.numel.value, o.output.numel.value,
                     o.input.buffer == o.output.buffer ? " (in-place)" : ""));
    record_event(r, "AG");
  }
  void what(const Record& r, const ReduceScatter& o) {
    emit(fmt::format("[{}] REDUCE_SCATTER {} in={} out={} op={}", stream(r.stream), r.cause.unit,
                     o.input.numel.value, o.output.numel.value,
                     o.reduction == Reduction::average ? "AVG" : "SUM"));
    record_event(r, "RS");
  }
  template <class Collective>
  requires requires(Collective c) { c.communicator; }
  void what(const Record& r, const Collective&) {
    emit(fmt::format("[{}] {} {}", stream(r.stream), name_of(kind_of(r.op)), r.cause.unit));
  }

  void what(const Record& r, const Copy& o) {
    if (r.cause.reason == Reason::copy_out) {
      emit(fmt::format("[{}] COPY_OUT {} split_with_sizes_copy", stream(r.stream), r.cause.unit));
    } else if (r.cause.reason == Reason::copy_in && r.cause.phase == Phase::backward &&
               buffer(o.pieces.at(0).to.buffer).memory_class == MemoryClass::reduce_buffers) {
      emit(fmt::format("[{}] COPY_IN {} chunk_cat grads -> rs_in", stream(r.stream), r.cause.unit));
    } else if (r.cause.reason == Reason::copy_in) {
      Numel elements{};
      for (const auto& piece : o.pieces) elements += piece.from.numel;
      emit(fmt::format("[{}] COPY_IN {} {} elems -> ag_out[rank slice]", stream(r.stream),
                       r.cause.unit, elements.value));
    } else {
      emit(fmt::format("[{}] COPY {} {}", stream(r.stream), r.cause.unit, name_of(r.cause.reason)));
    }
  }

  void what(const Record& r, const Compute& o) {
    if (r.cause.phase == Phase::optimizer) {
      if (!o.reads.empty()) {  // not the first step's creation of its state
        emit(fmt::format("[{}] OPTIM step on sharded params", stream(r.stream)));
      }
      return;
    }
    const char* pass = r.cause.reason == Reason::recompute ? "refwd"
                       : r.cause.phase == Phase::backward  ? "bwd"
                                                           : "fwd";
    emit(fmt::format("[{}] COMPUTE {} {}", stream(r.stream), pass, r.cause.module));
  }

  void what(const Record& r, const Wait& o) {
    if (o.stream.valid()) {
      emit(fmt::format("[host] wait_stream {} waits {}", stream(r.stream), stream(o.stream)));
    }
    for (EventId event : r.after) {
      emit(fmt::format("[host] wait_event {} waits {}", stream(r.stream), events_[event]));
    }
  }

  void what(const Record& r, const Mark& o) {
    if (o.kind == marks::phase && r.cause.phase != Phase::optimizer) {
      emit(fmt::format("[host] ==== {}", name_of(r.cause.phase)));
    } else if (o.kind == marks::backward_finishing) {
      emit("[host] ---- root final callback");
    } else if (o.kind == marks::sharded) {
      emit(fmt::format("[host] state {} -> SHARDED", r.cause.unit));
    } else if (o.kind == marks::unsharded) {
      emit(fmt::format("[host] state {} -> UNSHARDED", r.cause.unit));
      record_event(r, "copy_out");
    } else if (o.kind == marks::gradients_sharded) {
      emit(fmt::format("[{}] VIEW_OUT {} sharded grads = views of rs_out", stream(r.stream),
                       r.cause.unit));
      record_event(r, "post_reduce");
    }
  }

  const Recording& recording_;
  std::vector<std::string> lines_;
  std::map<EventId, std::string> events_;
  Bytes live_{};
  Bytes peak_{};
};

}  // namespace

std::vector<std::string> to_fsdp_notation(const Recording& recording) {
  return FsdpNotation(recording).lines();
}

}  // namespace tessera
