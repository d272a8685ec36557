// SPDX-License-Identifier: Apache-2.0
// What tests of the C API share: two layers, and handles that are destroyed in order.
#pragma once

#include <catch2/catch.hpp>
#include <cstdint>

#include "tessera/c/tessera.h"

namespace tessera::test {

inline constexpr const char* two_layers = R"({"tessera_model": 1, "name": "two",
  "root": {"class": "Net", "modules": [
    {"name": "a", "class": "Linear", "parameters": [{"name": "weight", "shape": [3, 5]},
                                                    {"name": "bias", "shape": [3]}]},
    {"name": "b", "class": "Linear", "parameters": [{"name": "weight", "shape": [7]},
       {"name": "fixed", "shape": [2], "requires_grad": false}]}]}})";

struct Handles {
  tessera_model* model = nullptr;
  tessera_runtime* runtime = nullptr;
  tessera_engine* engine = nullptr;

  Handles() = default;
  Handles(const Handles&) = delete;
  Handles& operator=(const Handles&) = delete;
  ~Handles() {
    tessera_engine_destroy(engine);
    tessera_runtime_destroy(runtime);
    tessera_model_destroy(model);
  }
};

inline void require_done(int code) {
  INFO(tessera_last_error());
  REQUIRE(code == TESSERA_OK);
}

inline void open(Handles& all, const char* scheme, const char* options, std::int32_t ranks,
                 const char* trace = nullptr) {
  require_done(tessera_model_from_json(two_layers, &all.model));
  tessera_runtime_options runtime{};
  runtime.struct_size = sizeof runtime;
  runtime.kind = TESSERA_SIMULATOR;
  runtime.ranks = ranks;
  runtime.trace = trace;
  require_done(tessera_runtime_create(&runtime, &all.runtime));
  require_done(tessera_engine_create(all.runtime, all.model, scheme, options, &all.engine));
}

inline float initial(void*, std::int32_t parameter, std::int64_t index) {
  return static_cast<float>(parameter) + static_cast<float>(index) / 16;
}

}  // namespace tessera::test
