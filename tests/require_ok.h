// SPDX-License-Identifier: Apache-2.0
// Ends a test where something failed, and says what.
#pragma once

#include <catch2/catch.hpp>
#include <utility>

#include "tessera/status.h"

namespace tessera::test {

inline void require_ok(const Status& status) {
  INFO(status.message());
  REQUIRE(status.ok());
}

template <class T>
T require_value(Result<T> result) {
  require_ok(result.status());
  return std::move(*result);
}

}  // namespace tessera::test
