// SPDX-License-Identifier: Apache-2.0
#include "exchange/formats/rocpd.h"

#include <fmt/format.h>

#include <map>
#include <set>

#include "exchange/import/device_ranks.h"
#include "exchange/import/format_version.h"
#include "exchange/parse/table_columns.h"

namespace tessera::exchange {
namespace {

/// What is behind the names of tables: "_0000_..." for each run in the database. Any may be absent.
std::set<std::string> run_ids(const std::vector<std::string>& tables) {
  constexpr std::string_view prefixes[] = {"rocpd_kernel_dispatch", "rocpd_memory_copy",
                                           "rocpd_region", "rocpd_info_agent"};
  std::set<std::string> ids;
  for (const std::string& table : tables) {
    for (const std::string_view prefix : prefixes) {
      if (table.starts_with(prefix)) ids.insert(table.substr(prefix.size()));
    }
  }
  return ids;
}

/// One run of a rocpd database.
class RocpdRun {
 public:
  RocpdRun(const SqliteFile& file, std::string id, std::int64_t ordinal, DeviceRanks& ranks,
           ImportedRun& run)
      : file_(file), id_(std::move(id)), ordinal_(ordinal), ranks_(ranks), run_(run) {}

  Status read_version() {
    return tell_database_version(file_, {"rocpd_metadata" + id_, "tag", "schema_version"},
                                 {"databases of rocprofv3 (rocpd)", {3, 0}, {4, 99}}, run_);
  }

  Status find_devices(std::set<DeviceRanks::Key>& keys) {
    TESSERA_ASSIGN(const Rows rows, rows_of("rocpd_kernel_dispatch"));
    if (!rows.known()) return {};
    const std::string sql =
        fmt::format("SELECT DISTINCT {0}, {1} FROM {2} WHERE {1} IS NOT NULL LIMIT 4096", rows.pid,
                    rows.agent, rows.from);
    return file_.rows(sql, [&](const SqliteRow& row) {
      devices_.insert(key(row.integer(0), row.integer(1)));
      keys.insert(key(row.integer(0), row.integer(1)));
      return Status();
    });
  }

  Status read() {
    TESSERA_TRY(read_kernels());
    TESSERA_TRY(read_copies());
    TESSERA_TRY(read_regions());
    TESSERA_TRY(read_memory());
    return ranks_.count_left_out({"rocpd_sample" + id_, "rocpd_pmc_event" + id_});
  }

 private:
  /// A table, and what its rows are joined with to have times and places.
  struct Rows {
    TableColumns columns;
    std::string from, start, end, pid, tid, agent, stream;
    bool known() const { return !start.empty(); }
  };

  DeviceRanks::Key key(std::int64_t pid, std::int64_t agent) const {
    return {ordinal_ << 40 | (pid & 0xFFFFFFFF), agent};
  }

  Result<Rows> rows_of(const std::string& table) const {
    Rows rows;
    TESSERA_ASSIGN(rows.columns, TableColumns::of(file_, table + id_));
    const bool joined = rows.columns.has_all({"start_id", "end_id", "track_id"});
    if (!rows.columns.exists() || (!joined && !rows.columns.has_all({"start", "end"}))) return rows;
    rows.from = fmt::format("{} d", rows.columns.quoted());
    rows.start = joined ? "b.value" : "d.start";
    rows.end = joined ? "e.value" : "d.\"end\"";
    TableColumns places = rows.columns;
    const std::string_view alias = joined ? "t" : "d";
    if (joined) {
      TESSERA_ASSIGN(places, TableColumns::of(file_, "rocpd_track" + id_));
      TESSERA_ASSIGN(const TableColumns times, TableColumns::of(file_, "rocpd_timestamp" + id_));
      if (!places.has("id") || !times.has_all({"id", "value"})) {
        TESSERA_TRY(ranks_.count_left_out({table + id_}));
        return Rows();
      }
      rows.from += fmt::format(
          " LEFT JOIN {0} b ON b.id = d.start_id LEFT JOIN {0} e ON e.id = d.end_id"
          " LEFT JOIN {1} t ON t.id = d.track_id",
          times.quoted(), places.quoted());
    }
    rows.pid = places.pick(alias, {"pid"});
    rows.tid = places.pick(alias, {"tid"});
    rows.agent = places.pick(alias, {"agent_id"});
    rows.stream = places.pick(alias, {"stream_id", "queue_id"});
    return rows;
  }

