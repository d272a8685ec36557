// SPDX-License-Identifier: Apache-2.0
// The tokens of a micro-batch as a model reads them: sequences of one length, one after another.
//
// The idea: a sequence may hold several documents, none of which sees another, and places that
// nothing is learned at, such as the question of an answer. So each place has its input, the token
// that should follow it, or none, and the place where its document begins.
//
//   inputs    5  8  3  9  4  0     two documents, 5 8 3 and 9 4, of which the second has a prompt;
//   targets   8  3 -1 -1  7 -1     the last place is empty
//   begins    0  0  0  3  3  5
#pragma once

#include <cstdint>
#include <span>

namespace tessera {

/// The target of a place whose loss does not count.
inline constexpr std::int32_t no_target = -1;

struct TokenBatch {
  std::span<std::int32_t> inputs;
  std::span<std::int32_t> targets;
  /// Within its sequence. Positions are counted from it, and attention does not look before it.
  std::span<std::int32_t> begins;

  TokenBatch part(std::size_t first, std::size_t count) const {
    return {inputs.subspan(first, count), targets.subspan(first, count),
            begins.subspan(first, count)};
  }
};

}  // namespace tessera
