// SPDX-License-Identifier: Apache-2.0
#include "exchange/formats/nsys.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "exchange/import/device_ranks.h"
#include "exchange/import/format_version.h"
#include "exchange/parse/table_columns.h"

namespace tessera::exchange {
namespace {

constexpr std::string_view nsys_kernels = "CUPTI_ACTIVITY_KIND_KERNEL";
constexpr std::string_view nsys_copies = "CUPTI_ACTIVITY_KIND_MEMCPY";
constexpr std::string_view nsys_sets = "CUPTI_ACTIVITY_KIND_MEMSET";
constexpr std::string_view nsys_graphs = "CUPTI_ACTIVITY_KIND_GRAPH_TRACE";
constexpr std::string_view nsys_runtime = "CUPTI_ACTIVITY_KIND_RUNTIME";
constexpr std::string_view nsys_memory = "CUDA_GPU_MEMORY_USAGE_EVENTS";
constexpr std::string_view nsys_nvtx = "NVTX_EVENTS";
constexpr std::int64_t device_memory = 2;       // ENUM_CUDA_MEM_KIND
constexpr std::int64_t thread_bits = 0xFFFFFF;  // of a global thread id; the others are its process

const char* copy_name(std::int64_t kind) {
  switch (kind) {  // ENUM_CUDA_MEMCPY_OPER
    case 1: return "Memcpy HtoD";
    case 2: return "Memcpy DtoH";
    case 8: return "Memcpy DtoD";
    case 10: return "Memcpy PtoP";
    default: return "Memcpy";
  }
}

class NsysReader {
 public:
  NsysReader(const SqliteFile& file, const SourceFile& source, const ImportLimits& limits,
             ImportedRun& run)
      : file_(file), ranks_(file, source, limits, run), run_(run) {}

  Status read() {
    TESSERA_TRY(read_version());
    TESSERA_TRY(read_clock());
    TESSERA_TRY(find_devices());
    TESSERA_TRY(read_kernels());
    TESSERA_TRY(read_copies(nsys_copies));
    TESSERA_TRY(read_copies(nsys_sets));
    TESSERA_TRY(read_graphs());
    TESSERA_TRY(read_waits());
    TESSERA_TRY(read_annotations());
    TESSERA_TRY(read_memory());
    TESSERA_TRY(describe());
    TESSERA_TRY(count_left_out());
    return ranks_.finish();
  }

 private:
  using Key = DeviceRanks::Key;

  Result<TableColumns> columns(std::string_view table) const {
    return TableColumns::of(file_, std::string(table));
  }

  /// Exports of before 2022 do not say it.
  Status read_version() {
    return tell_database_version(file_, {"META_DATA_EXPORT", "name", "EXPORT_SCHEMA_VERSION"},
                                 {"exports of Nsight Systems (schema)", {2, 0}, {3, 99}}, run_);
  }

  /// Events in tables of which nothing is read.
  Status count_left_out() {
    constexpr std::string_view read[] = {nsys_kernels, nsys_copies, nsys_sets, nsys_graphs,
                                         nsys_runtime, nsys_memory, nsys_nvtx};
    for (const std::string& table : file_.tables()) {
      if (std::find(std::begin(read), std::end(read), table) != std::end(read)) continue;
      TESSERA_ASSIGN(const TableColumns has, columns(table));
      if (!has.has("start")) continue;
      TESSERA_ASSIGN(const std::int64_t rows, file_.count(table));
      if (rows > 0) run_.lost(fmt::format("events of {}", table.substr(0, 60)), rows);
    }
    TESSERA_ASSIGN(const TableColumns marks, columns(nsys_nvtx));
    if (!marks.has("eventType")) return {};
    // Of the others, categories, domains and names of threads say nothing of times.
    return file_.rows(
        "SELECT count(*) FROM NVTX_EVENTS WHERE eventType NOT IN (33, 39, 59, 60, 75)",
        [&](const SqliteRow& row) {
          if (row.integer(0) > 0) run_.lost("NVTX events that are no ranges", row.integer(0));
          return Status();
        });
  }

  Status read_clock() {
    TESSERA_ASSIGN(const TableColumns start, columns("TARGET_INFO_SESSION_START_TIME"));
    if (!start.has("utcEpochNs")) return {};
    return file_.rows("SELECT utcEpochNs FROM TARGET_INFO_SESSION_START_TIME LIMIT 1",
                      [&](const SqliteRow& row) {
                        epoch_ = std::clamp<Time>(row.integer(0), 0, Time{1} << 61);
                        return Status();
                      });
  }

  /// One device of one process is one rank.
  Status find_devices() {
    std::set<Key> keys;
    for (const std::string_view name : {nsys_kernels, nsys_copies, nsys_sets, nsys_graphs}) {
      TESSERA_TRY(find_devices(name, keys));
    }
    // A device on which nothing ran is a rank only if there is no other.
    if (keys.empty()) TESSERA_TRY(find_devices(nsys_memory, keys));
    ranks_.declare(keys, epoch_ != 0);
    return {};
  }