  /// " LEFT JOIN ... s ON s.id = `by`", and the column of the text; "''" if there is no such table.
  Result<std::string> name_join(const std::string& table, const std::string& by,
                                std::initializer_list<std::string_view> texts,
                                std::string& column) const {
    TESSERA_ASSIGN(const TableColumns names, TableColumns::of(file_, table + id_));
    column = "''";
    if (!names.has("id") || by == "NULL") return std::string();
    column = fmt::format("coalesce({}, '')", names.pick("s", texts));
    return fmt::format(" LEFT JOIN {} s ON s.id = {}", names.quoted(), by);
  }

  Status read_kernels() {
    TESSERA_ASSIGN(const Rows rows, rows_of("rocpd_kernel_dispatch"));
    if (!rows.known()) return {};
    std::string name;
    TESSERA_ASSIGN(const std::string join,
                   name_join("rocpd_info_kernel_symbol", rows.columns.pick("d", {"kernel_id"}),
                             {"display_name", "kernel_name"}, name));
    const std::string sql =
        fmt::format("SELECT {}, {}, {}, {}, {}, {} FROM {}{}", rows.start, rows.end, rows.pid,
                    rows.agent, rows.stream, name, rows.from, join);
    return ranks_.spans(sql, [&](const SqliteRow& row, Time begin, Time end) {
      if (row.null(3)) return run_.lost("kernels that do not say on which device they ran");
      ranks_.of(key(row.integer(2), row.integer(3)))
          .lanes->kernel(row.integer(4), begin, end, row.text(5));
    });
  }

  Status read_copies() {
    TESSERA_ASSIGN(const Rows rows, rows_of("rocpd_memory_copy"));
    if (!rows.known()) return {};
    std::string name;
    TESSERA_ASSIGN(
        const std::string join,
        name_join("rocpd_string", rows.columns.pick("d", {"name_id"}), {"string"}, name));
    const std::string sql = fmt::format(
        "SELECT {}, {}, {}, {}, {}, {}, {}, {} FROM {}{}", rows.start, rows.end, rows.pid,
        rows.columns.pick("d", {"dst_agent_id"}), rows.columns.pick("d", {"src_agent_id"}),
        rows.stream, rows.columns.pick("d", {"size"}), name, rows.from, join);
    return ranks_.spans(sql, [&](const SqliteRow& row, Time begin, Time end) {
      // One of the two is the host.
      DeviceRanks::Key at = key(row.integer(2), row.integer(3));
      if (!devices_.contains(at)) at = key(row.integer(2), row.integer(4));
      DeviceRanks::Device* const device =
          devices_.contains(at) ? &ranks_.of(at) : ranks_.of_process(at.first);
      if (device == nullptr) return;
      const std::string_view called = row.text(7);
      device->lanes->copy(row.integer(5), begin, end, called.empty() ? "Memcpy" : called,
                          Bytes{row.integer(6)});
    });
  }

  /// Marks of the program (roctx), and where the host waits for the device.
  Status read_regions() {
    TESSERA_ASSIGN(const Rows rows, rows_of("rocpd_region"));
    if (!rows.known()) return {};
    std::string name, category = "''", events;
    TESSERA_ASSIGN(
        const std::string join,
        name_join("rocpd_string", rows.columns.pick("d", {"name_id"}), {"string"}, name));
    TESSERA_ASSIGN(const TableColumns event, TableColumns::of(file_, "rocpd_event" + id_));
    if (event.has_all({"id", "category_id"}) && rows.columns.has("event_id") && !join.empty()) {
      TESSERA_ASSIGN(const TableColumns strings, TableColumns::of(file_, "rocpd_string" + id_));
      category = "coalesce(c.string, '')";
      events = fmt::format(
          " LEFT JOIN {} v ON v.id = d.event_id LEFT JOIN {} c ON c.id ="
          " v.category_id",
          event.quoted(), strings.quoted());
    }
    const std::string sql = fmt::format(
        "SELECT {0}, {1}, {2}, {3}, {4}, {5} FROM {6}{7}{8} WHERE {5} LIKE 'MARKER%'"
        " OR ({4} LIKE '%ynchronize%' AND {1} - {0} >= {9})",
        rows.start, rows.end, rows.pid, rows.tid, name, category, rows.from, join, events,
        host_wait_min);
    const auto show = [&](const SqliteRow& row, Time begin, Time end) {
      DeviceRanks::Device* const device = ranks_.of_process(key(row.integer(2), 0).first);
      if (device == nullptr) return;
      const bool mark = row.text(5).starts_with("MARKER");
      mark ? device->lanes->annotation(row.integer(3), begin, end, row.text(4))
           : device->lanes->wait(begin, end, row.text(4));
    };
    return ranks_.calls("rocpd_region" + id_, sql, show);
  }

