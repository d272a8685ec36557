// SPDX-License-Identifier: Apache-2.0
// The colour classes of operations by id, read without their texts.
#pragma once

#include <cstdint>
#include <vector>

#include "inspector/render/palette.h"
#include "tessera/storage/trace_reader.h"

namespace tessera::inspector {

/// The colour class of an op.
OpClass class_of(const storage::OpRow& op);
OpClass class_of(const storage::OpSort& op);

/// A byte for each id of a trace.
class OpClasses {
 public:
  OpClasses() = default;  // of no trace
  /// `reader` must outlive it. Fails: as the reader.
  static Result<OpClasses> of(const storage::TraceReader& reader);
  /// Of an id that the trace lacks: optimizer.
  OpClass at(std::int32_t op);
  /// Why some could not be read.
  const Status& problem() const { return problem_; }

 private:
  explicit OpClasses(const storage::TraceReader& reader) : reader_(&reader) {}
  void read(std::size_t page);

  const storage::TraceReader* reader_ = nullptr;
  std::int32_t first_ = 0, end_ = 0;
  std::vector<std::uint8_t> classes_;
  std::vector<bool> known_;  // by page
  Status problem_;
};

}  // namespace tessera::inspector
