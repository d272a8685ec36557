// SPDX-License-Identifier: Apache-2.0
// For tables that are asked for every view of every operation. Nobody goes through them in order.
#pragma once

#include <cstddef>
#include <unordered_map>

#include "tessera/types.h"

namespace tessera {

struct IdHash {
  template <class Tag>
  std::size_t operator()(Id<Tag> id) const {
    return static_cast<std::size_t>(id.value);
  }
};

template <class Id, class Value>
using IdTable = std::unordered_map<Id, Value, IdHash>;

}  // namespace tessera
