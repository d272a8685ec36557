// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <map>
#include <set>

#include "exchange/formats/rocpd.h"
#include "exchange/import/device_ranks.h"
#include "exchange/import/format_version.h"
#include "exchange/parse/table_columns.h"

namespace tessera::exchange {
namespace {

class RpdReader {
 public:
  RpdReader(const SqliteFile& file, const SourceFile& source, const ImportLimits& limits,
            ImportedRun& run)
      : file_(file), ranks_(file, source, limits, run), run_(run) {}

  Status read() {
    TESSERA_TRY(read_version());
    TESSERA_TRY(find_devices());
    TESSERA_TRY(find_processes());
    TESSERA_TRY(read_operations());
    TESSERA_TRY(read_calls());
    TESSERA_TRY(ranks_.count_left_out({"rocpd_monitor"}));
    return ranks_.finish();
  }

 private:
  Result<TableColumns> columns(std::string_view table) const {
    return TableColumns::of(file_, std::string(table));
  }

  Status read_version() {
    return tell_database_version(file_, {"rocpd_metadata", "tag", "schema_version"},
                                 {"databases of rocmProfileData (rpd)", {1, 0}, {2, 99}}, run_);
  }

  Status find_devices() {
    TESSERA_ASSIGN(const TableColumns ops, columns("rocpd_op"));
    std::set<DeviceRanks::Key> keys;
    if (ops.has("gpuId")) {
      TESSERA_TRY(
          file_.rows("SELECT DISTINCT gpuId FROM rocpd_op LIMIT 4096", [&](const SqliteRow& row) {
            keys.emplace(row.integer(0), 0);
            return Status();
          }));
    }
    first_ = keys.empty() ? 0 : keys.begin()->first;
    ranks_.declare(keys, true);
    return {};
  }

  /// Operations do not say of which process they are, but their calls do.
  Status find_processes() {
    TESSERA_ASSIGN(const TableColumns links, columns("rocpd_api_ops"));
    TESSERA_ASSIGN(const TableColumns calls, columns("rocpd_api"));
    TESSERA_ASSIGN(const TableColumns ops, columns("rocpd_op"));
    if (ranks_.all().size() < 2 || !links.has_all({"api_id", "op_id"}) ||
        !calls.has_all({"id", "pid"}) || !ops.has_all({"id", "gpuId"})) {
      return {};
    }
    return file_.rows(
        "SELECT DISTINCT a.pid, o.gpuId FROM rocpd_api_ops l JOIN rocpd_api a ON a.id = l.api_id"
        " JOIN rocpd_op o ON o.id = l.op_id LIMIT 4096",
        [&](const SqliteRow& row) {
          device_of_process_.try_emplace(row.integer(0), row.integer(1));
          return Status();
        });
  }

  Status read_operations() {
    TESSERA_ASSIGN(const TableColumns ops, columns("rocpd_op"));
    if (!ops.has_all({"start", "end"})) return {};
    TESSERA_ASSIGN(const TableColumns strings, columns("rocpd_string"));
    const bool named = strings.has_all({"id", "string"});
    if (!named) {
      run_.warn(
          "a database of rocmProfileData has no names (rocpd_string): copies and collectives "
          "cannot "
          "be told from kernels");
    }
    TESSERA_ASSIGN(const std::string sizes, sizes_join());
    const std::string sql = fmt::format(
        "SELECT o.start, o.\"end\", {}, {}, {}, {}, {} FROM rocpd_op o{}{}{}",
        ops.pick("o", {"gpuId"}), ops.pick("o", {"queueId"}),
        named ? "coalesce(s.string, '')" : "''", named ? "coalesce(k.string, '')" : "''",
        sizes.empty() ? "0" : "c.size",
        named ? " LEFT JOIN rocpd_string s ON s.id = " + ops.pick("o", {"description_id"}) : "",
        named ? " LEFT JOIN rocpd_string k ON k.id = " + ops.pick("o", {"opType_id"}) : "", sizes);
    return ranks_.spans(sql, [&](const SqliteRow& row, Time begin, Time end) {
      const std::string_view name = row.text(4), kind = row.text(5);
      SourceLanes& lanes = *ranks_.of({row.integer(2), 0}).lanes;
      const bool copies = kind.starts_with("Copy") || kind.starts_with("Fill") ||
                          kind.starts_with("copy") || kind.starts_with("fill");
      if (copies) return lanes.copy(row.integer(3), begin, end, kind, Bytes{row.integer(6)});
      if (name.empty() && kind == "Barrier") return run_.lost("barriers of queues");
      lanes.kernel(row.integer(3), begin, end, name.empty() ? kind : name);
    });
  }

