// SPDX-License-Identifier: Apache-2.0
#include "engine/model/tree_builder.h"

#include <fmt/format.h>

namespace tessera {

TreeBuilder::TreeBuilder(std::string name, std::string root_class, DType dtype) {
  model_.name = std::move(name);
  model_.dtype = dtype;
  model_.modules.push_back({.class_name = std::move(root_class)});
  open_.push_back(ModuleId{0});
}

std::string TreeBuilder::path_of(const std::string& name) const {
  const std::string& parent = model_.module(open_.back()).path;
  return parent.empty() ? name : parent + "." + name;
}

ModuleId TreeBuilder::open(const std::string& name, const std::string& class_name) {
  const ModuleId id{static_cast<std::int32_t>(model_.modules.size())};
  Module added{.path = path_of(name), .class_name = class_name, .parent = open_.back()};
  module(open_.back()).children.push_back(id);
  model_.modules.push_back(std::move(added));
  open_.push_back(id);
  return id;
}

void TreeBuilder::close() {
  TESSERA_ASSERT(open_.size() > 1, "the root stays open");
  open_.pop_back();
}

ParameterId TreeBuilder::parameter(const std::string& name, std::vector<std::int64_t> shape) {
  const ParameterId id{static_cast<std::int32_t>(model_.parameters.size())};
  model_.parameters.push_back({.name = path_of(name),
                               .shape = std::move(shape),
                               .dtype = model_.dtype,
                               .module = open_.back()});
  module(open_.back()).parameters.push_back(id);
  return id;
}

void TreeBuilder::linear(const std::string& name, std::int64_t in, std::int64_t out, bool bias) {
  open(name, "Linear");
  parameter("weight", {out, in});
  if (bias) parameter("bias", {out});
  close();
}

ModuleId TreeBuilder::leaf(const std::string& name, const std::string& class_name,
                           std::vector<std::int64_t> shape) {
  const ModuleId id = open(name, class_name);
  parameter("weight", std::move(shape));
  close();
  return id;
}

std::int64_t numel_of(const std::vector<std::int64_t>& shape) {
  std::int64_t product = 1;
  for (std::int64_t dimension : shape) {
    if (__builtin_mul_overflow(product, dimension, &product)) return -1;
  }
  return product;
}

Status check_size(const Model& model, const std::string& source) {
  // Parameter, gradient and optimizer state take up to 32 bytes an element, and padding some more.
  constexpr std::int64_t total_max = std::int64_t{1} << 56;
  std::int64_t total = 0;
  auto count = [&](const char* kind, const auto& tensor) -> Status {
    const std::int64_t numel = numel_of(tensor.shape);
    if (numel < 0 || numel > total_max - total) {
      return Status(Code::invalid_argument,
                    fmt::format("{}: {} {} makes the model larger than 2^56 elements", source, kind,
                                tensor.name));
    }
    total += numel;
    return {};
  };
  for (const Parameter& p : model.parameters) TESSERA_TRY(count("parameter", p));
  for (const Buffer& b : model.buffers) TESSERA_TRY(count("buffer", b));
  return {};
}

}  // namespace tessera
