// SPDX-License-Identifier: Apache-2.0
// Fields: perfetto.dev/docs/reference/trace-packet-proto.
#include <fmt/format.h>

#include <map>

#include "engine/text/protobuf_writer.h"
#include "exchange/export/exporter.h"
#include "exchange/export/output_file.h"

namespace tessera::exchange {
namespace {

// TracePacket
constexpr std::uint32_t trace_packet = 1, packet_time = 8, packet_sequence = 10, packet_event = 11,
                        packet_interned = 12, packet_flags = 13, packet_track = 60;
constexpr std::uint64_t flag_cleared = 1, flag_needs_state = 2;
// TrackDescriptor, ProcessDescriptor, CounterDescriptor
constexpr std::uint32_t track_id = 1, track_name = 2, track_process = 3, track_parent = 5,
                        track_counter = 8, track_order = 11, track_rank = 12;
constexpr std::uint32_t process_id = 1, process_name = 6, counter_unit = 3;
constexpr std::uint64_t unit_bytes = 3, order_explicit = 3;
// TrackEvent
constexpr std::uint32_t event_categories = 3, event_arguments = 4, event_type = 9, event_name = 10,
                        event_track = 11, event_counter = 30, event_flows = 47;
constexpr std::uint64_t slice_begin = 1, slice_end = 2, counter_value = 4;
// InternedData
constexpr std::uint32_t interned_categories = 1, interned_names = 2, interned_argument_names = 3,
                        interned_argument_texts = 29;
constexpr std::uint32_t argument_name = 1, argument_integer = 4, argument_text = 17;

constexpr std::uint32_t sequence_id = 1;
constexpr std::uint64_t tracks_per_rank = 1 << 16;

/// Texts that packets refer to by number; a packet brings those that are new with it.
class Interned {
 public:
  explicit Interned(std::uint32_t field) : field_(field) {}

  std::uint64_t id(const std::string& text, ProtoMessage& fresh) {
    const auto [found, added] = ids_.try_emplace(text, ids_.size() + 1);
    if (added) {
      ProtoMessage entry;
      entry.number(1, found->second);
      entry.text(2, text);
      fresh.message(field_, entry);
    }
    return found->second;
  }

 private:
  std::uint32_t field_;
  std::map<std::string, std::uint64_t, std::less<>> ids_;
};

class Perfetto final : public Exporter {
 public:
  Perfetto(const analysis::Trace& trace, const std::string& out, OutputFile file)
      : trace_(trace), out_(out), file_(std::move(file)) {}

  Status begin() override {
    ProtoMessage packet;
    packet.number(packet_sequence, sequence_id);
    packet.number(packet_flags, flag_cleared);
    write(packet);
    return {};
  }

  Status rank(Rank rank) override {
    ProtoMessage process;
    process.number(process_id, static_cast<std::uint64_t>(rank) + 1);  // 0 is no process
    process.text(process_name, fmt::format("rank {}", rank));
    ProtoMessage track;
    track.number(track_id, process_track(rank));
    track.message(track_process, process);
    track.number(track_order, order_explicit);
    write_track(track);
    std::uint64_t place = 0;
    for (const storage::StreamRow& stream : trace_.info().streams) {
      named_track(rank, stream_track(rank, stream.id), stream.name, place++);
    }
    counter_track(rank, allocated_track(rank), "allocated");
    counter_track(rank, allocated_track(rank) + 1, "reserved");
    return {};
  }

  Status span(const ExportedSpan& span) override {
    ProtoMessage fresh, event;
    event.number(event_type, slice_begin);
    event.number(event_track, stream_track(span.rank, span.stream->id));
    event.number(event_categories, categories_.id(std::string(name_of(span.op->kind)), fresh));
    const std::string label =
        span.op->label.empty() ? std::string(name_of(span.op->kind)) : span.op->label;
    event.number(event_name, names_.id(label, fresh));
    add_arguments(span, event, fresh);
    // Members of a collective are connected.
    if (is_collective(span.op->kind)) {
      event.fixed(event_flows, static_cast<std::uint64_t>(span.op->id) + 1);
    }
    write_event(span.begin, event, &fresh);
    ProtoMessage end;
    end.number(event_type, slice_end);
    end.number(event_track, stream_track(span.rank, span.stream->id));
    write_event(span.end, end, nullptr);
    return {};
  }

  bool wants_memory() const override { return true; }
  Status memory(const storage::MemorySeries& series) override {
    for (std::size_t i = 0; i < series.time.size(); ++i) {
      counter(series.time[i], allocated_track(series.rank), series.allocated[i]);
      counter(series.time[i], allocated_track(series.rank) + 1, series.reserved[i]);
    }
    return {};
  }

