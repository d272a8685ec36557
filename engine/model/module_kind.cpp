// SPDX-License-Identifier: Apache-2.0
#include "engine/model/module_kind.h"

#include <algorithm>
#include <array>

#include "engine/model/part_costs.h"
#include "engine/model/tree_builder.h"
#include "engine/model/used_by.h"

namespace tessera {
namespace {

constexpr std::array<std::string_view, 13> functions = {
    "GELU", "SiLU", "Swish",    "Sigmoid", "Tanh",      "Softmax",   "Mish",
    "ELU",  "CELU", "Softplus", "GLU",     "Hardswish", "Activation"};

bool has(std::string_view text, std::string_view word) {
  return text.find(word) != std::string_view::npos;
}

// Conv2d and its like, not Hugging Face's Conv1D.
bool is_convolution(std::string_view name) {
  return name.starts_with("Conv") && name.size() > 2 && name.back() == 'd' &&
         name[name.size() - 2] >= '1' && name[name.size() - 2] <= '3';
}

LinearShape matrix_of(std::string_view class_name, const std::vector<std::int64_t>& shape) {
  if (class_name == "Conv1D") return {.in = shape[0], .out = shape[1]};
  if (shape.size() == 2) return {.in = shape[1], .out = shape[0]};
  if (is_convolution(class_name)) {
    std::int64_t in = 1;
    for (std::size_t k = 1; k < shape.size(); ++k) in *= shape[k];
    return {.in = in, .out = shape[0]};
  }
  std::int64_t count = 1;
  for (std::size_t k = 0; k + 2 < shape.size(); ++k) count *= shape[k];
  return {.in = shape[shape.size() - 2], .out = shape.back(), .rows_per_token = 1, .count = count};
}

ModuleKind kind_without_matrices(std::string_view name, bool parameters) {
  if (has(name, "Dropout")) return {.name = KindName::dropout};
  if (has(name, "ReLU")) return {.name = KindName::relu};
  for (const std::string_view function : functions) {
    if (has(name, function)) return {.name = KindName::activation};
  }
  return {.name = parameters ? KindName::scale : KindName::other};
}

}  // namespace

bool is_attention(std::string_view class_name) {
  return class_name.ends_with("Attention") || class_name.ends_with("Attention2");
}

bool is_mlp(std::string_view class_name) {
  return has(class_name, "MLP") || has(class_name, "Mlp") || has(class_name, "FFN") ||
         has(class_name, "FeedForward") || has(class_name, "DenseReluDense");
}

std::vector<std::vector<const Parameter*>> own_parameters(const Model& model) {
  std::vector<std::vector<const Parameter*>> out;
  for (const Module& module : model.modules) {
    auto& own = out.emplace_back();
    for (const ParameterId id : module.parameters) own.push_back(&model.parameter(id));
  }
  for (const Tie& tie : model.ties) {
    out[module_of_alias(model, tie).index()].push_back(&model.parameter(tie.parameter));
  }
  return out;
}

ModuleKind kind_of(const Module& module, const std::vector<const Parameter*>& own) {
  const std::string_view name = module.class_name;
  ModuleKind kind;
  if (has(name, "Norm")) {
    kind.name = KindName::norm;
    kind.centred = !has(name, "RMS");
    if (!own.empty() && own[0]->shape.size() == 1) kind.in = kind.out = own[0]->shape[0];
    return kind;
  }
  std::vector<const Parameter*> matrices;
  for (const Parameter* p : own) {
    if (p->shape.size() >= 2 && p->numel() > Numel{0}) matrices.push_back(p);
  }
  if (matrices.empty()) return kind_without_matrices(name, !own.empty());
  if (has(name, "Embedding") && matrices.size() == 1 && matrices[0]->shape.size() == 2) {
    return {.name = KindName::embedding, .in = matrices[0]->shape[0], .out = matrices[0]->shape[1]};
  }
  kind.name = KindName::matrices;
  for (const Parameter* p : matrices) kind.linears.push_back(matrix_of(name, p->shape));
  kind.in = kind.linears.front().in;
  kind.out = kind.linears.back().out;
  return kind;
}

ModuleCost kind_cost(const ModuleKind& kind, std::int64_t width) {
  const double bytes = element * static_cast<double>(kind.out > 0 ? kind.out : width);
  switch (kind.name) {
    case KindName::other: return {};
    case KindName::embedding: return embedding_cost(kind.out, false, false);
    case KindName::norm: {  // of heads side by side, too
      const bool heads = kind.out > 0 && width % kind.out == 0 && width > 0;
      return norm_cost(kind.centred ? NormKind::layer : NormKind::rms,
                       heads || kind.out == 0 ? width : kind.out);
    }
    case KindName::scale:
    case KindName::activation:
      return {.elementwise_bytes = per_token(2 * bytes), .activation_bytes = per_token(bytes)};
    case KindName::relu: return {.elementwise_bytes = per_token(2 * bytes)};
    case KindName::dropout:  // and a mask of a byte
      return {.elementwise_bytes = per_token(2.5 * bytes),
              .activation_bytes = per_token(bytes / element),
              .dropout = bytes / element};
    case KindName::matrices: break;
  }
  ModuleCost cost;
  cost.kernels = 0;
  for (const LinearShape& linear : kind.linears) {
    ModuleCost part = linear_cost(linear);
    part.matmul_flops.linear *= static_cast<double>(linear.count);
    cost = cost + part;
  }
  return cost;
}

}  // namespace tessera
