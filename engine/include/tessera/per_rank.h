// SPDX-License-Identifier: Apache-2.0
// A value that may differ between ranks.
//
// The idea: the engine may branch only on what all ranks agree on. `uniform()` gives that value or
// says which two ranks disagree, at the line that would have hung a cluster.
//
//   TESSERA_ASSIGN(float found_inf, runtime.read(flag)->uniform("found_inf"));
#pragma once

#include <string>
#include <vector>

#include "tessera/status.h"
#include "tessera/types.h"

namespace tessera {

template <class T>
class PerRank {
 public:
  /// Every rank has the same value.
  explicit PerRank(T value) : values_{value} {}
  /// values[r] belongs to rank r. REQUIRES: not empty.
  explicit PerRank(std::vector<T> values) : values_(std::move(values)) {
    TESSERA_ASSERT(!values_.empty(), "a PerRank needs a value");
  }

  const T& operator[](Rank rank) const {
    return values_.size() == 1 ? values_[0] : values_[static_cast<std::size_t>(rank)];
  }

  /// The common value. Fails: divergent, naming `what` and the first rank that differs from rank 0.
  Result<T> uniform(const std::string& what = "a value") const {
    for (std::size_t r = 1; r < values_.size(); ++r) {
      if (!(values_[r] == values_[0])) {
        return Status(Code::divergent, what + " differs between rank 0 and rank " +
                                           std::to_string(r) +
                                           ": ranks would take different branches");
      }
    }
    return values_[0];
  }

 private:
  std::vector<T> values_;
};

}  // namespace tessera
