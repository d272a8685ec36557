// SPDX-License-Identifier: Apache-2.0
// A piece is a range of elements of one tensor of one parameter. Files of a checkpoint hold pieces.
#pragma once

#include <compare>
#include <optional>
#include <string>
#include <string_view>

#include "tessera/optimizer_state.h"

namespace tessera {

/// Elements [first, first + numel). `rank` is all_ranks, unless ranks hold different values under
/// the same name (parameters that are in no unit): then every rank has a piece of its own.
struct Piece {
  std::string parameter;
  StateTensor tensor = StateTensor::value;
  Numel first{};
  Numel numel{};
  Rank rank = all_ranks;
};

/// The largest piece, in elements: small, so that a damaged piece costs little and a rank that
/// reads a part of it does not read much for nothing.
inline constexpr Numel piece_numel_max{1 << 20};

/// "exp_avg/1024/wte.weight", "value@3/0/norm.weight": tensor, rank, first element and parameter.
std::string name_of(const Piece& piece);
/// The reverse of name_of; nothing if `name` has another form.
std::optional<Piece> parse_piece(std::string_view name, Numel numel);

std::string_view name_of(StateTensor tensor);

}  // namespace tessera
