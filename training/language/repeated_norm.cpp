// SPDX-License-Identifier: Apache-2.0
#include "training/language/repeated_norm.h"

#include <fmt/format.h>

namespace tessera::language {

RepeatedNorm repeated_norm(const Model& model, const Shape& shape, std::size_t k) {
  if (!shape.repeats_norms() || model.mathematics.norm_places == NormPlaces::behind) return {};
  if (k + 1 >= model.forward.size()) return {};
  const std::string& norm = model.module(model.forward[k]).class_name;
  const std::string& reader = model.module(model.forward[k + 1]).class_name;
  const bool attention = reader.ends_with("Attention");
  if (!norm.ends_with("Norm") || (!attention && !reader.ends_with("MLP"))) return {};
  const Recompute& what = shape.recompute;
  return {.repeated = what.norm || (attention ? what.attention : what.ffn),
          .centred = norm == "LayerNorm"};
}

Status check_repeated_norms(const Model& model, const Shape& shape) {
  if (!shape.recompute.norm) return {};
  if (!shape.repeats_norms()) {
    return Status(Code::not_supported,
                  "recompute norm: what a norm returns is computed again from float32 on CPUs "
                  "alone, as halves have lost it: leave norm out, or train in float32 on CPUs");
  }
  if (model.mathematics.norm_places != NormPlaces::behind) return {};
  return Status(Code::not_supported,
                fmt::format("recompute norm: norms of {} stand behind attention and MLPs, which "
                            "keep nothing that a norm returns: leave norm out",
                            model.name));
}

}  // namespace tessera::language
