// SPDX-License-Identifier: Apache-2.0
#include "exchange/formats/kineto_events.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <nlohmann/json.hpp>

#include "exchange/formats/kineto_properties.h"
#include "exchange/formats/kineto_shapes.h"
#include "exchange/parse/json_stream.h"

namespace tessera::exchange {
namespace {

constexpr std::size_t name_max = 160;      // characters of a label
constexpr std::size_t threads_max = 4096;  // more are no threads but ids that someone made up
constexpr std::size_t lost_categories_max = 32;
constexpr Time time_most = Time{1} << 61;

/// One event as it lies in the file; views last as long as the buffer.
struct RawEvent {
  std::string_view ph, cat, name, ts, dur, pid, tid;
  std::string_view correlation, external, label;
  // Collectives.
  std::string_view collective, dtype, group, description, ranks, in, out, group_size, sequence;
  std::string_view input_dims, input_type;
  // Memory.
  std::string_view bytes, address, allocated, reserved, device_type, device;
};

using Member = std::string_view RawEvent::*;
struct Key {
  std::string_view name;
  Member member;
  bool raw = false;  // a list, as text
};

constexpr std::array event_keys = {Key{"ph", &RawEvent::ph},     Key{"cat", &RawEvent::cat},
                                   Key{"name", &RawEvent::name}, Key{"pid", &RawEvent::pid},
                                   Key{"tid", &RawEvent::tid},   Key{"ts", &RawEvent::ts},
                                   Key{"dur", &RawEvent::dur}};

constexpr std::array argument_keys = {Key{"External id", &RawEvent::external},
                                      Key{"external id", &RawEvent::external},
                                      Key{"correlation", &RawEvent::correlation},
                                      Key{"name", &RawEvent::label},
                                      Key{"Collective name", &RawEvent::collective},
                                      Key{"dtype", &RawEvent::dtype},
                                      Key{"Process Group Name", &RawEvent::group},
                                      Key{"Process Group Description", &RawEvent::description},
                                      Key{"Process Group Ranks", &RawEvent::ranks, true},
                                      Key{"In msg nelems", &RawEvent::in},
                                      Key{"Out msg nelems", &RawEvent::out},
                                      Key{"Group size", &RawEvent::group_size},
                                      Key{"Seq", &RawEvent::sequence},
                                      Key{"Input Dims", &RawEvent::input_dims, true},
                                      Key{"Input type", &RawEvent::input_type, true},
                                      Key{"Bytes", &RawEvent::bytes},
                                      Key{"Addr", &RawEvent::address},
                                      Key{"Total Allocated", &RawEvent::allocated},
                                      Key{"Total Reserved", &RawEvent::reserved},
                                      Key{"Device Type", &RawEvent::device_type},
                                      Key{"Device Id", &RawEvent::device}};

template <class Keys>
bool take_member(JsonCursor& at, std::string_view key, const Keys& keys, RawEvent& event) {
  const char initial = key.empty() ? '\0' : key.front();
  for (const Key& known : keys) {
    if (known.name.front() != initial || known.name != key) continue;
    std::string_view& value = event.*known.member;
    if (known.raw) return at.raw(value);
    const char first = at.peek();
    if (first == '{' || first == '[') return at.skip();
    return at.scalar(value);
  }
  return at.skip();
}

bool read_event(JsonCursor& at, RawEvent& event) {
  JsonMembers members(at);
  while (members.next()) {
    bool good = false;
    if (members.key() == "args" && at.peek() == '{') {
      JsonMembers arguments(at);
      good = true;
      while (good && arguments.next()) {
        good = take_member(at, arguments.key(), argument_keys, event);
      }
      good = good && arguments.whole();
    } else {
      good = take_member(at, members.key(), event_keys, event);
    }
    if (!good) members.fail();
  }
  return members.whole();
}

/// Names of kernels without "void " and arguments, which say nothing new.
std::string_view short_name(std::string_view name) {
  if (name.starts_with("void ")) name.remove_prefix(5);
  return name.substr(0, name_max);
}

bool is_wait(std::string_view name) { return name.find("Synchronize") != std::string_view::npos; }

class Reader {
 public:
  Reader(KinetoFile& file, std::int64_t events_max, ImportedRun& run)
      : file_(file), events_max_(events_max), run_(run) {}

