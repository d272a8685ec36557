// SPDX-License-Identifier: Apache-2.0
// A made-up recording with everything in it, and a folder to write it to.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "tessera/storage/trace_reader.h"
#include "tessera/storage/trace_writer.h"

namespace tessera::test {

/// The records that a sink was given and that a reader must return.
struct Recording {
  storage::TraceInfo info;
  std::vector<storage::OpRow> ops;
  std::vector<std::vector<std::int32_t>> after;  // per op, ascending
  std::vector<storage::Lane> lanes;              // ascending rank and stream, not empty
  std::vector<storage::BufferRow> buffers;
  std::vector<storage::MemorySeries> memory;  // per recorded rank
  storage::RankSteps rank_steps;
  std::vector<PeakMemory> peaks;
  std::vector<storage::DiagnosticRow> diagnostics;
  std::vector<storage::KernelRow> kernels;
  std::vector<storage::MemoryShortageRow> shortages;
};

struct RecordingSize {
  std::int32_t ranks = 8;
  std::int32_t steps = 3;
  std::int32_t ops = 60;  // over all steps
  std::int32_t samples_per_rank = 50;
};

/// Equal seeds and sizes give equal recordings. Texts hold quotes, UTF-8 and NUL.
Recording random_recording(std::uint64_t seed, const RecordingSize& size = {});

/// All calls but `finish`.
void send(const Recording& recording, TraceSink& sink);
/// CHECKs that `reader` gives `recording` back, content hash aside.
void check_equal(const storage::TraceReader& reader, const Recording& recording);

/// Writes `recording` to `path`; the writer's content hash. REQUIREs success.
std::string write(const Recording& recording, const std::string& path,
                  const storage::TraceWriterOptions& options = {});

std::string read_file(const std::string& path);
void write_file(const std::string& path, const std::string& bytes);

/// An empty folder below the build folder, removed at the end.
class Folder {
 public:
  explicit Folder(const std::string& name)
      : path_(std::filesystem::path(TESSERA_BINARY_DIR) / "storage-test" / name) {
    std::filesystem::remove_all(path_);
    std::filesystem::create_directories(path_);
  }
  Folder(const Folder&) = delete;
  Folder& operator=(const Folder&) = delete;
  ~Folder() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }

  std::string operator/(const std::string& file) const { return (path_ / file).string(); }
  bool empty() const { return std::filesystem::is_empty(path_); }

 private:
  std::filesystem::path path_;
};

}  // namespace tessera::test
