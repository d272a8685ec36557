// SPDX-License-Identifier: Apache-2.0
#include "exchange/formats/nccl_inspector.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "exchange/import/format_version.h"
#include "exchange/import/torch_collectives.h"
#include "exchange/parse/json_stream.h"

namespace tessera::exchange {
namespace {

constexpr Time inspector_us = 1000;  // ns
constexpr std::int64_t inspector_max = std::int64_t{1} << 51;
constexpr std::size_t record_max = 1 << 20;
constexpr std::int64_t bad_lines_max = 1000;

/// One object of the log; views into its text.
struct InspectorRecord {
  std::string_view id, group_name, rank, ranks, host, written;
  std::string_view operation, sequence, bytes, duration, peer;
  std::string_view version, algorithm, protocol;
  std::string_view start, stop;  // of the host's call
  Time kernel_begin = 0, kernel_end = 0;
  bool p2p = false;
};

struct InspectorKey {
  std::string_view name;
  std::string_view InspectorRecord::*member;
};

constexpr InspectorKey inspector_keys[] = {
    {"id", &InspectorRecord::id},
    {"comm_name", &InspectorRecord::group_name},
    {"rank", &InspectorRecord::rank},
    {"n_ranks", &InspectorRecord::ranks},
    {"hostname", &InspectorRecord::host},
    {"inspector_output_format_version", &InspectorRecord::version},
    {"dump_timestamp_us", &InspectorRecord::written},
    {"coll", &InspectorRecord::operation},
    {"coll_sn", &InspectorRecord::sequence},
    {"coll_algo", &InspectorRecord::algorithm},
    {"coll_proto", &InspectorRecord::protocol},
    {"coll_msg_size_bytes", &InspectorRecord::bytes},
    {"coll_exec_time_us", &InspectorRecord::duration},
    {"coll_start_ts", &InspectorRecord::start},
    {"p2p", &InspectorRecord::operation},
    {"p2p_sn", &InspectorRecord::sequence},
    {"p2p_peer", &InspectorRecord::peer},
    {"p2p_msg_size_bytes", &InspectorRecord::bytes},
    {"p2p_exec_time_us", &InspectorRecord::duration},
    {"p2p_start_ts", &InspectorRecord::start},
};

Time microseconds(std::string_view text) {
  return std::clamp<std::int64_t>(decimal(text, 0), 0, inspector_max) * inspector_us;
}

/// Its channels' kernels together: from the first begin to the last end.
bool take_kernels(JsonCursor& at, InspectorRecord& record) {
  if (!at.take('[')) return at.skip();
  while (!at.take(']')) {
    std::string_view begin, end;
    JsonMembers members(at);
    while (members.next()) {
      const bool good = members.key() == "kernel_start_ts"  ? at.scalar(begin)
                        : members.key() == "kernel_stop_ts" ? at.scalar(end)
                                                            : at.skip();
      if (!good) members.fail();
    }
    if (!members.whole()) return false;
    if (const Time time = microseconds(begin); time > 0) {
      record.kernel_begin = record.kernel_begin == 0 ? time : std::min(record.kernel_begin, time);
    }
    record.kernel_end = std::max(record.kernel_end, microseconds(end));
    at.take(',');
  }
  return true;
}

/// The members of an object and of the objects within it, whose keys differ.
bool take_record(JsonCursor& at, InspectorRecord& record, int depth) {
  JsonMembers members(at);
  while (members.next()) {
    const std::string_view key = members.key();
    bool good = false;
    if (key == "kernel_events") {
      good = take_kernels(at, record);
    } else if (key == "event_trace_sn") {
      good = at.skip();  // numbers of events, not times
    } else if (at.peek() == '{' && depth < 3) {
      record.p2p = record.p2p || key == "p2p_perf";
      good = take_record(at, record, depth + 1);
    } else if (const char first = at.peek(); first == '{' || first == '[') {
      good = at.skip();
    } else {
      const auto known = std::find_if(std::begin(inspector_keys), std::end(inspector_keys),
                                      [&](const InspectorKey& k) { return k.name == key; });
      good = known == std::end(inspector_keys) ? at.skip() : at.scalar(record.*known->member);
    }
    if (!good) members.fail();
  }
  return members.whole();
}

/// A collective, until it is known of which rank it is and when it began.
struct InspectorCall {
  Time begin = 0, duration = 0, written = 0;  // begin: 0, if unknown
  std::int64_t sequence = 0;
  TextId name = 0, algorithm = 0;
  OpKind kind = OpKind::copy;
  bool collective = false;
  Bytes bytes{};
};

/// Those of one rank of a communicator.
struct InspectorMember {
  std::int64_t ranks = 0;  // of the communicator
  TextId title = 0;
  std::vector<InspectorCall> calls;
};

class InspectorReader {
 public:
  InspectorReader(SourceFile& source, const ImportLimits& limits, ImportedRun& run)
      : source_(source), stream_(source, record_max), limits_(limits), run_(run) {}