  /// Frees tell neither size nor device, but the address.
  Status read_memory() {
    TESSERA_ASSIGN(const Rows rows, rows_of("rocpd_memory_allocate"));
    if (!rows.known() || !rows.columns.has_all({"type", "size"})) return {};
    const std::string sql =
        fmt::format("SELECT {}, {}, {}, d.type, d.size, {}, {} FROM {} ORDER BY 1", rows.start,
                    rows.pid, rows.agent, rows.columns.pick("d", {"address"}),
                    rows.columns.has("level") ? "d.level" : "'REAL'", rows.from);
    struct Allocation {
      DeviceRanks::Key at;
      std::int64_t size = 0;
    };
    std::map<std::int64_t, Allocation> held;  // by address
    return file_.rows(sql, [&](const SqliteRow& row) -> Status {
      const Time time = row.integer(0);
      const std::int64_t address = row.integer(5);
      if (row.null(0) || time < 0 || time > Time{1} << 61) {
        run_.lost("events without an end or with impossible times");
      } else if (row.text(6) != "REAL") {
        run_.lost("events of memory that is reserved only");
      } else if (row.text(3) == "ALLOC") {
        const Allocation made{key(row.integer(1), row.integer(2)),
                              std::max<std::int64_t>(0, row.integer(4))};
        if (!devices_.contains(made.at)) {
          run_.lost("events of memory that is not the device's");
          return {};
        }
        held[address] = made;
        ranks_.memory(ranks_.of(made.at), time, made.size, "hipMalloc");
      } else if (row.text(3) != "FREE") {
        run_.lost("events of memory that neither take nor give back");
      } else if (const auto made = held.find(address); made != held.end()) {
        ranks_.memory(ranks_.of(made->second.at), time, -made->second.size, "hipMalloc");
        held.erase(made);
      } else {
        run_.lost("events of memory that give back what nobody took");
      }
      return {};
    });
  }

  const SqliteFile& file_;
  const std::string id_;
  const std::int64_t ordinal_;
  DeviceRanks& ranks_;
  ImportedRun& run_;
  std::set<DeviceRanks::Key> devices_;
};

}  // namespace

bool is_rocpd(const SourceFile& source) { return !run_ids(source.tables()).empty(); }

Status read_rocpd(SourceFile& source, const ImportLimits& limits, ImportedRun& run) {
  constexpr std::size_t runs_max = 256;
  TESSERA_ASSIGN(const SqliteFile file, SqliteFile::open(source.path()));
  DeviceRanks ranks(file, source, limits, run);
  std::vector<RocpdRun> runs;
  std::set<DeviceRanks::Key> keys;
  for (const std::string& id : run_ids(file.tables())) {
    if (runs.size() == runs_max) {
      run.warn(
          fmt::format("a rocpd database has more than {} runs: the others are left out", runs_max));
      break;
    }
    runs.emplace_back(file, id, static_cast<std::int64_t>(runs.size()), ranks, run);
    TESSERA_TRY(runs.back().read_version());
    TESSERA_TRY(runs.back().find_devices(keys));
  }
  ranks.declare(keys, true);
  for (RocpdRun& one : runs) TESSERA_TRY(one.read());
  return ranks.finish();
}

}  // namespace tessera::exchange
