// SPDX-License-Identifier: Apache-2.0
#include "exchange/formats/kineto_shapes.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "exchange/import/torch_collectives.h"

namespace tessera::exchange {
namespace {

/// Of a shape, or of a list of shapes, which are lists themselves.
void add_numel(const nlohmann::json& shape, std::int64_t& sum, int depth) {
  constexpr std::int64_t most = std::int64_t{1} << 48;
  std::int64_t product = 1;
  for (const auto& entry : shape) {
    if (entry.is_array() && depth == 0) {
      product = 0;
      add_numel(entry, sum, 1);
    } else if (entry.is_number_integer()) {
      const auto size = std::clamp<std::int64_t>(entry.get<std::int64_t>(), 0, most);
      product = product > 0 && size > most / product ? most : product * size;
    }
  }
  sum = std::min(sum + product, most);
}

/// -1: there is no such input, or it is no tensor.
std::int64_t numel_of(const nlohmann::json& shapes, std::size_t nth) {
  if (!shapes.is_array() || nth >= shapes.size()) return -1;
  if (!shapes[nth].is_array() || shapes[nth].empty()) return -1;
  std::int64_t numel = 0;
  add_numel(shapes[nth], numel, 0);
  return numel;
}

}  // namespace

void add_shapes(std::string_view event, std::string_view dims, std::string_view types,
                KinetoMessage& message) {
  const bool gloo = event.starts_with("gloo:");
  message.collective = event.substr(gloo ? 5 : 6);
  const auto shapes = nlohmann::json::parse(dims, nullptr, /*allow_exceptions=*/false);
  message.out = gloo ? -1 : numel_of(shapes, 0);
  message.in = numel_of(shapes, gloo ? 0 : 1);
  if (message.in < 0) message.in = message.out;
  const auto names = nlohmann::json::parse(types, nullptr, /*allow_exceptions=*/false);
  if (!names.is_array()) return;
  for (const auto& name : names) {
    if (!name.is_string() || !torch_type(name.get<std::string>())) continue;
    message.dtype = name.get<std::string>();
    return;
  }
}

}  // namespace tessera::exchange