  Status read() {
    TESSERA_TRY(read_records());
    if (members_.empty()) return source_.error(Code::invalid_argument, "it has no collectives");
    add_members();
    return {};
  }

 private:
  using Key = std::pair<std::string, std::int64_t>;  // the communicator, the rank in it

  Status read_records() {
    while (true) {
      TESSERA_ASSIGN(const char next, stream_.peek());
      if (next == 0) {
        run_.warn_count("{} lines in logs of NCCL's Inspector are no JSON: left out", bad_lines_);
        return {};
      }
      if (next == ',' || next == '[' || next == ']') {
        stream_.skip_char();
        continue;
      }
      const Status passed = stream_.value([&](JsonCursor& at) {
        InspectorRecord record;
        const bool good = take_record(at, record, 0);
        if (good && !at.starved()) add(record);
        return good;
      });
      if (!passed.ok()) TESSERA_TRY(pass_over_line(passed));
      if (calls_ > limits_.spans_max) {
        return source_.error(Code::out_of_memory,
                             fmt::format("it has more than {} collectives", limits_.spans_max));
      }
    }
  }

  /// A process that dies, or two that write at once, spoil a line; those behind it are good.
  Status pass_over_line(const Status& why) {
    const bool cut_off = stream_.cut_off();
    TESSERA_ASSIGN(const bool more, stream_.next_line());
    if (cut_off && !more && !members_.empty()) {
      run_.warn("a log of NCCL's Inspector ends in the middle: its process was stopped");
      return {};
    }
    const bool damaged = ++bad_lines_ > bad_lines_max || (!more && members_.empty());
    return damaged ? why : Status();
  }

  void add(const InspectorRecord& record) {
    const bool numbered = record.rank.find_first_not_of("-0123456789") == record.rank.npos;
    if (record.operation.empty() || record.rank.empty() || !numbered) {
      return run_.lost("records of NCCL's Inspector that are no call");
    }
    if (record.version != version_) {  // of each line, and the same in all
      version_ = record.version.substr(0, 40);
      tell_version(version_, {"logs of NCCL's Inspector", {4, 0}, {4, 2}}, run_);
    }
    constexpr std::size_t members_max = 16'384;
    const Key key{std::string(record.id.substr(0, 80)), decimal(record.rank, 0)};
    if (members_.size() >= members_max && !members_.contains(key)) {
      return run_.lost("calls of more communicators than are told apart");
    }
    InspectorMember& member = members_[key];
    member.ranks = std::clamp<std::int64_t>(decimal(record.ranks, 0), 1, 1 << 20);
    if (!record.group_name.empty() && record.group_name != "unknown") {
      member.title = run_.text(unescaped(record.group_name.substr(0, 200)));
    }
    if (host_.empty()) host_ = unescaped(record.host.substr(0, 200));
    const auto known = collective_kind(record.operation);
    const bool collective = known.has_value() && !record.p2p;
    if (!known && !record.p2p) {
      run_.warn_count(
          "{} calls in logs of NCCL's Inspector are no collective here: shown as copies", 1);
    }
    const OpKind kind = collective ? *known : OpKind::copy;
    const bool full = kind == OpKind::all_gather || kind == OpKind::reduce_scatter;
    // NCCL counts what one rank gives or gets.
    constexpr std::int64_t rank_bytes_max = std::int64_t{1} << 42;
    constexpr Time longest = Time{1} << 50;  // 13 days
    const std::int64_t bytes =
        std::clamp<std::int64_t>(decimal(record.bytes, 0), 0, rank_bytes_max);
    InspectorCall call{
        .duration = std::clamp<Time>(microseconds(record.duration), 1, longest),
        .written = microseconds(record.written),
        .sequence = decimal(record.sequence, 0),
        .name = run_.text(record.operation.substr(0, 80)),
        .algorithm = run_.text(nccl_algorithm(
            fmt::format("{}_{}", record.algorithm.substr(0, 20), record.protocol.substr(0, 20)))),
        .kind = kind,
        .collective = collective,
        .bytes = Bytes{bytes * (full ? member.ranks : 1)}};
    call.begin = record.kernel_begin > 0 ? record.kernel_begin : microseconds(record.start);
    if (record.kernel_begin > 0 && record.kernel_end > record.kernel_begin) {
      call.duration = record.kernel_end - record.kernel_begin;
    }
    member.calls.push_back(call);
    ++calls_;
  }

