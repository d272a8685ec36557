// SPDX-License-Identifier: Apache-2.0
// Ranks of a database that knows devices of processes: each is a rank.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>

#include "exchange/import/format.h"
#include "exchange/import/source_lanes.h"
#include "exchange/parse/sqlite_file.h"

namespace tessera::exchange {

class DeviceRanks {
 public:
  using Key = std::pair<std::int64_t, std::int64_t>;  // process, device

  struct Device {
    ImportedRank* rank = nullptr;
    std::unique_ptr<SourceLanes> lanes;
    std::int64_t allocated = 0;
  };

  /// All must outlive it.
  DeviceRanks(const SqliteFile& file, const SourceFile& source, const ImportLimits& limits,
              ImportedRun& run);

  /// Makes the ranks of `keys`, whose number the file's name tells if there is but one. First call.
  void declare(const std::set<Key>& keys, bool shared_clock);
  Device& of(const Key& key);
  bool has(const Key& key) const { return devices_.contains(key); }
  /// The first of a process, which is where its host's spans are shown; null for one without a
  /// device where others have one, whose events are counted as left out: it is no rank. Where no
  /// device says of which process it is (0), all are of one.
  Device* of_process(std::int64_t process);

  /// Calls `each` with rows of a SELECT that begins with start and end, ns, to which `epoch` is
  /// added. Fails: out_of_memory (more than can be imported), and as the file.
  using Each = std::function<void(const SqliteRow& row, Time begin, Time end)>;
  Status spans(const std::string& sql, const Each& each, Time epoch = 0);
  /// The same of the calls in `table` that are shown; all others are counted as left out.
  Status calls(std::string_view table, const std::string& sql, const Each& each, Time epoch = 0);
  /// Counts the rows of `tables` as left out, each by the name of its table.
  Status count_left_out(std::initializer_list<std::string> tables);
  /// Adds a sample; `delta` < 0 releases.
  void memory(Device& device, Time time, std::int64_t delta, std::string_view name);

  /// Fails: invalid_argument if there was nothing.
  Status finish();
  std::map<Key, Device>& all() { return devices_; }

 private:
  Device& make(const Key& key, Rank number);

  const SqliteFile& file_;
  const SourceFile& source_;
  const ImportLimits& limits_;
  ImportedRun& run_;
  bool shared_clock_ = false;
  std::size_t declared_ = 0;
  std::int64_t spans_ = 0, rows_ = 0;
  std::map<Key, Device> devices_;
};

}  // namespace tessera::exchange
