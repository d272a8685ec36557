// SPDX-License-Identifier: Apache-2.0
#include "engine/model/frozen_share.h"

#include <algorithm>
#include <array>
#include <optional>
#include <string_view>

namespace tessera {
namespace {

using Shape = std::vector<std::int64_t>;

constexpr std::array<std::string_view, 6> linear_classes = {"Linear", "Conv1D", "Conv1d",
                                                            "Conv2d", "Conv3d", "Embedding"};

double flops_of(const LinearShape& l) {
  return static_cast<double>(l.in) * static_cast<double>(l.out) * static_cast<double>(l.count) *
         l.rows_per_token;
}

// Which matrices are trained, by the shapes of those parameters that are: two of one shape cost the
// same. Nothing, if a trained one is not among them.
std::optional<std::vector<bool>> by_shape(const std::vector<LinearShape>& linears,
                                          std::vector<Shape> trained) {
  std::vector<bool> out;
  for (const LinearShape& linear : linears) {
    const auto found = std::find_if(trained.begin(), trained.end(), [&](const Shape& shape) {
      return linear.count == 1 &&
             (shape == Shape{linear.out, linear.in} || shape == Shape{linear.in, linear.out});
    });
    out.push_back(found != trained.end());
    if (found != trained.end()) trained.erase(found);
  }
  if (!trained.empty()) return std::nullopt;
  return out;
}

}  // namespace

bool is_packed(const Parameter& parameter) {
  return !parameter.requires_grad && parameter.name.ends_with(".qweight");
}

FrozenShare::FrozenShare(const Model& model, const std::vector<std::vector<ParameterId>>& used) {
  for (std::size_t m = 0; m < model.modules.size(); ++m) add(model, model.modules[m], used[m]);
}

void FrozenShare::add(const Model& model, const Module& module,
                      const std::vector<ParameterId>& used) {
  double all = 0, trained = 0;
  bool any = false, every = true;
  std::vector<Shape> shapes;
  Packed packed;
  for (const ParameterId id : used) {
    const Parameter& p = model.parameter(id);
    any |= p.requires_grad;
    if (p.shape.size() < 2) continue;
    every &= p.requires_grad;
    const auto elements = static_cast<double>(p.numel().value);
    all += elements;
    if (p.requires_grad) trained += elements;
    if (p.requires_grad) shapes.push_back(p.shape);
    if (!is_packed(p)) continue;
    packed.all += elements;
    packed.largest = std::max(packed.largest, elements);
    ++packed.matrices;
  }
  const std::vector<LinearShape>& linears = module.cost.linears;
  std::vector<bool> known;
  double share = all == 0 ? 1 : trained / all;
  if (every || shapes.empty()) {
    known.assign(linears.size(), every);
  } else if (auto found = by_shape(linears, std::move(shapes))) {
    known = std::move(*found);
    double flops = 0, of_trained = 0;
    for (std::size_t k = 0; k < linears.size(); ++k) {
      flops += flops_of(linears[k]);
      if (known[k]) of_trained += flops_of(linears[k]);
    }
    if (flops > 0) share = of_trained / flops;
  }
  trained_.push_back(share);
  linears_.push_back(std::move(known));
  packed_.push_back(packed);
  const bool linear = std::find(linear_classes.begin(), linear_classes.end(), module.class_name) !=
                      linear_classes.end();
  saves_.push_back(!linear || used.empty() || any);
}

}  // namespace tessera
