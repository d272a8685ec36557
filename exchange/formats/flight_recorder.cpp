// SPDX-License-Identifier: Apache-2.0
#include "exchange/formats/flight_recorder.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <limits>

#include "exchange/formats/allocation_site.h"
#include "exchange/formats/flight_dumps.h"
#include "exchange/formats/flight_entry.h"
#include "exchange/import/collective_bytes.h"
#include "exchange/import/file_rank.h"
#include "exchange/import/format_version.h"
#include "exchange/import/torch_collectives.h"
#include "exchange/parse/json_tree.h"
#include "exchange/parse/pickle.h"

namespace tessera::exchange {
namespace {

constexpr std::int64_t dump_size_max = std::int64_t{4} << 30;
constexpr std::int64_t bytes_per_entry = 100;  // at least, even without its stack

// torch/csrc/distributed/c10d/FlightRecorder.hpp: the second number grows with new fields, the
// first one when fields change. 2.2 lists groups (pg_config), 2.3 what was enqueued (pg_status).
constexpr KnownVersions flight_versions{"dumps of PyTorch's Flight Recorder", {2, 0}, {2, 10}};

/// "[0, 1, 2]", or a list.
std::vector<Rank> flight_ranks(TreeValue value) {
  std::vector<Rank> ranks;
  for (TreeItems items(value); items.next();) {
    ranks.push_back(static_cast<Rank>(items.value().integer()));
  }
  const std::string_view text = value.text();
  for (const char *at = text.data(), *end = at + text.size(); at < end;) {
    Rank rank = 0;
    const auto read = std::from_chars(at, end, rank);
    if (read.ec == std::errc()) ranks.push_back(rank);
    at = std::max(read.ptr, at + 1);
  }
  std::sort(ranks.begin(), ranks.end());
  ranks.erase(std::unique(ranks.begin(), ranks.end()), ranks.end());
  const bool sane = !ranks.empty() && ranks.front() >= 0 && ranks.back() < 1 << 20;
  return sane ? ranks : std::vector<Rank>();
}

/// The first versions were the list alone.
TreeValue flight_entries(TreeValue root) {
  return root.is(TreeKind::list) ? root : root["entries"];
}

class DumpReader {
 public:
  DumpReader(TreeValue root, std::int64_t size, ImportedRank& rank, ImportedRun& run)
      : root_(root), members_left_(size), rank_(rank), run_(run), dumps_(*run.flight_dumps) {}

  void read() {
    rank_.shared_clock = true;
    tell_version(root_["version"].text(), flight_versions, run_);
    read_groups();
    for (TreeItems entries(flight_entries(root_)); entries.next();) {
      entries_.emplace_back(entries.value());
    }
    for (const FlightEntry& entry : entries_) {
      latest_ = std::max({latest_, entry.created, entry.started, entry.ended});
    }
    for (std::size_t i = 0; i < entries_.size(); ++i) {
      const Time next = i + 1 < entries_.size() ? entries_[i + 1].created : latest_;
      add(entries_[i], next);
    }
    read_status();
    tell_unknown();
  }

 private:
  struct Known {
    FlightGroup* group = nullptr;
    std::int32_t index = -1;  // of ImportedRun::groups
    std::int32_t lane = -1;
    Time free = std::numeric_limits<Time>::min();  // when the last collective of it ended
  };

  void read_groups() {
    for (TreeItems groups(root_["pg_config"]); groups.next();) {
      // One list may be that of a thousand groups.
      const TreeValue listed = groups.value()["ranks"];
      members_left_ -= listed.size() + static_cast<std::int64_t>(listed.text().size());
      if (members_left_ < 0) return;
      const std::vector<Rank> ranks = flight_ranks(listed);
      if (!ranks.empty()) run_.world = std::max(run_.world, ranks.back() + 1);
      // gloo gives no names, so that groups overwrite one another.
      const std::string_view name = short_text(groups.key());
      if (name.empty()) continue;
      members_[name] = ranks;
      if (!ranks.empty()) dumps_.world = std::max<std::int64_t>(dumps_.world, ranks.back() + 1);
    }
  }

  Known& group_of(const FlightEntry& entry) {
    Known& known = groups_[entry.group];
    if (known.group != nullptr) return known;
    const auto config = members_.find(entry.group);
    const std::vector<Rank> members =
        config == members_.end() ? std::vector<Rank>() : config->second;
    const bool nameless = entry.description.empty() || entry.description == undescribed;
    const std::string_view title = nameless ? entry.group : entry.description;
    known.group = like(entry.group, members);
    if (known.group == nullptr) {
      std::string key(entry.group);
      for (const Rank rank : members) key += fmt::format(" {}", rank);
      known.group = &dumps_.groups[key];
      known.group->listed = members;
    }
    known.group->name = entry.group;
    known.group->title = title;
    if (!members.empty()) known.group->members = members;
    known.group->whole_world = entry.group == "0" || entry.description == "default_pg";
    known.index = run_.group({.name = std::string(entry.group),
                              .description = std::string(title),
                              .ranks = known.group->listed});
    known.lane =
        rank_.lane(fmt::format("{} {}", entry.library(), title), StreamRole::communication, run_);
    return known;
  }

