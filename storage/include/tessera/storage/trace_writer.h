// SPDX-License-Identifier: Apache-2.0
// Writes a trace file from a thread of its own.
//
// The idea: the caller only appends to bounded buffers; encoding and SQLite run beside the
// simulation or the training step. The file appears under its name only when complete.
//
//   auto writer = TraceWriter::create("run.tessera");
//   LockstepRuntime runtime({.sink = writer->get(), ...});
//   ...
//   Status status = (*writer)->finish();
#pragma once

#include <memory>
#include <string>

#include "tessera/status.h"
#include "tessera/trace.h"

namespace tessera::storage {

struct TraceWriterOptions {
  Bytes queue_max{64 << 20};  // bytes waiting for the thread; a full queue blocks the caller
};

class TraceWriter : public TraceSink {
 public:
  /// Opens `path` + ".partial" for writing; `finish` renames it to `path`, replacing what was
  /// there. A writer destroyed without `finish` removes its partial file. Fails: io_error, naming
  /// the path (no such folder, a directory, not writable, another recording writes it). `finish`
  /// fails: io_error (the disk is full, ...), invalid_argument (calls that contradict each other:
  /// spans of an unknown op or rank, steps that skip a number, ...); what was at `path` stays then.
  static Result<std::unique_ptr<TraceWriter>> create(const std::string& path,
                                                     const TraceWriterOptions& options = {});

  /// After a successful `finish`: the hash of the content, 16 hexadecimal digits; the same for the
  /// same content, whatever wrote it (TraceRun::version is left out). "" before and on failure.
  virtual std::string content_hash() const = 0;
};

}  // namespace tessera::storage
