// SPDX-License-Identifier: Apache-2.0
// The answers of a wrap policy to the questions of the recursive engine.
#pragma once

#include "tessera/wrap.h"

namespace tessera {

/// A question about one module.
enum class WrapQuestion : std::uint8_t {
  descend,  // visit its children? `numel`: elements below it that are not ignored
  wrap,     // make it a unit? `numel`: those of them that no unit below it took
};

/// Whether `policy` says yes about a module of `model`. REQUIRES: check_policy accepted it, and it
/// is not CustomWrap.
bool decides(const WrapPolicy& policy, const Model& model, const Module& module,
             WrapQuestion question, Numel numel);

/// Whether `module` is of any of `classes`, or derives from one.
bool is_any_of(const Model& model, const Module& module, const std::set<std::string>& classes);

/// Whether the listing engine runs `policy`, not the recursive one.
bool is_listing(const WrapPolicy& policy);

/// Fails: invalid_argument (a class that no module has, no function, a bad AnyOfWrap).
Status check_policy(const WrapPolicy& policy, const Model& model);

}  // namespace tessera
