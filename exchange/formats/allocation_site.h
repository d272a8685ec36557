// SPDX-License-Identifier: Apache-2.0
// Where in a program memory was allocated, and what that says of its purpose.
#pragma once

#include <map>

#include "exchange/import/imported_run.h"
#include "exchange/parse/tree.h"

namespace tessera::exchange {

struct AllocationSite {
  TextId name = 0;  // "forward (model.py:31)": the innermost frame outside of PyTorch
  MemoryClass memory_class = MemoryClass::unknown;
};

/// Remembers the stacks that it has seen: allocations share them.
class AllocationSites {
 public:
  explicit AllocationSites(ImportedRun& run) : run_(run) {}
  /// Of a list of frames, innermost first: {"name", "filename", "line"}.
  AllocationSite of(TreeValue frames);

 private:
  ImportedRun& run_;
  std::map<std::uint32_t, AllocationSite> known_;  // by the list's identity
};

/// The innermost frame outside of PyTorch, "forward (model.py:31)"; "" if there are no frames.
std::string site_of_frames(TreeValue frames);

/// Why an iteration over a tree was cut short, to follow the file's name.
inline constexpr const char* too_much_in_it =
    "it is damaged: lists in it contain one another more often than its size allows";

}  // namespace tessera::exchange
