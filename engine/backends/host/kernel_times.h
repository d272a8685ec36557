// SPDX-License-Identifier: Apache-2.0
// How long kernels of collectives ran, which a communication library tells when it likes: often
// after the times of the operation itself have gone to rank 0.
//
// The idea: a step's column is taken with the step behind it. What is told later still is lost.
#pragma once

#include <cstdint>
#include <deque>
#include <vector>

#include "tessera/types.h"

namespace tessera {

class KernelTimes {
 public:
  struct Row {
    std::int32_t op = 0;
    Time time = -1;  // not told
  };

  /// The next collective, on every rank alike. Ids ascend.
  void expect(std::int32_t op) { rows_.push_back({op}); }
  void record(std::int32_t op, Time time);
  /// What was expected so far belongs to a step that is over.
  void close_step();
  /// Those of the step that was passed over the last time. None: there was no such step.
  std::vector<Row> take();
  bool empty() const { return rows_.empty(); }
  /// All that were not taken.
  const std::deque<Row>& rows() const { return rows_; }

 private:
  std::deque<Row> rows_;
  std::deque<std::size_t> steps_;  // rows of the closed ones that were not passed over
  std::size_t passed_ = 0;         // rows at the front, of the one that was
};

}  // namespace tessera
