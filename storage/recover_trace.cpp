// SPDX-License-Identifier: Apache-2.0
#include "tessera/storage/recover_trace.h"

#include <fmt/format.h>

#include <filesystem>
#include <system_error>

#include "storage/close_trace.h"
#include "storage/open_trace.h"
#include "storage/partial_file.h"
#include "tessera/storage/trace_reader.h"

namespace tessera::storage {
namespace {

/// The copy that is worked on; it appears under the name of the trace when it is complete.
Status copy(const std::string& path, const TraceInfo& info, const std::string& to) {
  if (!info.unfinished) {
    std::error_code error;
    std::filesystem::copy_file(path, to, std::filesystem::copy_options::overwrite_existing, error);
    if (!error) return {};
    return {Code::io_error, fmt::format("Cannot write \"{}\": {}.", to, error.message())};
  }
  TESSERA_ASSIGN(Database from, open_trace(path));
  return from.copy_to(to);
}

Result<RecoveredTrace> complete(const TraceInfo& info, OwnedFile& file) {
  if (!info.unfinished) return RecoveredTrace{info.steps, info.end, info.content_hash, true};
  TESSERA_ASSIGN(Database database, Database::open_recording(file.name(), file.descriptor()));
  TESSERA_ASSIGN(const ReachedByTables reached,
                 close_cut_trace(database, "The recording was stopped; this is what was left."));
  TESSERA_TRY(database.run("PRAGMA journal_mode = DELETE"));
  return RecoveredTrace{reached.steps, reached.time, reached.content_hash, false};
}

}  // namespace

Result<RecoveredTrace> recover_trace(const std::string& path, const std::string& out) {
  TESSERA_ASSIGN(const TraceReader reader, TraceReader::open(path));
  std::error_code ignored;  // what is not there is no other file
  if (std::filesystem::equivalent(path, out, ignored)) {
    return Status(
        Code::invalid_argument,
        fmt::format("\"{}\" is to be recovered and to be written: choose another name.", out));
  }
  TESSERA_ASSIGN(OwnedFile file, OwnedFile::replace(out + ".recovered"));
  Status status = copy(path, reader.info(), file.name());
  Result<RecoveredTrace> recovered =
      status.ok() ? complete(reader.info(), file) : Result<RecoveredTrace>(status);
  if (recovered.ok()) status = file.move_to(out);
  if (recovered.ok() && status.ok()) return recovered;
  file.remove();
  return recovered.ok() ? status : recovered.status();
}

}  // namespace tessera::storage
