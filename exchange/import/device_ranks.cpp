// SPDX-License-Identifier: Apache-2.0
#include "exchange/import/device_ranks.h"

#include <fmt/format.h>

#include <algorithm>

#include "exchange/import/file_rank.h"

namespace tessera::exchange {

DeviceRanks::DeviceRanks(const SqliteFile& file, const SourceFile& source,
                         const ImportLimits& limits, ImportedRun& run)
    : file_(file), source_(source), limits_(limits), run_(run) {}

void DeviceRanks::declare(const std::set<Key>& keys, bool shared_clock) {
  shared_clock_ = shared_clock;
  const Rank of_file = keys.size() == 1 ? rank_of_file(source_.name(), false) : -1;
  for (const Key& key : keys) make(key, of_file);
  declared_ = keys.size();
}

DeviceRanks::Device& DeviceRanks::make(const Key& key, Rank number) {
  Device& device = devices_[key];
  device.rank = &run_.rank(number, source_.path());
  device.rank->shared_clock = shared_clock_;
  device.lanes = std::make_unique<SourceLanes>(*device.rank, run_);
  return device;
}

DeviceRanks::Device& DeviceRanks::of(const Key& key) {
  constexpr std::size_t devices_max = 4096;
  const auto found = devices_.find(key);
  if (found != devices_.end()) return found->second;
  return devices_.size() < devices_max ? make(key, -1) : devices_.begin()->second;
}

DeviceRanks::Device* DeviceRanks::of_process(std::int64_t process) {
  const auto found = devices_.lower_bound({process, -1});
  if (found != devices_.end() && found->first.first == process) return &found->second;
  if (declared_ == 0) return &of({process, 0});
  if (devices_.rbegin()->first.first == 0) return &devices_.begin()->second;
  run_.lost("events of processes without a device");
  return nullptr;
}

Status DeviceRanks::spans(const std::string& sql, const Each& each, Time epoch) {
  constexpr Time most = Time{1} << 61;
  return file_.rows(sql, [&](const SqliteRow& row) -> Status {
    const Time begin = row.integer(0), end = row.integer(1);
    ++rows_;
    if (row.null(0) || row.null(1) || begin < 0 || end < begin || end > most || epoch < 0 ||
        epoch > most) {
      run_.lost("events without an end or with impossible times");
      return {};
    }
    if (++spans_ > limits_.spans_max) {
      return source_.error(
          Code::out_of_memory,
          fmt::format("it has more than {} events: export a shorter range", limits_.spans_max));
    }
    each(row, begin + epoch, end + epoch);
    return {};
  });
}

Status DeviceRanks::calls(std::string_view table, const std::string& sql, const Each& each,
                          Time epoch) {
  const std::int64_t before = rows_;
  if (!sql.empty()) TESSERA_TRY(spans(sql, each, epoch));
  TESSERA_ASSIGN(const std::int64_t all, file_.count(table));
  const std::int64_t shown = rows_ - before;
  if (all > shown) run_.lost(calls_of_runtime, all - shown);
  return {};
}

Status DeviceRanks::count_left_out(std::initializer_list<std::string> tables) {
  for (const std::string& table : tables) {
    TESSERA_ASSIGN(const std::int64_t rows, file_.count(table));
    if (rows > 0) run_.lost(fmt::format("events of {}", table.substr(0, 60)), rows);
  }
  return {};
}

void DeviceRanks::memory(Device& device, Time time, std::int64_t delta, std::string_view name) {
  constexpr std::int64_t most = std::int64_t{1} << 50;
  delta = std::clamp(delta, -device.allocated, most - device.allocated);
  if (delta == 0) return;
  device.allocated += delta;
  device.rank->memory.push_back({.time = time,
                                 .delta = Bytes{delta},
                                 .allocated = Bytes{device.allocated},
                                 .reserved = Bytes{device.allocated},
                                 .name = run_.text(name),
                                 .memory_class = MemoryClass::unknown});
}

Status DeviceRanks::finish() {
  for (auto& [key, device] : devices_) device.lanes->finish();
  if (!devices_.empty()) return {};
  return source_.error(
      Code::invalid_argument,
      "no kernel, copy or annotation of which time and place are known was recorded "
      "into it");
}

}  // namespace tessera::exchange
