// SPDX-License-Identifier: Apache-2.0
// Which norms of a model are computed again in backward, by Shape::recompute.
#pragma once

#include "tessera/model.h"
#include "training/language/layers.h"

namespace tessera::language {

/// Of entry k of Model::forward; not repeated if that is no norm in front of an attention or MLP.
RepeatedNorm repeated_norm(const Model& model, const Shape& shape, std::size_t k);

/// Fails: not_supported (Recompute::norm where no norm can be repeated).
Status check_repeated_norms(const Model& model, const Shape& shape);

}  // namespace tessera::language
