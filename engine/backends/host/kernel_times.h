// SPDX-License-Identifier: Apache-2.0
// The times that kernels of collectives took. A communication library reports them late, often
// after the times of the operation itself have been sent to rank 0.
//
// The idea: a step's column is taken one step later. Times that arrive later still are lost.
#pragma once

#include <cstdint>
#include <deque>
#include <vector>

#include "tessera/assert.h"
#include "tessera/types.h"

namespace tessera {

class KernelTimes {
 public:
  struct Row {
    std::int32_t op = 0;
    Time time = -1;  // -1: not reported
  };

  /// Adds a row for the next collective, on every rank alike. REQUIRES: ids ascend.
  void expect(std::int32_t op) {
    TESSERA_ASSERT(rows_.empty() || rows_.back().op < op, "ids ascend");
    rows_.push_back({op});
  }
  /// Fills in the time of a collective; nothing happens if its row was taken already.
  void record(std::int32_t op, Time time);
  /// Ends a step, to which all rows since the last call belong.
  void close_step();
  /// Removes and returns the rows of the step that the last call passed over (none, at first), and
  /// passes over the next closed step, whose times may still arrive.
  std::vector<Row> take();
  bool empty() const { return rows_.empty(); }
  /// All rows that were not taken.
  const std::deque<Row>& rows() const { return rows_; }

 private:
  std::deque<Row> rows_;
  std::deque<std::size_t> steps_;  // numbers of rows of the closed steps not passed over yet
  std::size_t passed_ = 0;         // rows at the front that belong to the step passed over
};

}  // namespace tessera
