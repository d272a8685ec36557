// SPDX-License-Identifier: Apache-2.0
// What a policy answers when the recursive engine asks it.
#pragma once

#include "tessera/wrap.h"

namespace tessera {

/// What is asked about a module.
enum class WrapQuestion : std::uint8_t {
  descend,  // look at its children? `numel`: elements below it that are not ignored
  wrap,     // make it a unit? `numel`: those of them that no unit below it took
};

/// REQUIRES: `policy` passed check_policy and is not CustomWrap.
bool decides(const WrapPolicy& policy, const Module& module, WrapQuestion question, Numel numel);

/// Whether the listing engine runs `policy`, not the recursive one.
bool is_listing(const WrapPolicy& policy);

/// Fails: invalid_argument (a class that no module has, no function, a bad AnyOfWrap).
Status check_policy(const WrapPolicy& policy, const Model& model);

}  // namespace tessera