  Status find_devices(std::string_view name, std::set<Key>& keys) const {
    TESSERA_ASSIGN(const TableColumns table, columns(name));
    if (!table.has("start")) return {};
    const std::string sql =
        fmt::format("SELECT DISTINCT {}, {} FROM {} t LIMIT 4096", table.pick("t", {"globalPid"}),
                    table.pick("t", {"deviceId"}), table.quoted());
    return file_.rows(sql, [&](const SqliteRow& row) {
      keys.emplace(row.integer(0), row.integer(1));
      return Status();
    });
  }

  DeviceRanks::Device* device_of_thread(std::int64_t global_thread) {
    return ranks_.of_process(global_thread & ~thread_bits);
  }

  Status spans(const std::string& sql, const DeviceRanks::Each& each) {
    return ranks_.spans(sql, each, epoch_);
  }

  Status read_kernels() {
    TESSERA_ASSIGN(const TableColumns table, columns(nsys_kernels));
    if (!table.has_all({"start", "end"})) {
      run_.warn("an Nsight Systems export has no GPU kernels (CUPTI_ACTIVITY_KIND_KERNEL)");
      return {};
    }
    const bool named = file_.has_table("StringIds");
    if (!named) {
      run_.warn(
          "an Nsight Systems export has no names (StringIds): kernels are called \"kernel\", and "
          "those of NCCL cannot be told from others");
    }
    const std::string name = table.pick("k", {"shortName", "demangledName", "mangledName"});
    const std::string sql = fmt::format(
        "SELECT k.start, k.end, {}, {}, {}, {} FROM {} k{}", table.pick("k", {"globalPid"}),
        table.pick("k", {"deviceId"}), table.pick("k", {"streamId"}),
        named ? "coalesce(s.value, 'kernel')" : "'kernel'", table.quoted(),
        named ? fmt::format(" LEFT JOIN StringIds s ON s.id = {}", name) : "");
    return spans(sql, [&](const SqliteRow& row, Time begin, Time end) {
      ranks_.of({row.integer(2), row.integer(3)})
          .lanes->kernel(row.integer(4), begin, end, row.text(5));
    });
  }

  Status read_copies(std::string_view which) {
    TESSERA_ASSIGN(const TableColumns table, columns(which));
    if (!table.has_all({"start", "end"})) return {};
    const std::string sql = fmt::format(
        "SELECT c.start, c.end, {}, {}, {}, {}, {} FROM {} c", table.pick("c", {"globalPid"}),
        table.pick("c", {"deviceId"}), table.pick("c", {"streamId"}), table.pick("c", {"bytes"}),
        table.pick("c", {"copyKind"}), table.quoted());
    return spans(sql, [&](const SqliteRow& row, Time begin, Time end) {
      const char* const name = which == nsys_sets ? "Memset" : copy_name(row.integer(6));
      ranks_.of({row.integer(2), row.integer(3)})
          .lanes->copy(row.integer(4), begin, end, name, Bytes{row.integer(5)});
    });
  }

  /// Graphs are recorded as a whole unless somebody asks for their nodes.
  Status read_graphs() {
    TESSERA_ASSIGN(const TableColumns table, columns(nsys_graphs));
    if (!table.has_all({"start", "end"})) return {};
    const std::string sql =
        fmt::format("SELECT g.start, g.end, {}, {}, {} FROM {} g", table.pick("g", {"globalPid"}),
                    table.pick("g", {"deviceId"}), table.pick("g", {"streamId"}), table.quoted());
    return spans(sql, [&](const SqliteRow& row, Time begin, Time end) {
      ranks_.of({row.integer(2), row.integer(3)})
          .lanes->kernel(row.integer(4), begin, end, "CUDA graph");
    });
  }

  Status read_waits() {
    TESSERA_ASSIGN(const TableColumns table, columns(nsys_runtime));
    const bool named = table.has_all({"start", "end", "nameId"}) && file_.has_table("StringIds");
    const std::string sql =
        !named ? std::string()
               : fmt::format(
                     "SELECT r.start, r.end, {}, s.value FROM {} r JOIN StringIds s ON s.id = "
                     "r.nameId "
                     "WHERE r.end - r.start >= {} AND s.value LIKE '%ynchronize%'",
                     table.pick("r", {"globalTid"}), table.quoted(), host_wait_min);
    const auto wait = [&](const SqliteRow& row, Time begin, Time end) {
      std::string_view name = row.text(3);
      name = name.substr(0, name.find("_v"));  // "cudaDeviceSynchronize_v3020"
      DeviceRanks::Device* const device = device_of_thread(row.integer(2));
      if (device != nullptr) device->lanes->wait(begin, end, name);
    };
    return ranks_.calls(nsys_runtime, sql, wait, epoch_);
  }

