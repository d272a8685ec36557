// SPDX-License-Identifier: Apache-2.0
// Writes a trace file from a thread of its own.
//
// The idea: the caller only appends to bounded buffers; encoding and SQLite run beside the
// simulation or the training step. What was recorded is committed many times a second, so a run
// that is killed leaves a trace that can be opened, under the name of the file with ".partial"
// behind it. The file appears under its own name only when complete.
//
//   auto writer = TraceWriter::create("run.tessera", {.clock = now});
//   LockstepRuntime runtime({.sink = writer->get(), ...});
//   ...
//   Status status = (*writer)->finish();
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "tessera/status.h"
#include "tessera/trace.h"

namespace tessera::storage {

struct TraceWriterOptions {
  Bytes queue_max{64 << 20};  // bytes waiting for the thread; a full queue blocks the caller
  // ns, ascending, of any start; called from the thread. It says when to commit, which is not seen
  // in the file at the end. Without one a commit comes after every 64 MiB of calls.
  std::function<Time()> clock;
  // Called once, at once and perhaps from the thread, if the trace cannot go on: one sentence; and
  // before, if an earlier recording to the same path was stopped and stays beside it.
  std::function<void(const std::string&)> warn;
  // Read once by who wrote it, and removed: without a content hash, in the order of its recording.
  bool scratch = false;
};

class TraceWriter : public TraceSink {
 public:
  /// Opens `path` + ".partial" for writing, or `path` + ".2.partial", ... where a recording that
  /// was stopped is left; `finish` replaces what was at `path`. A writer destroyed without `finish`
  /// removes its partial file. Fails: io_error, naming the path (no such folder, a directory, not
  /// writable, another recording writes it).
  ///
  /// `finish` fails: invalid_argument (calls that contradict each other: spans of an unknown op or
  /// rank, steps that skip a number, ...), what was at `path` stays then; io_error (the disk is
  /// full, ...): if `content_hash` has a value, a trace of all that fits is at `path`, with a
  /// diagnostic that says when it ends.
  static Result<std::unique_ptr<TraceWriter>> create(const std::string& path,
                                                     const TraceWriterOptions& options = {});

  /// After `finish`, if there is a file: the hash of the content, 16 hexadecimal digits; the same
  /// for the same content, whatever wrote it (TraceRun::version is left out). "" otherwise, and of
  /// a scratch trace.
  virtual std::string content_hash() const = 0;
};

}  // namespace tessera::storage
