// SPDX-License-Identifier: Apache-2.0
// The sizes of the units of a plan: elements and bytes, whole and per rank. Nothing is
// allocated.
//
//   TESSERA_ASSIGN(const auto sizes, sizes_of(model, plan, {.ranks = 64}));
//   print(wrap_text(sizes, /*bold=*/false));
#pragma once

#include <string>
#include <vector>

#include "tessera/wrap.h"

namespace tessera::cli {

/// How a unit's parameters are cut.
enum class WrapLayout : std::uint8_t {
  flat,  // one after the other, the whole cut into equal parts (FSDP1)
  dim0,  // each parameter cut by rows (FSDP2)
};

struct WrapSharding {
  WrapLayout layout = WrapLayout::dim0;
  Index ranks = 8;
  DType dtype = DType::float32;  // of what is sharded
};

struct UnitSizes {
  std::string path;  // "(root)" for the root
  std::string class_name;
  std::vector<std::string> aliases;
  std::int64_t parameters = 0;  // tensors
  std::int64_t shared = 0;      // of them, with a second name
  std::int64_t frozen = 0;      // of them, without gradients
  Numel numel{};
  Numel padding{};  // over all ranks
  Bytes unsharded{};
  Bytes per_rank{};

  UnitSizes& operator+=(const UnitSizes& other);
};

struct WrapSizes {
  std::string model;
  std::string policy;
  WrapSharding sharding;
  std::vector<UnitSizes> units;
  UnitSizes total;
  UnitSizes ignored;  // parameters, numel and unsharded only
  std::vector<std::string> warnings;
};

/// Fails: invalid_argument (a scalar with dim0, more than can be counted), naming it.
Result<WrapSizes> sizes_of(const Model& model, const WrapPlan& plan, const WrapSharding& sharding);

/// A table for people, and one JSON object (docs/cli.md).
std::string wrap_text(const WrapSizes& sizes, bool bold);
std::string wrap_json(const WrapSizes& sizes);

}  // namespace tessera::cli