  Status read_annotations() {
    TESSERA_ASSIGN(const TableColumns table, columns(nsys_nvtx));
    if (!table.has_all({"start", "end"})) return {};
    const bool ids = table.has("textId") && file_.has_table("StringIds");
    // Ranges that were pushed and popped, and those of one call each.
    const std::string kinds = table.has("eventType") ? " WHERE n.eventType IN (59, 60)" : "";
    const std::string sql = fmt::format(
        "SELECT n.start, n.end, {}, coalesce({}{}, '') FROM {} n{}{}",
        table.pick("n", {"globalTid"}), table.pick("n", {"text"}), ids ? ", s.value" : "",
        table.quoted(), ids ? " LEFT JOIN StringIds s ON s.id = n.textId" : "", kinds);
    return spans(sql, [&](const SqliteRow& row, Time begin, Time end) {
      const std::string_view name = row.text(3);
      if (name.empty()) return run_.lost("NVTX ranges without a name");
      DeviceRanks::Device* const device = device_of_thread(row.integer(2));
      if (device != nullptr) device->lanes->annotation(row.integer(2), begin, end, name);
    });
  }

  /// What processes take from devices; what allocators of frameworks do inside is not known.
  Status read_memory() {
    TESSERA_ASSIGN(const TableColumns table, columns(nsys_memory));
    if (!table.has_all({"start", "bytes", "memoryOperationType"})) return {};
    const std::string sql = fmt::format(
        "SELECT m.start, {}, {}, m.bytes, m.memoryOperationType, {} FROM {} m ORDER BY 1",
        table.pick("m", {"globalPid"}), table.pick("m", {"deviceId"}),
        table.has("memKind") ? "m.memKind" : std::to_string(device_memory), table.quoted());
    return file_.rows(sql, [&](const SqliteRow& row) -> Status {
      if (row.integer(5) != device_memory) {
        run_.lost("events of memory that is not the device's");
        return {};
      }
      if (row.integer(4) != 0 && row.integer(4) != 1) {  // ENUM_CUDA_DEV_MEM_EVENT_OPER
        run_.lost("events of memory that neither take nor give back");
        return {};
      }
      const Key at{row.integer(1), row.integer(2)};
      if (!ranks_.has(at)) {
        run_.lost("events of memory of devices on which nothing ran");
        return {};
      }
      const std::int64_t bytes = std::clamp<std::int64_t>(row.integer(3), 0, 1LL << 50);
      const Time time = std::clamp<Time>(row.integer(0), 0, Time{1} << 61) + epoch_;
      ranks_.memory(ranks_.of(at), time, row.integer(4) == 0 ? bytes : -bytes, "cudaMalloc");
      return {};
    });
  }

  Status describe() {
    TESSERA_ASSIGN(const TableColumns gpus, columns("TARGET_INFO_GPU"));
    if (gpus.has_all({"name", "totalMemory"})) {
      TESSERA_TRY(file_.rows(
          "SELECT name, totalMemory FROM TARGET_INFO_GPU LIMIT 1", [&](const SqliteRow& row) {
            run_.facts.cluster = row.text(0).substr(0, 120);
            run_.facts.memory_per_rank = Bytes{std::max<std::int64_t>(0, row.integer(1))};
            return Status();
          }));
    }
    TESSERA_ASSIGN(const TableColumns system, columns("TARGET_INFO_SYSTEM_ENV"));
    if (!system.has_all({"name", "value"})) return {};
    return file_.rows("SELECT value FROM TARGET_INFO_SYSTEM_ENV WHERE name = 'Hostname' LIMIT 1",
                      [&](const SqliteRow& row) {
                        for (auto& [key, device] : ranks_.all()) device.rank->host = row.text(0);
                        return Status();
                      });
  }

  const SqliteFile& file_;
  DeviceRanks ranks_;
  ImportedRun& run_;
  Time epoch_ = 0;  // of the session's begin; 0: unknown
};

}  // namespace

bool is_nsys(const SourceFile& source) {
  return source.has_table(nsys_kernels) || source.has_table(nsys_nvtx) ||
         source.has_table(nsys_runtime) || source.has_table(nsys_graphs) ||
         source.has_table(nsys_copies) || source.has_table(nsys_memory) ||
         (source.has_table("StringIds") && source.has_table("TARGET_INFO_GPU"));
}

Status read_nsys(SourceFile& source, const ImportLimits& limits, ImportedRun& run) {
  TESSERA_ASSIGN(const SqliteFile file, SqliteFile::open(source.path()));
  return NsysReader(file, source, limits, run).read();
}

}  // namespace tessera::exchange
