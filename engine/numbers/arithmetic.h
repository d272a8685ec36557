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
/// Takes no time: says that the host program, or nobody any more, looks at `reads`.
Compute look_at(std::vector<View> reads);

}  // namespace tessera