  Status finish(Exported& done) override {
    done.files.push_back(out_);
    return file_.finish();
  }

 private:
  static std::uint64_t process_track(Rank rank) {
    return (static_cast<std::uint64_t>(rank) + 1) * tracks_per_rank;
  }
  static std::uint64_t allocated_track(Rank rank) { return process_track(rank) + 1; }
  static std::uint64_t stream_track(Rank rank, std::int32_t stream) {
    return process_track(rank) + 3 + static_cast<std::uint64_t>(stream);
  }

  void write(const ProtoMessage& packet) {
    whole_.clear();
    whole_.message(trace_packet, packet);
    file_.write(whole_.bytes());
  }

  void write_track(const ProtoMessage& track) {
    ProtoMessage packet;
    packet.number(packet_sequence, sequence_id);
    packet.message(packet_track, track);
    write(packet);
  }

  void named_track(Rank rank, std::uint64_t id, const std::string& name, std::uint64_t place) {
    ProtoMessage track;
    track.number(track_id, id);
    track.number(track_parent, process_track(rank));
    track.text(track_name, name);
    track.number(track_rank, place);
    write_track(track);
  }

  void counter_track(Rank rank, std::uint64_t id, const char* name) {
    ProtoMessage unit;
    unit.number(counter_unit, unit_bytes);
    ProtoMessage track;
    track.number(track_id, id);
    track.number(track_parent, process_track(rank));
    track.text(track_name, name);
    track.message(track_counter, unit);
    write_track(track);
  }

  void write_event(Time time, const ProtoMessage& event, const ProtoMessage* fresh) {
    ProtoMessage packet;
    packet.number(packet_time, static_cast<std::uint64_t>(std::max<Time>(time, 0)));
    packet.number(packet_sequence, sequence_id);
    packet.number(packet_flags, flag_needs_state);
    if (fresh != nullptr && !fresh->bytes().empty()) packet.message(packet_interned, *fresh);
    packet.message(packet_event, event);
    write(packet);
  }

  void counter(Time time, std::uint64_t track, Bytes value) {
    ProtoMessage event;
    event.number(event_type, counter_value);
    event.number(event_track, track);
    event.number(event_counter, static_cast<std::uint64_t>(value.value));
    write_event(time, event, nullptr);
  }

  void integer(const char* name, std::int64_t value, ProtoMessage& event, ProtoMessage& fresh) {
    ProtoMessage argument;
    argument.number(argument_name, argument_names_.id(name, fresh));
    argument.number(argument_integer, static_cast<std::uint64_t>(value));
    event.message(event_arguments, argument);
  }

  void text(const char* name, const std::string& value, ProtoMessage& event, ProtoMessage& fresh) {
    if (value.empty()) return;
    ProtoMessage argument;
    argument.number(argument_name, argument_names_.id(name, fresh));
    argument.number(argument_text, argument_texts_.id(value, fresh));
    event.message(event_arguments, argument);
  }

  void add_arguments(const ExportedSpan& span, ProtoMessage& event, ProtoMessage& fresh) {
    const storage::OpRow& op = *span.op;
    integer("op", op.id, event, fresh);
    integer("step", op.step, event, fresh);
    text("unit", op.unit, event, fresh);
    text("module", op.module, event, fresh);
    text("phase", std::string(name_of(op.phase)), event, fresh);
    text("reason", std::string(name_of(op.reason)), event, fresh);
    if (op.bytes.value > 0) integer("bytes", op.bytes.value, event, fresh);
    if (!is_collective(op.kind)) return;
    integer("wait_ns", span.ready - span.begin, event, fresh);
    text("dtype", std::string(name_of(op.dtype)), event, fresh);
    text("algorithm", op.algorithm, event, fresh);
    if (const auto* group = trace_.communicator(op); group != nullptr) {
      text("group", group->name, event, fresh);
    }
  }

  const analysis::Trace& trace_;
  const std::string out_;
  OutputFile file_;
  ProtoMessage whole_;
  Interned categories_{interned_categories}, names_{interned_names},
      argument_names_{interned_argument_names}, argument_texts_{interned_argument_texts};
};

}  // namespace

Result<std::unique_ptr<Exporter>> perfetto_exporter(const analysis::Trace& trace,
                                                    const std::string& out, Rank) {
  TESSERA_ASSIGN(OutputFile file, OutputFile::create(out));
  return std::unique_ptr<Exporter>(std::make_unique<Perfetto>(trace, out, std::move(file)));
}

}  // namespace tessera::exchange