  void add(const RawEvent& raw) {
    if (raw.ph == "X") return add_complete(raw);
    if (raw.ph == "i" && raw.name == "[memory]") return add_memory(raw);
    if (raw.ph == "B" || raw.ph == "E") return count_lost("begin-or-end");  // no profiler of torch
    if (raw.ph == "C") return count_lost("counter");
    if (raw.ph == "M" && raw.name == "process_name") add_process(raw.label);
    // Metadata, flows, marks of the profiler itself: their content is found elsewhere.
    constexpr std::string_view elsewhere = "MstfiI";
    if (raw.ph.size() != 1 || elsewhere.find(raw.ph) == elsewhere.npos) count_lost("other");
  }
  void tell_lost() const {
    for (const auto& [category, count] : lost_) {
      run_.lost(fmt::format("{} events", unescaped(category).substr(0, 40)), count);
    }
    run_.warn_count("{} events end before they begin: they are shown without length", backwards_);
    run_.warn_count("{} events say no duration: they are shown without length", without_duration_);
  }
  bool too_many() const { return static_cast<std::int64_t>(file_.events.size()) > events_max_; }

 private:
  /// Exports of traces name processes by rank.
  void add_process(std::string_view label) {
    constexpr std::string_view begin = "rank ";
    if (!label.starts_with(begin)) return;
    Rank rank = -1;
    const char* const end = label.data() + label.size();
    const auto [rest, error] = std::from_chars(label.data() + begin.size(), end, rank);
    if (error == std::errc() && rest == end && rank >= 0) file_.named_ranks.insert(rank);
  }

  std::int32_t thread_of(const RawEvent& raw) {
    if (raw.pid == last_pid_ && raw.tid == last_tid_) return last_;
    last_pid_ = raw.pid;
    last_tid_ = raw.tid;
    const auto next = static_cast<std::int32_t>(file_.threads.size());
    const auto [found, added] = threads_.try_emplace({last_pid_, last_tid_}, next);
    if (added && file_.threads.size() < threads_max) {
      file_.threads.push_back({last_pid_, last_tid_});
    } else if (added) {
      found->second = 0;
    }
    return last_ = found->second;
  }

  /// Microseconds in the file.
  static Time time_of(std::string_view raw) {
    return std::clamp(decimal(raw, 3), -2 * time_most + 1, 2 * time_most - 1);
  }

  static std::optional<KinetoCategory> category_of(const RawEvent& raw) {
    if (raw.cat == "cpu_op" || raw.cat == "Operator") return KinetoCategory::cpu_op;
    if (raw.cat == "user_annotation") return KinetoCategory::annotation;
    if (raw.cat == "kernel" || raw.cat == "Kernel") return KinetoCategory::kernel;
    if (raw.cat == "gpu_memcpy" || raw.cat == "Memcpy") return KinetoCategory::copy;
    if (raw.cat == "gpu_memset" || raw.cat == "Memset") return KinetoCategory::set;
    if (raw.cat == "gpu_user_annotation") return KinetoCategory::gpu_annotation;
    return std::nullopt;
  }

  static bool is_runtime(std::string_view category) {
    return category == "cuda_runtime" || category == "cuda_driver" || category == "Runtime" ||
           category == "hip_runtime" || category == "privateuse1_runtime";
  }

  /// Not NaN, an infinity or a word: numbers end with a digit.
  static bool is_number(std::string_view raw) {
    return !raw.empty() && ((raw.back() >= '0' && raw.back() <= '9') || raw.back() == '.');
  }

