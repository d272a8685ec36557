// SPDX-License-Identifier: Apache-2.0
// Compares the shards of an engine with the results of unsharded training.
#pragma once

#include <bit>
#include <catch2/catch.hpp>

#include "tessera/engine.h"
#include "tests/training/reference/unsharded_training.h"

namespace tessera::test {

inline void check_equal(Engine& engine, const Model& model, const UnshardedTraining& reference) {
  for (std::size_t p = 0; p < model.parameters.size(); ++p) {
    const ParameterId id{static_cast<std::int32_t>(p)};
    const auto& expected = reference.values(id);
    std::size_t seen = 0;
    std::size_t different = 0;
    const Status status =
        engine.inspect_shards(id, [&](Rank, Numel first, std::span<const float> values) {
          seen += values.size();
          for (std::size_t i = 0; i < values.size(); ++i) {
            const float other = expected[static_cast<std::size_t>(first.value) + i];
            different +=
                std::bit_cast<std::uint32_t>(values[i]) != std::bit_cast<std::uint32_t>(other) ? 1
                                                                                               : 0;
          }
        });
    INFO(status.message());
    REQUIRE(status.ok());
    INFO(model.parameters[p].name);
    CHECK(different == 0);
    CHECK(seen % expected.size() == 0);  // as often as there are replicas
    CHECK(seen >= expected.size());
  }
}

}  // namespace tessera::test
