// SPDX-License-Identifier: Apache-2.0
#include "exchange/formats/memory_snapshot.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <vector>

#include "exchange/formats/allocation_site.h"
#include "exchange/import/file_rank.h"
#include "exchange/import/source_lanes.h"
#include "exchange/parse/pickle.h"

namespace tessera::exchange {
namespace {

constexpr std::int64_t snapshot_size_max = std::int64_t{8} << 30;
constexpr std::int64_t ns_per_us = 1000;

enum class SnapshotAction {
  alloc,
  free_requested,
  segment_more,
  segment_less,
  out_of_memory,
  passed_over,
  unknown
};

SnapshotAction snapshot_action(std::string_view name) {
  if (name == "alloc") return SnapshotAction::alloc;
  if (name == "free_requested") return SnapshotAction::free_requested;
  if (name == "segment_alloc" || name == "segment_map") return SnapshotAction::segment_more;
  if (name == "segment_free" || name == "segment_unmap") return SnapshotAction::segment_less;
  if (name == "oom") return SnapshotAction::out_of_memory;
  const bool known = name == "free_completed" || name == "snapshot" || name == "annotate";
  return known ? SnapshotAction::passed_over : SnapshotAction::unknown;
}

struct SnapshotEvent {
  SnapshotAction action = SnapshotAction::passed_over;
  std::uint64_t address = 0;
  std::int64_t size = 0;
  Time time = 0;
  std::int64_t device_free = 0;
  AllocationSite site;
};

/// What is held.
struct SnapshotBlock {
  std::int64_t size = 0;
  AllocationSite site;
};
using BlocksByAddress = std::map<std::uint64_t, SnapshotBlock>;

/// One device's part of a snapshot.
struct SnapshotDevice {
  std::vector<TreeValue> traces;  // lists of events; one in practice
  BlocksByAddress held;           // at the end
  std::int64_t reserved = 0;      // at the end
};

std::int64_t sane_number(std::int64_t size) {
  constexpr std::int64_t most = std::int64_t{1} << 52;
  return std::clamp<std::int64_t>(size, 0, most);
}

/// Sums stay within what a device may have, whatever a file says.
std::int64_t capped_sum(std::int64_t a, std::int64_t b) {
  constexpr std::int64_t most = std::int64_t{1} << 50;
  return std::clamp(a + b, -most, most);
}

/// Until torch 2.0 a block had its allocations, the latest first, in place of that one's stack.
TreeValue latest_allocation(TreeValue block, ImportedRun& run) {
  const TreeValue history = block["history"];
  TreeItems allocations(history);
  if (!allocations.next()) return {};
  if (history.size() > 1) run.lost("allocations of blocks before the latest", history.size() - 1);
  return allocations.value();
}

void add_segment(TreeValue segment, AllocationSites& sites, SnapshotDevice& device,
                 ImportedRun& run) {
  device.reserved = capped_sum(device.reserved, sane_number(segment["total_size"].integer()));
  auto address = static_cast<std::uint64_t>(segment["address"].integer());
  for (TreeItems blocks(segment["blocks"]); blocks.next();) {
    const TreeValue block = blocks.value();
    const std::int64_t size = block["size"].integer();
    if (block["address"].present()) {
      address = static_cast<std::uint64_t>(block["address"].integer());
    }
    const std::string_view state = block["state"].text();
    const bool known = state == "active_allocated" || state == "active_pending_free" ||
                       state == "active_awaiting_free" || state == "inactive";
    if (!known) {
      run.warn_count(
          "{} blocks of the allocator are in states that are not known: they count as free", 1);
    }
    const TreeValue latest = latest_allocation(block, run);
    if (state == "active_allocated") {
      const std::int64_t asked = block["requested_size"].integer(latest["real_size"].integer(size));
      const TreeValue frames = block["frames"].present() ? block["frames"] : latest["frames"];
      device.held[address] = {sane_number(asked), sites.of(frames)};
    } else if (latest.present()) {
      run.lost("allocations of blocks before the latest");
    }
    address += static_cast<std::uint64_t>(size);
  }
}

std::map<std::int64_t, SnapshotDevice> devices_of(TreeValue root, AllocationSites& sites,
                                                  ImportedRun& run) {
  std::map<std::int64_t, SnapshotDevice> devices;
  std::int64_t number = 0;
  for (TreeItems traces(root["device_traces"]); traces.next(); ++number) {
    if (traces.value().size() > 0) devices[number].traces.push_back(traces.value());
  }
  // `memory_snapshot()` of older versions was the list of segments alone.
  for (TreeItems segments(root.is(TreeKind::list) ? root : root["segments"]); segments.next();) {
    add_segment(segments.value(), sites, devices[segments.value()["device"].integer()], run);
  }
  return devices;
}

class DeviceMemory {
 public:
  DeviceMemory(const SnapshotDevice& device, AllocationSites& sites, ImportedRank& rank,
               ImportedRun& run)
      : device_(device), sites_(sites), rank_(rank), run_(run) {}