  /// Without times of their own, collectives end when they were written, or when the next begins.
  void find_times(std::vector<InspectorCall>& calls) {
    const auto untimed = std::count_if(calls.begin(), calls.end(),
                                       [](const InspectorCall& call) { return call.begin == 0; });
    if (untimed == 0) return;
    run_.warn_count(
        "{} calls in logs of NCCL's Inspector have durations and no begins: they are shown one "
        "after the other before the time when they were written (NCCL_INSPECTOR_DUMP_VERBOSE=1 "
        "tells their times)",
        untimed);
    std::stable_sort(calls.begin(), calls.end(), [](const auto& a, const auto& b) {
      return std::pair(a.written, a.sequence) < std::pair(b.written, b.sequence);
    });
    Time next = 0;  // the begin of the one after it
    for (auto call = calls.rbegin(); call != calls.rend(); ++call) {
      const Time end = next == 0 ? call->written : std::min(call->written, next);
      if (call->begin == 0) call->begin = std::max<Time>(end - call->duration, 1);
      next = call->begin;
    }
  }

  /// The largest communicator numbers the ranks of the run.
  void add_members() {
    const auto largest = std::max_element(
        members_.begin(), members_.end(),
        [](const auto& a, const auto& b) { return a.second.ranks < b.second.ranks; });
    const std::string world = largest->first.first;
    std::vector<Rank> ranks;
    for (const auto& [key, member] : members_) {
      if (key.first == world) ranks.push_back(static_cast<Rank>(key.second));
    }
    run_.world = std::max(run_.world, static_cast<std::int32_t>(largest->second.ranks));
    for (auto& [key, member] : members_) {
      constexpr std::size_t ranks_max = 1024;  // of one process
      const bool sane = key.second >= 0 && ranks.size() <= ranks_max;
      const bool numbered = key.first == world || member.ranks == largest->second.ranks;
      if (!sane || (!numbered && ranks.size() != 1)) {
        run_.lost("collectives of ranks that cannot be told",
                  static_cast<std::int64_t>(member.calls.size()));
        continue;
      }
      add_member(key, member, numbered ? static_cast<Rank>(key.second) : ranks.front());
    }
  }

  void add_member(const Key& key, InspectorMember& member, Rank number) {
    ImportedRank& rank = run_.rank(std::clamp(number, 0, 1 << 20), source_.path());
    rank.shared_clock = true;
    rank.host = host_;
    find_times(member.calls);
    const std::string& title = run_.text(member.title);
    const std::int32_t group = run_.group(
        {.name = key.first, .description = title, .size = static_cast<std::int32_t>(member.ranks)});
    const std::int32_t lane =
        rank.lane(title.empty() ? "nccl" : "nccl " + title, StreamRole::communication, run_);
    for (const InspectorCall& call : member.calls) {
      ImportedSpan span{.begin = call.begin,
                        .end = call.begin + call.duration,
                        .name = call.name,
                        .lane = lane,
                        .kind = call.kind};
      if (call.collective) {
        span.collective = static_cast<std::int32_t>(rank.collectives.size());
        rank.collectives.push_back({.group = group,
                                    .sequence = call.sequence,
                                    .bytes = call.bytes,
                                    .algorithm = call.algorithm});
      } else {
        span.bytes = call.bytes;
      }
      rank.spans.push_back(span);
    }
  }

  SourceFile& source_;
  JsonStream stream_;
  const ImportLimits& limits_;
  ImportedRun& run_;
  std::string host_, version_ = "?";
  std::map<Key, InspectorMember> members_;
  std::int64_t calls_ = 0, bad_lines_ = 0;
};

}  // namespace

bool is_nccl_inspector(const SourceFile& source) {
  const std::string_view head = source.head();
  const auto has_key = [&](std::string_view key) { return head.find(key) != head.npos; };
  return has_key("\"header\"") && has_key("\"metadata\"") &&
         (has_key("\"coll_perf\"") || has_key("\"p2p_perf\""));
}

Status read_nccl_inspector(SourceFile& source, const ImportLimits& limits, ImportedRun& run) {
  return InspectorReader(source, limits, run).read();
}

}  // namespace tessera::exchange
