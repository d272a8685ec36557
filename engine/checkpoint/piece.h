// SPDX-License-Identifier: Apache-2.0
// A range of elements of one tensor of one parameter: what files of a checkpoint are made of.
#pragma once

#include <compare>
#include <optional>
#include <string>
#include <string_view>

#include "tessera/optimizer_state.h"

namespace tessera {

/// Elements [first, first + numel). A piece of one rank alone is that rank's own copy of what ranks
/// hold different values of, though it has one name (parameters that are in no unit).
struct Piece {
  std::string parameter;
  StateTensor tensor = StateTensor::value;
  Numel first{};
  Numel numel{};
  Rank rank = all_ranks;
};

/// So that a damaged piece costs little, and what a rank needs of it is most of it.
inline constexpr Numel piece_numel_max{1 << 20};

/// "exp_avg/1024/wte.weight", "value@3/0/norm.weight": without its size.
std::string name_of(const Piece& piece);
/// The reverse; nothing if it is no such name.
std::optional<Piece> parse_piece(std::string_view name, Numel numel);

std::string_view name_of(StateTensor tensor);

}  // namespace tessera
