// SPDX-License-Identifier: Apache-2.0
// Event files that TensorBoard reads: numbers over the steps of a run.
//
// The idea: a file is a row of TFRecords (length, data, a masked CRC32C of each; TensorFlow's
// lib/io/record_writer.h), the data of each an Event message (tensorboard/compat/proto/event.proto)
// of a few fields, so both are written here.
//
//   TESSERA_ASSIGN(EventFile events, EventFile::create("runs/a", host, 0));
//   TESSERA_TRY(events.scalars(step, seconds, {{"loss/train", 2.5}}));
#pragma once

#include <cstdint>
#include <fstream>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "tessera/status.h"

namespace tessera::cli {

class EventFile {
 public:
  using Scalars = std::vector<std::pair<std::string, double>>;

  /// Makes `folder` and a new file in it, whose time of day is the one that the file system gives
  /// it. `first`: steps that other files there may have, beyond which TensorBoard forgets what they
  /// say. Fails: io_error, naming it.
  static Result<EventFile> create(const std::string& folder, const std::string& host,
                                  std::int64_t first);

  /// `seconds` after the file was made. Fails: io_error, naming the file.
  Status scalars(std::int64_t step, double seconds, const Scalars& values);

  const std::string& path() const { return path_; }

 private:
  Status write(const std::string& event);

  std::string path_;
  std::ofstream file_;
  double begin_ = 0;  // seconds since 1970
};

/// The checksum of TFRecords: CRC-32C (Castagnoli), rotated and shifted.
std::uint32_t masked_crc32c(std::string_view data);

}  // namespace tessera::cli