  /// False: there are more than `samples_max` samples, or more than twice as many events.
  bool write(std::int64_t samples_max) {
    samples_left_ = samples_max;
    events_left_ = 2 * samples_max;
    find_begin();
    for (const auto& [address, block] : held_) add(first_, block.size, block.site);
    for_each_event([&](const SnapshotEvent& event) { replay(event); });
    run_.warn_count(
        "{} events of the allocator have earlier times than the ones before them: shown at the "
        "times of those",
        backwards_);
    return samples_left_ >= 0 && events_left_ >= 0;
  }

 private:
  /// The order of events is what happened; times are read by several threads.
  template <class Each>
  void for_each_event(Each each) {
    Time ordinal = 0, last = 0;
    std::int64_t events = 0, backwards = 0;
    for (const TreeValue trace : device_.traces) {
      for (TreeItems list(trace); list.next() && samples_left_ >= 0 && events_left_ >= events;) {
        ++events;
        SnapshotEvent event = event_of(list.value());
        if (event.time == 0) event.time = ordinal += ns_per_us;
        backwards += event.time < last ? 1 : 0;
        event.time = last = std::max(event.time, last);
        each(event);
      }
    }
    if (events > events_left_) events_left_ = -1;
    backwards_ = backwards;
    if (ordinal > 0) {
      run_.warn("the allocator's events have no times: they are shown a microsecond apart");
    }
  }

  SnapshotEvent event_of(TreeValue entry) {
    SnapshotEvent event;
    for (TreeItems fields(entry); fields.next();) {
      const std::string_view key = fields.key().text();
      const TreeValue value = fields.value();
      if (key == "action") event.action = snapshot_action(value.text());
      if (key == "addr") event.address = static_cast<std::uint64_t>(value.integer());
      if (key == "size") event.size = sane_number(value.integer());
      if (key == "time_us") event.time = sane_number(value.integer()) * ns_per_us;
      if (key == "device_free") event.device_free = value.integer();
      if (key == "frames") event.site = sites_.of(value);
    }
    return event;
  }

  static std::int64_t reserved_change(const SnapshotEvent& event) {
    if (event.action == SnapshotAction::segment_more) return event.size;
    return event.action == SnapshotAction::segment_less ? -event.size : 0;
  }

  /// What was held when the events began: what was freed, or is held at the end, though no event
  /// has allocated it.
  void find_begin() {
    BlocksByAddress allocated;
    reserved_ = device_.reserved;
    for_each_event([&](const SnapshotEvent& event) {
      if (first_ == 0) first_ = event.time;
      reserved_ = capped_sum(reserved_, -reserved_change(event));
      if (event.action == SnapshotAction::alloc) allocated[event.address] = {};
      if (event.action == SnapshotAction::free_requested && allocated.erase(event.address) == 0) {
        held_.try_emplace(event.address, SnapshotBlock{event.size, event.site});
      }
    });
    for (const auto& [address, block] : device_.held) {
      if (!allocated.contains(address)) held_.try_emplace(address, block);
    }
  }

  void replay(const SnapshotEvent& event) {
    reserved_ = capped_sum(reserved_, reserved_change(event));
    if (event.action == SnapshotAction::unknown) {
      run_.warn_count("{} events of the allocator are of kinds that are not known: left out", 1);
    } else if (event.action == SnapshotAction::passed_over) {
      run_.lost("events of the allocator that change nothing of what is held");
    } else if (event.action == SnapshotAction::alloc && event.size == 0) {
      run_.lost("allocations without a size");
    } else if (event.action == SnapshotAction::alloc) {
      free_unseen(event);
      held_[event.address] = {event.size, event.site};
      add(event.time, event.size, event.site);
    } else if (event.action == SnapshotAction::free_requested) {
      const auto block = held_.find(event.address);
      if (block == held_.end()) return;
      add(event.time, -block->second.size, block->second.site);
      held_.erase(block);
    } else if (event.action == SnapshotAction::out_of_memory) {
      run_.diagnostics.push_back(
          {DiagnosticSeverity::error, "out_of_memory", rank_.rank, event.time,
           fmt::format("The allocator ran out of memory: {} bytes were asked for, the device had "
                       "{} free, and of {} that were reserved {} were in use.",
                       event.size, event.device_free, std::max(reserved_, allocated_),
                       allocated_)});
    }
  }

