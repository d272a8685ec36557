// SPDX-License-Identifier: Apache-2.0
// A model from the text of its JSON.
#pragma once

#include <catch2/catch.hpp>
#include <string>
#include <utility>

#include "tessera/model.h"

namespace tessera::test {

inline Model parsed(const std::string& json) {
  Result<Model> model = parse_model(json, "test");
  INFO(model.status().message());
  REQUIRE(model.ok());
  return std::move(*model);
}

}  // namespace tessera::test
