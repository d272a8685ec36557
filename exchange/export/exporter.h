// SPDX-License-Identifier: Apache-2.0
// How a format takes a trace: its parts in one order, rank by rank.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "tessera/exchange/export.h"

namespace tessera::exchange {

/// One span with what it is of.
struct ExportedSpan {
  Rank rank = 0;
  const storage::OpRow* op = nullptr;
  const storage::StreamRow* stream = nullptr;
  Time begin = 0, ready = 0, end = 0;
};

class Exporter {
 public:
  virtual ~Exporter() = default;
  virtual Status begin() { return {}; }
  /// Before anything else of the rank.
  virtual Status rank(Rank) { return {}; }
  /// Ascending in time within a stream.
  virtual Status span(const ExportedSpan& span) = 0;
  /// Whether `memory` is to be called.
  virtual bool wants_memory() const { return false; }
  virtual Status memory(const storage::MemorySeries&) { return {}; }
  /// Otherwise samples of the host's memory and of NVMe are left out.
  virtual bool holds_host_memory() const { return true; }
  /// Publishes the files and adds their names.
  virtual Status finish(Exported& done) = 0;
};

/// What was exported may be exported anew, in any format; any other file at `path` is somebody's.
/// Fails: invalid_argument, naming the path, also for a folder.
Status check_replaces_export(const std::string& path);

/// `buffers` by id.
using Buffers = std::vector<storage::BufferRow>;
const storage::BufferRow& buffer_of(const Buffers& buffers, std::int32_t id);

/// `only`: whom alone the file will be of, as its name says; -1: of several.
Result<std::unique_ptr<Exporter>> perfetto_exporter(const analysis::Trace& trace,
                                                    const std::string& out, Rank only);
Result<std::unique_ptr<Exporter>> chrome_exporter(const analysis::Trace& trace,
                                                  const std::string& out, Rank only);
Result<std::unique_ptr<Exporter>> csv_exporter(const analysis::Trace& trace, const std::string& out,
                                               Rank only);
Result<std::unique_ptr<Exporter>> sqlite_exporter(const analysis::Trace& trace,
                                                  const std::string& out, Rank only);
Result<std::unique_ptr<Exporter>> snapshot_exporter(const analysis::Trace& trace,
                                                    const std::string& out, Rank only);

}  // namespace tessera::exchange
