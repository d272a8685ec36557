// SPDX-License-Identifier: Apache-2.0
#include "training/reference/module_layer.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <set>

namespace tessera::real {
namespace {

constexpr std::int64_t any = -1;  // a dimension that the module decides
constexpr const char* supported =
    "Linear, Conv1D, Embedding, LayerNorm, GELU, ReLU, GPT2Attention, GPT2MLP";

class LayerMaker {
 public:
  LayerMaker(const Model& model, ModuleId id, const std::vector<ParameterId>& used,
             std::int64_t sequence_length)
      : model_(model), module_(model.module(id)), used_(used), sequence_length_(sequence_length) {}

  Result<ModuleLayer> make() {
    TESSERA_TRY(by_class());
    for (ParameterId id : used_) {
      if (taken_.contains(id)) continue;
      return error(fmt::format("has the parameter {}, which its class does not use",
                               model_.parameter(id).name));
    }
    return std::move(out_);
  }

 private:
  using Shape = std::vector<std::int64_t>;

  Status error(const std::string& what) const {
    return Status(Code::invalid_argument, fmt::format("{} {}", described(module_), what));
  }

  Status by_class() {
    const std::string& name = module_.class_name;
    if (name == "Linear") return projection(WeightOrder::out_in);
    if (name == "Conv1D") return projection(WeightOrder::in_out);
    if (name == "Embedding") return embedding();
    if (name == "LayerNorm") return layer_norm();
    if (name == "GPT2Attention") return attention();
    if (name == "GPT2MLP") return mlp();
    if (name == "GELU") return elementwise(gelu_layer());
    if (name == "ReLU") return elementwise(relu_layer());
    return Status(Code::not_supported,
                  fmt::format("{} has no forward and backward here: supported are {}",
                              described(module_), supported));
  }

  // The next parameter of the layer; `any` dimensions of `wanted` are filled in.
  Status take(const std::string& name, Shape& wanted, bool optional = false) {
    const std::string full = module_.path.empty() ? name : module_.path + "." + name;
    const ParameterId id = model_.find_parameter(full);
    const auto place = std::find(used_.begin(), used_.end(), id);
    if (!id.valid() || place == used_.end()) {
      out_.parameters.emplace_back();
      return optional ? Status{} : error("needs a parameter called " + name);
    }
    const Parameter& parameter = model_.parameter(id);
    bool fits = parameter.shape.size() == wanted.size();
    for (std::size_t d = 0; fits && d < wanted.size(); ++d) {
      if (wanted[d] == any) wanted[d] = parameter.shape[d];
      fits = wanted[d] == parameter.shape[d] && wanted[d] > 0;
    }
    if (!fits) {
      return error(fmt::format("has {} of shape [{}], which does not fit its class: expected [{}]",
                               name, fmt::join(parameter.shape, ", "), shape_text(wanted)));
    }
    taken_.insert(id);
    ParameterSlot slot;
    slot.read = static_cast<std::int32_t>(place - used_.begin());
    slot.numel = static_cast<std::size_t>(parameter.numel().value);
    if (parameter.requires_grad) {
      slot.write = static_cast<std::int32_t>(std::count_if(
          used_.begin(), place, [&](auto p) { return model_.parameter(p).requires_grad; }));
    }
    out_.parameters.push_back(slot);
    return {};
  }

  static std::string shape_text(const Shape& shape) {
    std::vector<std::string> parts;
    for (std::int64_t d : shape) parts.push_back(d == any ? "any" : std::to_string(d));
    return fmt::format("{}", fmt::join(parts, ", "));
  }

  // A weight and perhaps a bias; -1 stands for widths that the weight decides.
  Status affine(const std::string& prefix, WeightOrder order, std::int64_t& in, std::int64_t& out) {
    const bool out_first = order == WeightOrder::out_in;
    Shape shape = out_first ? Shape{out, in} : Shape{in, out};
    TESSERA_TRY(take(prefix + "weight", shape));
    in = shape[out_first ? 1 : 0];
    out = shape[out_first ? 0 : 1];
    Shape bias{out};
    return take(prefix + "bias", bias, /*optional=*/true);
  }

  Status projection(WeightOrder order) {
    out_.width_in = out_.width_out = any;
    out_.layer = linear_layer(order);
    return affine("", order, out_.width_in, out_.width_out);
  }

  Status embedding() {
    Shape shape{any, any};
    TESSERA_TRY(take("weight", shape));
    out_.reads_ids = true;
    out_.rows = shape[0];
    out_.width_out = shape[1];
    out_.layer = embedding_layer(shape[1]);
    return {};
  }

  Status layer_norm() {
    Shape shape{any};
    TESSERA_TRY(take("weight", shape));
    out_.width_in = out_.width_out = shape[0];
    out_.layer = layer_norm_layer();
    return take("bias", shape, /*optional=*/true);
  }

  Status elementwise(std::unique_ptr<Layer> layer) {
    out_.layer = std::move(layer);
    return {};
  }

  Status attention() {
    std::int64_t in = any;
    std::int64_t inner = any;
    TESSERA_TRY(affine("c_attn.", WeightOrder::in_out, in, inner));
    if (inner % 3 != 0) return error("needs a c_attn.weight that is a multiple of 3 wide");
    const std::int64_t hidden = inner / 3;
    if (model_.attention_heads < 1 || hidden % model_.attention_heads != 0) {
      return error(fmt::format("is {} wide, which Model::attention_heads, {}, does not divide",
                               hidden, model_.attention_heads));
    }
    out_.width_in = in;
    out_.layer = attention_layer(model_.attention_heads, sequence_length_);
    std::int64_t mixed = hidden;
    out_.width_out = any;
    return affine("c_proj.", WeightOrder::in_out, mixed, out_.width_out);
  }

  Status mlp() {
    std::int64_t inner = any;
    out_.width_in = out_.width_out = any;
    out_.layer = mlp_layer();
    TESSERA_TRY(affine("c_fc.", WeightOrder::in_out, out_.width_in, inner));
    return affine("c_proj.", WeightOrder::in_out, inner, out_.width_out);
  }

  const Model& model_;
  const Module& module_;
  const std::vector<ParameterId>& used_;
  const std::int64_t sequence_length_;
  std::set<ParameterId> taken_;
  ModuleLayer out_;
};

}  // namespace

Result<ModuleLayer> module_layer(const Model& model, ModuleId id,
                                 const std::vector<ParameterId>& used,
                                 std::int64_t sequence_length) {
  return LayerMaker(model, id, used, sequence_length).make();
}

std::string described(const Module& module) {
  return fmt::format("module {} ({})", module.path.empty() ? "\"\"" : module.path,
                     module.class_name);
}

}  // namespace tessera::real