  /// A dump may lack the list of groups that others have: the group of that name which this rank
  /// may be in. Null: there is none, or more than one.
  FlightGroup* like(std::string_view name, const std::vector<Rank>& members) const {
    FlightGroup* found = nullptr;
    for (auto& [key, group] : dumps_.groups) {
      const bool either = group.members.empty() != members.empty();
      if (group.name != name || (!either && group.members != members)) continue;
      const std::vector<Rank>& among = members.empty() ? group.members : members;
      bool all = std::binary_search(among.begin(), among.end(), rank_.rank);
      for (const auto& [rank, member] : group.by_rank) {
        all = all && std::binary_search(among.begin(), among.end(), rank);
      }
      if (!all) continue;
      if (found != nullptr) return nullptr;
      found = &group;
    }
    return found;
  }

  void add(const FlightEntry& entry, Time next) {
    Known& known = group_of(entry);
    const auto kind = entry.p2p ? std::nullopt : collective_kind(entry.name);
    const std::string operation = operation_of(entry.name);
    const auto type = torch_type(entry.dtype);
    const OpKind op_kind = kind.value_or(OpKind::copy);
    const Bytes bytes =
        collective_bytes(op_kind, entry.elements_in, entry.elements_out, type ? type->size : 0);
    count_unknown(entry, kind.has_value(), type.has_value());
    ImportedSpan span{.name = run_.text(operation), .lane = known.lane, .kind = op_kind};
    set_times(entry, next, known, span);
    if (kind) {
      span.collective = static_cast<std::int32_t>(rank_.collectives.size());
      rank_.collectives.push_back({.group = known.index,
                                   .sequence = entry.sequence,
                                   .bytes = bytes,
                                   .dtype = type.value_or(TorchType()).dtype,
                                   .dtype_known = type.has_value()});
    } else {
      span.bytes = bytes;
    }
    rank_.spans.push_back(span);
    if (!entry.p2p && entry.sequence >= 0) remember(entry, operation, *known.group);
  }

  void count_unknown(const FlightEntry& entry, bool kind, bool type) {
    waiting_p2p_ += entry.p2p && !entry.finished() ? 1 : 0;
    other_states_ += entry.known_state ? 0 : 1;
    other_calls_ += kind || entry.p2p ? 0 : 1;
    without_number_ += entry.p2p || entry.sequence >= 0 ? 0 : 1;
    without_type_ += type || entry.elements_in + entry.elements_out == 0 ? 0 : 1;
  }

  void tell_unknown() {
    run_.warn_count(
        "{} sends and receives of the Flight Recorder have not ended: who is missing in them "
        "cannot "
        "be told",
        waiting_p2p_);
    run_.warn_count(
        "{} calls of the Flight Recorder are in states that are not known: they count as not ended",
        other_states_);
    run_.warn_count(
        "{} calls of the Flight Recorder are gathers, scatters, coalesced or others that are no "
        "collective here: shown as copies",
        other_calls_);
    run_.warn_count(
        "{} calls of the Flight Recorder have no number of their group (collective_seq_id): who is "
        "missing in them cannot be told",
        without_number_);
    run_.warn_count(
        "the sizes of {} calls of the Flight Recorder are not known: their dtypes are "
        "of no known name",
        without_type_);
  }

  /// Collectives of a group run one after the other. One that has not ended lasts until the last
  /// thing that the recorder knows.
  void set_times(const FlightEntry& entry, Time next, Known& known, ImportedSpan& span) const {
    Time begin = entry.started > 0 ? entry.started : entry.created;
    Time end = latest_;
    if (entry.ended > 0) {
      end = entry.ended;
      if (entry.duration > 0) begin = std::max(entry.created, end - entry.duration);
    } else if (entry.finished()) {
      end = next;
    }
    span.begin = std::max(begin, known.free);
    span.end = std::max(end, span.begin + 1);
    known.free = span.end;
  }

  void remember(const FlightEntry& entry, const std::string& operation, FlightGroup& group) {
    FlightMember& member = group.by_rank[rank_.rank];
    const auto [call, added] = member.calls.try_emplace(entry.sequence);
    // Those that are coalesced have one number.
    call->second.finished = entry.finished() && (added || call->second.finished);
    if (!added) return;
    const std::string_view dtype = entry.dtype;
    call->second = {operation,
                    entry.elements_in,
                    entry.elements_out,
                    std::string(dtype.substr(0, 40)),
                    site_of_frames(entry.frames),
                    entry.finished(),
                    entry.created};
    const std::int64_t in = entry.elements_in, out = entry.elements_out;
    const std::int64_t small = std::min(in, out), large = std::max(in, out);
    const bool tells_size = operation == "all_gather" || operation == "reduce_scatter";
    if (tells_size && small > 0 && large % small == 0) group.size = large / small;
    if (group.whole_world && group.size > 0 && group.size <= 1 << 20) {
      run_.world = std::max(run_.world, static_cast<std::int32_t>(group.size));
      dumps_.world = std::max(dumps_.world, group.size);
    }
  }

