// SPDX-License-Identifier: Apache-2.0
#include "exchange/import/collective_names.h"

#include <algorithm>
#include <string>
#include <utility>

namespace tessera::exchange {
namespace {

constexpr std::size_t looked_at = 120;  // kernels of templates have names of kilobytes

std::string letters_of(std::string_view name) {
  std::string letters;
  for (const char c : name.substr(0, looked_at)) {
    if (c == '_') continue;
    letters += c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
  }
  return letters;
}

bool has(std::string_view text, std::string_view part) {
  return text.find(part) != std::string_view::npos;
}

}  // namespace

std::optional<OpKind> collective_kind(std::string_view name) {
  // The longer ones first, as they contain others.
  constexpr std::pair<std::string_view, OpKind> kinds[] = {
      {"reducescatter", OpKind::reduce_scatter},
      {"allgather", OpKind::all_gather},
      {"allreduce", OpKind::all_reduce},
      {"alltoall", OpKind::all_to_all},
      {"broadcast", OpKind::broadcast},
      {"barrier", OpKind::all_reduce},
      {"reduce", OpKind::reduce},
  };
  const std::string letters = letters_of(name);
  for (const auto& [word, kind] : kinds) {
    if (has(letters, word)) return kind;
  }
  return {};
}

bool is_communication_kernel(std::string_view name) {
  const std::string letters = letters_of(name);
  return letters.starts_with("nccl") || letters.starts_with("rccl") ||
         has(letters, "nccldevkernel") || has(letters, "ncclkernel") || has(letters, "nccl:") ||
         has(letters, "onerankreduce");
}

std::string_view collective_algorithm(std::string_view kernel) {
  constexpr std::pair<std::string_view, std::string_view> words[] = {
      {"_RING_", "ring"},
      {"_TREE_", "tree"},
      {"_NVLS_TREE_", "nvls_tree"},
      {"_NVLS_", "nvls"},
      {"_PAT_", "pat"},
      {"_COLLNET_DIRECT_", "collnet_direct"},
      {"_COLLNET_CHAIN_", "collnet_chain"},
  };
  for (const auto& [word, algorithm] : words) {
    if (has(kernel.substr(0, looked_at), word)) return algorithm;
  }
  return {};
}

std::optional<DType> torch_dtype(std::string_view name) {
  constexpr std::pair<std::string_view, DType> names[] = {
      {"float", DType::float32},   {"float32", DType::float32}, {"bfloat16", DType::bfloat16},
      {"half", DType::float16},    {"float16", DType::float16}, {"double", DType::float64},
      {"float64", DType::float64}, {"int", DType::int32},       {"int32", DType::int32},
      {"long", DType::int64},      {"int64", DType::int64},     {"longint", DType::int64},
      {"byte", DType::uint8},      {"uint8", DType::uint8},     {"unsignedchar", DType::uint8},
      {"int8", DType::uint8},      {"char", DType::uint8},      {"bool", DType::uint8},
  };
  std::string word = letters_of(name.substr(name.find_last_of(".:") + 1));
  std::erase(word, ' ');
  for (const auto& [known, dtype] : names) {
    if (word == known) return dtype;
  }
  if (word.starts_with("float8")) return DType::uint8;
  return {};
}

Bytes collective_bytes(OpKind kind, std::int64_t elements_in, std::int64_t elements_out,
                       std::int64_t element_size) {
  constexpr std::int64_t elements_max = std::int64_t{1} << 46;
  const std::int64_t in = std::clamp<std::int64_t>(elements_in, 0, elements_max);
  const std::int64_t out = std::clamp<std::int64_t>(elements_out, 0, elements_max);
  const bool full = kind == OpKind::all_gather || kind == OpKind::reduce_scatter;
  const std::int64_t elements = full || in == 0 ? std::max(in, out) : in;
  return Bytes{elements * std::clamp<std::int64_t>(element_size, 0, 64)};
}

}  // namespace tessera::exchange
