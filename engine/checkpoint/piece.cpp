// SPDX-License-Identifier: Apache-2.0
#include "engine/checkpoint/piece.h"

#include <fmt/format.h>

#include <charconv>

namespace tessera {
namespace {

template <class T>
bool parse_number(std::string_view text, T& number) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  return error == std::errc{} && end == text.data() + text.size() && number >= 0;
}

}  // namespace

std::string_view name_of(StateTensor tensor) {
  switch (tensor) {
    case StateTensor::exp_avg: return "exp_avg";
    case StateTensor::exp_avg_sq: return "exp_avg_sq";
    case StateTensor::value: return "value";
  }
  return "";
}

std::string name_of(const Piece& piece) {
  const std::string rank = piece.rank == all_ranks ? "" : fmt::format("@{}", piece.rank);
  return fmt::format("{}{}/{}/{}", name_of(piece.tensor), rank, piece.first.value, piece.parameter);
}

std::optional<Piece> parse_piece(std::string_view name, Numel numel) {
  const std::size_t first = name.find('/');
  const std::size_t second = first == name.npos ? first : name.find('/', first + 1);
  if (second == name.npos) return {};
  Piece piece{.parameter = std::string(name.substr(second + 1)), .numel = numel};
  if (!parse_number(name.substr(first + 1, second - first - 1), piece.first.value)) return {};
  std::string_view tensor = name.substr(0, first);
  const std::size_t at = tensor.find('@');
  if (at != tensor.npos) {
    if (!parse_number(tensor.substr(at + 1), piece.rank)) return {};
    tensor = tensor.substr(0, at);
  }
  for (const auto known : {StateTensor::value, StateTensor::exp_avg, StateTensor::exp_avg_sq}) {
    if (tensor != name_of(known)) continue;
    piece.tensor = known;
    return piece;
  }
  return {};
}

}  // namespace tessera
