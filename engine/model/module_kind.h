// SPDX-License-Identifier: Apache-2.0
// What a module is, by its class and the shapes of its own parameters.
#pragma once

#include <string_view>
#include <vector>

#include "tessera/model.h"

namespace tessera {

enum class KindName : std::uint8_t {
  other,       // moves nothing: containers, reshapes
  embedding,   // a table: `in` rows of width `out`
  norm,        // of the layer's width
  matrices,    // multiplies every token with its matrices
  scale,       // reads and writes every element once, and keeps its input
  activation,  // the same
  relu,        // whose output says what backward needs
  dropout,
};

struct ModuleKind {
  KindName name = KindName::other;
  std::int64_t in = 0, out = 0;  // widths of a token; 0: any, and as it came
  std::vector<LinearShape> linears;
  bool centred = false;  // a norm that keeps the mean, too
};

/// `own`: its parameters, those that it has by a tie included, not those of modules below.
ModuleKind kind_of(const Module& module, const std::vector<const Parameter*>& own);

/// The cost of such a module for tokens that come with `width` elements, 0 if that is not known.
ModuleCost kind_cost(const ModuleKind& kind, std::int64_t width);

/// Whether the class is one of attention, with projections below it.
bool is_attention(std::string_view class_name);
/// Whether it is one of matrices with an activation function between them.
bool is_mlp(std::string_view class_name);

/// Those parameters of every module.
std::vector<std::vector<const Parameter*>> own_parameters(const Model& model);

}  // namespace tessera