  /// Two blocks cannot be at one address.
  void free_unseen(const SnapshotEvent& event) {
    const auto block = held_.find(event.address);
    if (block == held_.end()) return;
    run_.warn_count(
        "{} blocks were allocated where one was that nobody had freed: it counts as freed then", 1);
    add(event.time, -block->second.size, block->second.site);
  }

  void add(Time time, std::int64_t delta, const AllocationSite& site) {
    delta = capped_sum(allocated_, delta) - allocated_;
    if (delta == 0 || --samples_left_ < 0) return;
    allocated_ += delta;
    rank_.memory.push_back({.time = time,
                            .delta = Bytes{delta},
                            .allocated = Bytes{allocated_},
                            .reserved = Bytes{std::max(reserved_, std::int64_t{0})},
                            .name = site.name,
                            .memory_class = site.memory_class});
  }

  const SnapshotDevice& device_;
  AllocationSites& sites_;
  ImportedRank& rank_;
  ImportedRun& run_;
  BlocksByAddress held_;
  Time first_ = 0;
  std::int64_t allocated_ = 0, reserved_ = 0, samples_left_ = 0, events_left_ = 0;
  std::int64_t backwards_ = 0;
};

/// What record_function has named: begins and ends, which nest.
void add_annotations(TreeValue list, std::int64_t device, ImportedRank& rank, ImportedRun& run) {
  constexpr std::size_t open_max = 1000;
  SourceLanes lanes(rank, run);
  std::vector<std::pair<std::string_view, Time>> open;
  std::int64_t left_out = 0;
  for (TreeItems items(list); items.next();) {
    const TreeValue entry = items.value();
    if (entry["device"].integer() != device) continue;
    const std::string_view name = entry["name"].text();
    const Time time = sane_number(entry["time_us"].integer()) * ns_per_us;
    if (entry["stage"].text() == "START" && open.size() < open_max) {
      open.emplace_back(name, time);
      continue;
    }
    const auto begin = std::find_if(open.rbegin(), open.rend(),
                                    [&](const auto& one) { return one.first == name; });
    if (begin == open.rend() || entry["stage"].text() != "END" || time < begin->second) {
      ++left_out;
      continue;
    }
    lanes.annotation(0, begin->second, time, name);
    open.erase(std::next(begin).base());
  }
  left_out += std::ssize(open);
  if (left_out > 0) run.lost("begins and ends of annotations that have no other half", left_out);
  lanes.finish();
}

}  // namespace

bool is_memory_snapshot(const SourceFile& source) {
  const std::string_view head = source.head();
  const auto has = [&](std::string_view key) { return head.find(key) != std::string_view::npos; };
  const bool segments = has("total_size") && has("blocks");
  const bool text = head.starts_with('{') || head.starts_with('[');
  // What is long may come before the rest that tells.
  const bool traces = has("device_traces") && (has("segments") || has("action"));
  return !text && (traces || (segments && (has("segments") || has("segment_type"))));
}

Status read_memory_snapshot(SourceFile& source, const ImportLimits&, ImportedRun& run) {
  constexpr std::int64_t bytes_per_event = 32, events_anyway = 1000;
  TESSERA_ASSIGN(std::string bytes, source.read_all(snapshot_size_max));
  const auto size = static_cast<std::int64_t>(bytes.size());
  const Result<Tree> tree = parse_pickle(std::move(bytes));
  if (!tree.ok()) return source.error(tree.status().code(), tree.status().message());
  AllocationSites sites(run);
  const std::map<std::int64_t, SnapshotDevice> devices = devices_of(tree->root(), sites, run);
  const Rank of_file = devices.size() == 1 ? rank_of_file(source.name(), false) : -1;
  for (const auto& [number, device] : devices) {
    ImportedRank& rank = run.rank(of_file, source.path());
    rank.shared_clock = true;
    const std::int64_t samples_max = size / bytes_per_event + events_anyway;
    const bool whole = DeviceMemory(device, sites, rank, run).write(samples_max);
    add_annotations(tree->root()["external_annotations"], number, rank, run);
    if (!whole || tree->exhausted()) return source.error(Code::corrupt, too_much_in_it);
  }
  if (!devices.empty()) return {};
  return source.error(Code::invalid_argument, "no device has memory in it");
}

}  // namespace tessera::exchange
