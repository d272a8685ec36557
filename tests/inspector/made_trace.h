// SPDX-License-Identifier: Apache-2.0
// Small traces of every size, made by the tests: steps of a computation, a collective in which the
// quick ranks wait for the slow one, and memory that grows and shrinks.
#pragma once

#include <optional>
#include <string>

#include "tessera/types.h"

namespace tessera::inspector {

struct MadeTrace {
  int ranks = 2;
  int steps = 2;
  Rank slow_rank = -1;                // computes much longer; -1: none
  std::optional<Time> out_of_memory;  // the moment, on rank 1
  int recorded = 8;                   // the first ranks have spans and memory
  int memory_classes = 3;             // that are in use at the peak, at most 12
  bool peaks = false;                 // it says what each step's peak consists of
};

/// ns of one step of every rank.
inline constexpr Time made_step = 1'000'000;

/// Writes it to `path`; the same bytes for the same description.
void write_trace(const MadeTrace& made, const std::string& path);
/// Changes the file at `path` by a statement.
void change(const std::string& path, const std::string& sql);
/// Damages the memory samples and spans of all ranks in the file at `path`.
void damage(const std::string& path);

}  // namespace tessera::inspector
