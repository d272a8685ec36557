// SPDX-License-Identifier: Apache-2.0
// The readable form of a recording: one line per call of the runtime.
#include <fmt/format.h>

#include <iterator>

#include "tessera/recording.h"

namespace tessera {
namespace {

std::string_view stream_name(const Recording& recording, StreamId id) {
  return id.valid() ? std::string_view(recording.streams[id.index()]) : std::string_view("");
}

const Recording::Buffer& buffer_of(const Recording& recording, BufferId id) {
  return recording.buffers[id.index()];
}

// The kind, with the number in the place that it has for it.
std::string mark_text(const Mark& mark) {
  std::string text(mark.kind);
  const std::size_t place = text.find("{}");
  if (place != std::string::npos) text.replace(place, 2, std::to_string(mark.number));
  return text;
}

std::string op_details(const Recording& recording, const Op& op) {
  struct Visitor {
    const Recording& recording;
    std::string operator()(const AllGather& o) const { return pair(o.input, o.output); }
    std::string operator()(const ReduceScatter& o) const { return pair(o.input, o.output); }
    std::string operator()(const AllReduce& o) const { return pair(o.input, o.output); }
    std::string operator()(const Reduce& o) const {
      return pair(o.input, o.output) + fmt::format(" root {}", o.root);
    }
    std::string operator()(const AllToAll& o) const { return pair(o.input, o.output); }
    std::string operator()(const Broadcast& o) const {
      return fmt::format("{} {} root {}", o.data.numel.value, name_of(o.data.dtype), o.root);
    }
    std::string operator()(const Copy& o) const {
      Bytes bytes{};
      for (const auto& p : o.pieces) bytes += bytes_of(p.from.numel, p.from.dtype) * p.count;
      return fmt::format("{} pieces, {} B", o.pieces.size(), bytes.value);
    }
    std::string operator()(const Compute& o) const {
      return o.cost.matmul_flops + o.cost.attention_flops > 0
                 ? fmt::format("{:.4g} FLOP", o.cost.matmul_flops + o.cost.attention_flops)
                 : fmt::format("{:.4g} B moved", o.cost.elementwise_bytes);
    }
    std::string operator()(const Wait& o) const {
      return o.stream.valid() ? fmt::format("for stream {}", stream_name(recording, o.stream)) : "";
    }
    std::string operator()(const Mark& o) const { return mark_text(o); }
    static std::string pair(const View& in, const View& out) {
      return fmt::format("{} -> {} {}", in.numel.value, out.numel.value, name_of(out.dtype));
    }
  };
  return std::visit(Visitor{recording}, op.what);
}

std::string op_line(const Recording& recording, const Record& record) {
  const Cause& cause = record.cause;
  std::string subject(cause.module.empty() ? cause.unit : cause.module);
  std::string line = fmt::format("{:<9} {:<14} {:<14} {:<28} {}", name_of(cause.phase),
                                 stream_name(recording, record.stream), name_of(kind_of(record.op)),
                                 subject, op_details(recording, record.op));
  if (cause.reason != Reason::none) line += fmt::format("  ({})", name_of(cause.reason));
  for (EventId event : record.after)
    fmt::format_to(std::back_inserter(line), " after #{}", event.value);
  return line;
}

}  // namespace

std::string to_line(const Recording& recording, const Record& record) {
  std::string line;
  switch (record.kind) {
    case Record::Kind::op:
      line = fmt::format("#{:<6} ", record.event.value) + op_line(recording, record);
      break;
    case Record::Kind::allocate: {
      const auto& buffer = buffer_of(recording, record.buffer);
      line = fmt::format("{:<7} {:<9} {:<14} {:<14} {:<28} {} B  ({})", "",
                         name_of(record.cause.phase), stream_name(recording, record.stream),
                         "allocate", buffer.name, buffer.bytes.value, name_of(buffer.memory_class));
      break;
    }
    case Record::Kind::release: {
      const auto& buffer = buffer_of(recording, record.buffer);
      line = fmt::format("{:<7} {:<9} {:<14} {:<14} {:<28} {} B", "", "", "", "release",
                         buffer.name, buffer.bytes.value);
      if (record.event.valid()) line += fmt::format(" after #{}", record.event.value);
      break;
    }
    case Record::Kind::host_wait:
      line = fmt::format("{:<7} {:<9} {:<14} {:<14} {:<28} for #{}", "", "", "host", "wait", "",
                         record.event.value);
      break;
  }
  if (record.where.count() != recording.world_size) {
    line += fmt::format("  on ranks {}", record.where.to_string());
  }
  line.erase(line.find_last_not_of(' ') + 1);
  return line;
}

}  // namespace tessera
