// SPDX-License-Identifier: Apache-2.0
#include "exchange/import/torch_collectives.h"

#include <array>
#include <string>
#include <utility>

namespace tessera::exchange {
namespace {

/// Letters and digits alone, small: spellings differ in the rest.
std::string plain(std::string_view name) {
  std::string text;
  for (const char c : name.substr(0, 96)) {
    if (c >= 'A' && c <= 'Z') text += static_cast<char>(c - 'A' + 'a');
    if ((c >= 'a' && c <= 'z') || (c >= '0' && c <= '9')) text += c;
  }
  return text;
}

bool holds(const std::string& text, std::string_view part) {
  return text.find(part) != std::string::npos;
}

}  // namespace

std::optional<OpKind> collective_kind(std::string_view name) {
  // Longer names first: "reducescatter" holds "reduce".
  static constexpr std::array<std::pair<std::string_view, OpKind>, 9> words = {
      {{"allgather", OpKind::all_gather},
       {"gatherall", OpKind::all_gather},
       {"reducescatter", OpKind::reduce_scatter},
       {"allreduce", OpKind::all_reduce},
       {"barrier", OpKind::all_reduce},
       {"alltoall", OpKind::all_to_all},
       {"broadcast", OpKind::broadcast},
       {"bcast", OpKind::broadcast},
       {"reduce", OpKind::reduce}}};
  const std::string text = plain(name);
  for (const auto& [word, kind] : words) {
    if (holds(text, word)) return kind;
  }
  return std::nullopt;
}

bool is_nccl_kernel(std::string_view name) {
  return name.find("ncclKernel") != std::string_view::npos ||
         name.find("ncclDevKernel") != std::string_view::npos ||
         name.find("ncclSymk") != std::string_view::npos ||
         name.find("rcclGenericKernel") != std::string_view::npos ||
         name.find("mscclKernel") != std::string_view::npos;
}

std::string_view nccl_algorithm(std::string_view kernel) {
  static constexpr std::array<std::pair<std::string_view, std::string_view>, 12> names = {
      {{"RING_LL128", "ring LL128"},
       {"RING_LL", "ring LL"},
       {"RING_SIMPLE", "ring Simple"},
       {"TREE_LL128", "tree LL128"},
       {"TREE_LL", "tree LL"},
       {"TREE_SIMPLE", "tree Simple"},
       {"NVLS_TREE", "NVLSTree"},
       {"NVLSTREE", "NVLSTree"},
       {"NVLS", "NVLS"},
       {"COLLNET", "CollNet"},
       {"PAT", "PAT"},
       {"RING", "ring"}}};
  for (const auto& [word, text] : names) {
    if (kernel.find(word) != std::string_view::npos) return text;
  }
  return {};
}

std::optional<TorchType> torch_type(std::string_view name) {
  static constexpr std::array<std::pair<std::string_view, TorchType>, 22> types = {
      {{"float", {DType::float32, 4}},      {"float32", {DType::float32, 4}},
       {"bfloat16", {DType::bfloat16, 2}},  {"c10bfloat16", {DType::bfloat16, 2}},
       {"half", {DType::float16, 2}},       {"c10half", {DType::float16, 2}},
       {"float16", {DType::float16, 2}},    {"double", {DType::float64, 8}},
       {"float64", {DType::float64, 8}},    {"int", {DType::int32, 4}},
       {"int32", {DType::int32, 4}},        {"long", {DType::int64, 8}},
       {"longint", {DType::int64, 8}},      {"int64", {DType::int64, 8}},
       {"byte", {DType::uint8, 1}},         {"uint8", {DType::uint8, 1}},
       {"unsignedchar", {DType::uint8, 1}}, {"char", {DType::uint8, 1}},
       {"signedchar", {DType::uint8, 1}},   {"int8", {DType::uint8, 1}},
       {"bool", {DType::uint8, 1}},         {"uint8t", {DType::uint8, 1}}}};
  const std::string text = plain(name);
  for (const auto& [word, type] : types) {
    if (text == word) return type;
  }
  if (text.starts_with("float8") || text.starts_with("c10float8")) return TorchType{};
  return std::nullopt;
}

}  // namespace tessera::exchange