  void add_complete(const RawEvent& raw) {
    auto category = category_of(raw);
    const bool runtime = !category && is_runtime(raw.cat);
    if (!category && !runtime) {
      if (raw.cat != "Trace") count_lost(raw.cat.empty() ? "uncategorised" : raw.cat);
      return;
    }
    const Time begin = time_of(raw.ts), duration = time_of(raw.dur);
    const bool timed = is_number(raw.ts) && (raw.dur.empty() || is_number(raw.dur));
    if (!timed || duration > time_most) return count_lost("timeless");
    if (runtime) {
      if (!raw.correlation.empty()) {
        file_.launches.push_back({decimal(raw.correlation, 0), begin, thread_of(raw)});
      }
      if (raw.correlation.empty() || !is_wait(raw.name)) return count_lost(raw.cat);
      category = KinetoCategory::synchronize;
    }
    if (duration < 0) ++backwards_;
    if (raw.dur.empty()) ++without_duration_;
    KinetoEvent event;
    event.begin = begin;
    event.end = begin + std::max<Time>(duration, 0);
    if (!raw.correlation.empty()) event.correlation = decimal(raw.correlation, 0);
    if (!raw.external.empty()) event.external = decimal(raw.external, 0);
    event.name = name_of(raw.name);
    event.thread = thread_of(raw);
    event.category = *category;
    const bool called = raw.name.starts_with("c10d::") || raw.name.starts_with("gloo:");
    if (!raw.collective.empty() || (called && !raw.input_dims.empty())) {
      event.message = add_message(raw);
    }
    file_.events.push_back(event);
  }

  void count_lost(std::string_view category) {
    const auto found = lost_.find(category);
    if (found != lost_.end()) {
      ++found->second;
    } else if (lost_.size() < lost_categories_max) {
      lost_.emplace(category, 1);
    } else {
      ++lost_["other"];
    }
  }

  TextId name_of(std::string_view raw) {
    const std::string_view name = short_name(raw);
    if (name.find('\\') == std::string_view::npos) return run_.text(name);
    return run_.text(unescaped(name));
  }

  std::int32_t add_message(const RawEvent& raw) {
    KinetoMessage message;
    message.collective = raw.collective;
    message.dtype = raw.dtype;
    message.group = unescaped(raw.group);
    message.description = unescaped(raw.description);
    message.ranks = ranks_in(raw.ranks);
    if (!raw.in.empty()) message.in = decimal(raw.in, 0);
    if (!raw.out.empty()) message.out = decimal(raw.out, 0);
    if (!raw.group_size.empty()) message.group_size = decimal(raw.group_size, 0);
    if (!raw.sequence.empty()) message.sequence = decimal(raw.sequence, 0);
    if (raw.collective.empty()) add_shapes(raw.name, raw.input_dims, raw.input_type, message);
    file_.messages.push_back(std::move(message));
    return static_cast<std::int32_t>(file_.messages.size()) - 1;
  }

  void add_memory(const RawEvent& raw) {
    KinetoMemory memory;
    memory.time = time_of(raw.ts);
    memory.delta = Bytes{decimal(raw.bytes, 0)};
    memory.allocated = Bytes{decimal(raw.allocated, 0)};
    memory.reserved = Bytes{decimal(raw.reserved, 0)};
    memory.address = static_cast<std::uint64_t>(decimal(raw.address, 0));
    memory.thread = thread_of(raw);
    const bool host = raw.device_type.empty() || raw.device_type == "0";
    memory.device = host ? -1 : static_cast<std::int32_t>(decimal(raw.device, 0) & 0xFFFF);
    file_.memory.push_back(memory);
  }

