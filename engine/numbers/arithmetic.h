// SPDX-License-Identifier: Apache-2.0
// Elementwise work of the engine itself, with its cost and its body.
#pragma once

#include "tessera/op.h"

namespace tessera {

/// into += from, elementwise, whatever the dtypes.
Compute add(const View& from, const View& into);
/// to = from * factor, elementwise; both may be the same view.
Compute multiply(const View& from, const View& to, float factor);
/// view /= divisor, elementwise.
Compute divide(const View& view, float divisor);
/// A computation without work or time that declares a read of `reads`: by the host program, or as
/// the last access before a release.
Compute declare_read(std::vector<View> reads);

}  // namespace tessera