  /// What the recorder has forgotten of groups, it has counted.
  void read_status() {
    std::map<std::int64_t, std::string_view> names;  // by the group's number
    for (TreeItems entries(flight_entries(root_)); entries.next();) {
      TreeItems group(entries.value()["process_group"]);
      if (group.next()) names[entries.value()["pg_id"].integer(-1)] = short_text(group.value());
    }
    for (TreeItems all(root_["pg_status"]); all.next();) {
      const TreeValue last = all.value()["last_enqueued_collective"];
      std::int64_t number = -1, sequence = last.integer(-1);
      const auto parse = [](std::string_view text, std::int64_t& to) {
        std::from_chars(text.data(), text.data() + text.size(), to);
      };
      parse(all.key().text(), number);
      if (last.is(TreeKind::text)) parse(last.text(), sequence);
      const auto known = groups_.find(names[number]);
      if (known == groups_.end() || known->second.group == nullptr) continue;
      known->second.group->by_rank[rank_.rank].last_enqueued = sequence;
    }
  }

  TreeValue root_;
  std::int64_t members_left_;  // of groups, that a dump of this size can list
  ImportedRank& rank_;
  ImportedRun& run_;
  FlightDumps& dumps_;
  std::map<std::string_view, std::vector<Rank>> members_;  // by name, as the dump says
  std::map<std::string_view, Known> groups_;
  std::vector<FlightEntry> entries_;
  Time latest_ = 0;
  std::int64_t waiting_p2p_ = 0, other_states_ = 0, other_calls_ = 0, without_number_ = 0,
               without_type_ = 0;
};

bool is_json_dump(const SourceFile& source) {
  const std::size_t first = source.head().find_first_not_of(" \t\r\n");
  return first != std::string_view::npos &&
         (source.head()[first] == '{' || source.head()[first] == '[');
}

/// The rank of the name, or else the lowest that no other dump is of.
Rank rank_of_dump(const SourceFile& source, ImportedRun& run) {
  const std::vector<Rank>& taken = run.flight_dumps->ranks;
  const Rank named = rank_of_file(source.name(), true);
  if (named >= 0) return named;
  run.warn(
      "names of Flight Recorder dumps do not tell their ranks (nccl_trace_rank_3): they are "
      "numbered in their order");
  Rank rank = 0;
  while (std::binary_search(taken.begin(), taken.end(), rank)) ++rank;
  return rank;
}

/// Of groups whose members nobody lists: where all ranks have left a dump, those who call are it.
void tell_sizes(const FlightDumps& dumps, ImportedRun& run) {
  const bool all = static_cast<std::int64_t>(dumps.ranks.size()) == dumps.world;
  for (const auto& [key, group] : dumps.groups) {
    std::int64_t size = group.size;
    if (size == 0 && all) size = static_cast<std::int64_t>(group.by_rank.size());
    run.group({.name = group.name,
               .ranks = group.listed,
               .size = static_cast<std::int32_t>(std::min<std::int64_t>(size, 1 << 20))});
  }
}

}  // namespace

bool is_flight_recorder(const SourceFile& source) {
  const auto has = [&](std::string_view key) {
    return source.head().find(key) != std::string_view::npos;
  };
  return (has("seq_id") && has("profiling_name")) ||
         (has("pg_config") && (has("pg_status") || !is_json_dump(source)));
}

Status read_flight_recorder(SourceFile& source, const ImportLimits&, ImportedRun& run) {
  TESSERA_ASSIGN(std::string bytes, source.read_all(dump_size_max));
  const auto size = static_cast<std::int64_t>(bytes.size());
  const bool json = is_json_dump(source);
  const Result<Tree> tree = json ? parse_json_tree(bytes) : parse_pickle(std::move(bytes));
  if (!tree.ok()) return source.error(tree.status().code(), tree.status().message());
  const TreeValue root = tree->root();
  if (flight_entries(root).size() > size / bytes_per_entry) {
    return source.error(Code::corrupt, too_much_in_it);
  }
  if (!run.flight_dumps) run.flight_dumps = std::make_shared<FlightDumps>();
  const Rank rank = rank_of_dump(source, run);
  std::vector<Rank>& ranks = run.flight_dumps->ranks;
  const auto place = std::lower_bound(ranks.begin(), ranks.end(), rank);
  if (place != ranks.end() && *place == rank) {
    return source.error(Code::invalid_argument,
                        fmt::format("another Flight Recorder dump is of rank {}, too: name one "
                                    "file per rank, with the rank in its name",
                                    rank));
  }
  ranks.insert(place, rank);
  DumpReader(root, size, run.rank(rank, source.path()), run).read();
  return tree->exhausted() ? source.error(Code::corrupt, too_much_in_it) : Status();
}

Status conclude_flight_recorder(ImportedRun& run) {
  if (!run.flight_dumps) return {};
  tell_sizes(*run.flight_dumps, run);
  for (ImportedDiagnostic& finding : findings_of(*run.flight_dumps)) {
    run.diagnostics.push_back(std::move(finding));
  }
  run.flight_dumps.reset();
  return {};
}

}  // namespace tessera::exchange