  /// Joins a copy with the call that says how many bytes. An operation has one call.
  Result<std::string> sizes_join() const {
    TESSERA_ASSIGN(const TableColumns links, columns("rocpd_api_ops"));
    TESSERA_ASSIGN(const TableColumns copies, columns("rocpd_copyapi"));
    TESSERA_ASSIGN(const TableColumns ops, columns("rocpd_op"));
    const bool known = links.has_all({"api_id", "op_id"}) &&
                       copies.has_all({"api_ptr_id", "size"}) && ops.has("id");
    if (!known) return std::string();
    return std::string(
        " LEFT JOIN (SELECT l.op_id AS op, max(p.size) AS size FROM rocpd_api_ops l"
        " JOIN rocpd_copyapi p ON p.api_ptr_id = l.api_id GROUP BY l.op_id) c ON c.op = o.id");
  }

  /// Marks of the program (roctx), and where the host waits for the device.
  Status read_calls() {
    TESSERA_ASSIGN(const TableColumns calls, columns("rocpd_api"));
    TESSERA_ASSIGN(const TableColumns strings, columns("rocpd_string"));
    TESSERA_ASSIGN(const TableColumns arguments, columns("rocpd_ustring"));
    if (!calls.has_all({"start", "end", "apiName_id"}) || !strings.has_all({"id", "string"})) {
      return ranks_.calls("rocpd_api", {}, {});
    }
    const bool marks = arguments.has_all({"id", "string"}) && calls.has("args_id");
    const std::string sql = fmt::format(
        "SELECT a.start, a.\"end\", {}, {}, s.string, {} FROM rocpd_api a"
        " JOIN rocpd_string s ON s.id = a.apiName_id{}"
        " WHERE s.string = 'UserMarker' OR s.string LIKE 'roctx%'"
        " OR (s.string LIKE '%ynchronize%' AND a.\"end\" - a.start >= {})",
        calls.pick("a", {"pid"}), calls.pick("a", {"tid"}), marks ? "coalesce(u.string, '')" : "''",
        marks ? " LEFT JOIN rocpd_ustring u ON u.id = a.args_id" : "", host_wait_min);
    return ranks_.calls("rocpd_api", sql, [&](const SqliteRow& row, Time begin, Time end) {
      const auto device = device_of_process_.find(row.integer(2));
      const std::int64_t gpu = device == device_of_process_.end() ? first_ : device->second;
      SourceLanes& lanes = *ranks_.of({gpu, 0}).lanes;
      const std::string_view name = row.text(4), text = row.text(5);
      if (name.find("ynchronize") != name.npos) return lanes.wait(begin, end, name);
      lanes.annotation(row.integer(3), begin, end, text.empty() ? name : text);
    });
  }

  const SqliteFile& file_;
  DeviceRanks ranks_;
  ImportedRun& run_;
  std::int64_t first_ = 0;  // the first device
  std::map<std::int64_t, std::int64_t> device_of_process_;
};

}  // namespace

bool is_rpd(const SourceFile& source) {
  return source.has_table("rocpd_op") || source.has_table("rocpd_api");
}

Status read_rpd(SourceFile& source, const ImportLimits& limits, ImportedRun& run) {
  TESSERA_ASSIGN(const SqliteFile file, SqliteFile::open(source.path()));
  return RpdReader(file, source, limits, run).read();
}

}  // namespace tessera::exchange