  KinetoFile& file_;
  const std::int64_t events_max_;
  ImportedRun& run_;
  std::map<std::pair<std::string, std::string>, std::int32_t> threads_;
  std::map<std::string, std::int64_t, std::less<>> lost_;
  std::string last_pid_ = "?", last_tid_;
  std::int32_t last_ = 0;
  std::int64_t backwards_ = 0, without_duration_ = 0;
};

/// A member beside the events. Those that are not known are passed over.
Status read_property(JsonStream& stream, const std::string& key, KinetoFile& file) {
  std::string_view text;
  TESSERA_TRY(stream.value([&](JsonCursor& at) { return at.raw(text); }));
  if (key == "baseTimeNanoseconds") {
    file.base = decimal(text, 0);
    file.based = true;
  } else if (key == "schemaVersion") {
    file.schema = text.substr(0, 40);
  } else if (key == "host_name") {
    file.host = text.size() > 2 ? unescaped(text.substr(1, text.size() - 2)) : "";
  } else if (key == "distributedInfo" || key == "deviceProperties") {
    const auto json = nlohmann::json::parse(text, nullptr, /*allow_exceptions=*/false);
    if (json.is_discarded()) return stream.broken();
    if (key == "distributedInfo") read_distributed(json, file);
    if (key == "deviceProperties") read_devices(json, file);
  }
  return {};
}

/// The list from its '[' on.
Status read_events(JsonStream& stream, Reader& reader) {
  stream.skip_char();
  while (true) {
    TESSERA_ASSIGN(const char next, stream.peek());
    if (next == 0) return stream.value([](JsonCursor& at) { return at.peek() != 0; });
    if (next == ',' || next == ']') stream.skip_char();
    if (next == ']') return {};
    if (next == ',') continue;
    RawEvent event;
    TESSERA_TRY(stream.value([&](JsonCursor& at) {
      event = RawEvent{};
      return read_event(at, event);
    }));
    reader.add(event);
    if (reader.too_many()) return {Code::out_of_memory, "events"};
  }
}

Status read_members(JsonStream& stream, Reader& reader, KinetoFile& file) {
  TESSERA_ASSIGN(const char first, stream.peek());
  if (first == '[') return read_events(stream, reader);
  if (first != '{') return stream.broken();
  stream.skip_char();
  while (true) {
    TESSERA_ASSIGN(const char next, stream.peek());
    if (next == ',') {
      stream.skip_char();
      continue;
    }
    if (next == '}') {
      stream.skip_char();
      return {};
    }
    TESSERA_ASSIGN(const std::string key, stream.key());
    TESSERA_ASSIGN(const char value, stream.peek());
    if (key == "traceEvents" && value == '[') {
      TESSERA_TRY(read_events(stream, reader));
    } else {
      TESSERA_TRY(read_property(stream, key, file));
    }
  }
}

/// Times beyond what an import keeps stay beyond it.
void add_base(KinetoFile& file) {
  if (file.base < 0 || file.base > time_most) file.base = 0;
  const auto shift = [&](Time& time) {
    time = std::abs(time) > time_most ? 2 * time_most : time + file.base;
  };
  for (KinetoEvent& event : file.events) {
    shift(event.begin);
    shift(event.end);
  }
  for (KinetoLaunch& launch : file.launches) shift(launch.time);
  for (KinetoMemory& memory : file.memory) shift(memory.time);
}

}  // namespace

Result<KinetoFile> read_kineto_file(SourceFile& source, std::int64_t events_max, ImportedRun& run) {
  KinetoFile file;
  JsonStream stream(source);
  Reader reader(file, events_max, run);
  const Status status = read_members(stream, reader, file);
  if (reader.too_many()) {
    return source.error(Code::out_of_memory,
                        fmt::format("it has more than {} events: record fewer steps, or without "
                                    "with_stack",
                                    events_max));
  }
  file.cut_off = !status.ok() && stream.cut_off() && !file.events.empty();
  if (!status.ok() && !file.cut_off) return status;
  if (status.ok()) {
    TESSERA_ASSIGN(const char next, stream.peek());
    if (next != 0) {
      return source.error(Code::invalid_argument,
                          fmt::format("behind the profile there is more, at byte {}: give each "
                                      "profile a file of its own",
                                      stream.offset()));
    }
  }
  reader.tell_lost();
  add_base(file);
  return file;
}

}  // namespace tessera::exchange
