// SPDX-License-Identifier: Apache-2.0
#include "training/language/plan.h"

#include <fmt/format.h>

#include <algorithm>

#include "engine/model/used_by.h"

namespace tessera::language {
namespace {

class Planner {
 public:
  Planner(const Model& model, Plan& plan) : model_(model), plan_(plan), used_(used_by(model)) {}

  Status make() {
    if (!model_.rotary.known) return unsupported(model_.modules[0], "an unknown rope_scaling");
    if (model_.sliding_window > 0 && plan_.shape.places() > model_.sliding_window) {
      return Status(Code::not_supported,
                    fmt::format("{}: sliding_window is {}, but sequences have {} tokens: attention "
                                "within a window is not computed, choose shorter sequences",
                                model_.name, model_.sliding_window, plan_.shape.places()));
    }
    TESSERA_TRY(measure());
    for (std::size_t k = 0; k < model_.forward.size(); ++k) TESSERA_TRY(plan_layer(k));
    plan_.first = model_.forward.front();
    plan_.last = model_.forward.back();
    for (const Module& m : model_.modules) plan_.blocks += m.is_block ? 1 : 0;
    plan_.parameters = model_.parameters;
    for (const Parameter& p : model_.parameters) {
      plan_.classes.push_back(model_.module(p.module).class_name);
    }
    return {};
  }

 private:
  static Status unsupported(const Module& module, const std::string& what) {
    return Status(Code::not_supported,
                  fmt::format("module {} is {}: real training knows GPT-2 and the dense models of "
                              "the Llama family",
                              module.path, what));
  }

  // The width of the residual stream, from the table that begins it.
  Status measure() {
    if (model_.forward.size() < 3) return unsupported(model_.modules[0], "no language model");
    const Module& first = model_.module(model_.forward[0]);
    const Module& last = model_.module(model_.forward.back());
    if (first.class_name != "Embedding" || first.parameters.empty()) {
      return unsupported(first, "no embedding, but runs first");
    }
    if (last.class_name != "Linear") return unsupported(last, "no Linear, but runs last");
    const auto& table = model_.parameter(first.parameters[0]).shape;
    if (table.size() != 2) return unsupported(first, "no table");
    plan_.vocabulary = table[0];
    plan_.shape.width = table[1];
    return {};
  }

  Status plan_layer(std::size_t k) {
    const ModuleId id = model_.forward[k];
    PlannedLayer& planned = plan_.layers[id];
    if (planned.layer) return unsupported(model_.module(id), "run twice");
    id_ = id;
    planned.parameters = used_[id.index()];
    planned.reads = planned.parameters.size();
    for (ParameterId p : planned.parameters) {
      planned.writes += model_.parameter(p).requires_grad ? 1 : 0;
    }
    for (ModuleId m = id; m.valid(); m = model_.module(m).parent) {
      planned.in_block = planned.in_block || model_.module(m).is_block;
    }
    slots_taken_ = 0;
    TESSERA_ASSIGN(planned.layer, by_class(k));
    if (slots_taken_ == planned.parameters.size()) return {};
    return unsupported(model_.module(id), "one with other parameters than its class has");
  }

  MadeLayer by_class(std::size_t k) {
    const std::string& name = model_.module(id_).class_name;
    const bool last = k + 1 == model_.forward.size();
    if (name == "Embedding") return embedding(k);
    if (name == "LayerNorm" || name.ends_with("RMSNorm")) return norm_of(k);
    if (name.ends_with("Attention")) return attention_of(name == "GPT2Attention");
    if (name.ends_with("MLP")) return mlp_of(name == "GPT2MLP");
    if (name == "Linear" && last) return head_of();
    return unsupported(model_.module(id_), "a " + name);
  }

  MadeLayer embedding(std::size_t k) {
    const Slot table = slot("weight", {k == 0 ? plan_.vocabulary : any, plan_.shape.width});
    TESSERA_TRY(failed_);
    if (k == 0) return token_embedding(plan_.shape, table);
    const std::int64_t positions = table.numel / plan_.shape.width;
    if (k > 1) return unsupported(model_.module(id_), "a third Embedding");
    if (positions >= plan_.shape.places()) return position_embedding(plan_.shape, table);
    return Status(Code::invalid_argument,
                  fmt::format("module {} has {} positions, fewer than the sequence length {}",
                              model_.module(id_).path, positions, plan_.shape.places()));
  }

  MadeLayer norm_of(std::size_t k) {
    NormSlots slots{.epsilon = static_cast<float>(model_.norm_epsilon),
                    .last = k + 2 == model_.forward.size()};
    slots.weight = slot("weight", {plan_.shape.width});
    if (model_.module(id_).class_name == "LayerNorm") {
      slots.bias = slot("bias", {plan_.shape.width});
    }
    TESSERA_TRY(failed_);
    return norm(plan_.shape, slots);
  }

  MadeLayer attention_of(bool fused) {
    const std::int64_t h = plan_.shape.width;
    AttentionSlots slots{.heads = model_.attention_heads, .head_dim = model_.head_dim};
    slots.kv_heads = model_.key_value_heads == 0 ? slots.heads : model_.key_value_heads;
    slots.fused = fused;
    if (slots.heads < 1 || slots.head_dim < 1) {
      return unsupported(model_.module(id_), "attention with an unknown number of heads");
    }
    const std::int64_t q = slots.heads * slots.head_dim;
    const std::int64_t kv = slots.kv_heads * slots.head_dim;
    if (fused) {
      slots.weight[0] = slot("c_attn.weight", {h, q + 2 * kv});
      slots.bias[0] = slot("c_attn.bias", {q + 2 * kv});
      slots.out_weight = slot("c_proj.weight", {q, h});
      slots.out_bias = slot("c_proj.bias", {h});
    } else {
      constexpr const char* names[] = {"q_proj", "k_proj", "v_proj"};
      for (std::size_t k = 0; k < 3; ++k) {
        const std::string name = names[k];
        slots.weight[k] = slot(name + ".weight", {k == 0 ? q : kv, h});
        slots.bias[k] = slot(name + ".bias", {k == 0 ? q : kv}, true);
      }
      slots.out_weight = slot("o_proj.weight", {h, q});
      slots.out_bias = slot("o_proj.bias", {h}, true);
      if (slots.head_dim % 2 != 0) failed_ = unsupported(model_.module(id_), "of odd head_dim");
      slots.rotary = rotary();
    }
    TESSERA_TRY(failed_);
    return attention(plan_.math(), plan_.shape, slots);
  }

  // One table for all layers.
  bool rotary() {
    if (plan_.rotary.half == 0) {
      plan_.rotary = kernels::rotary_table(model_.rotary, model_.head_dim, plan_.shape.places());
    }
    return true;
  }

  MadeLayer mlp_of(bool gelu) {
    const std::int64_t h = plan_.shape.width;
    MlpSlots slots;
    if (gelu) {
      slots.up_weight = slot("c_fc.weight", {h, any});
      slots.inner = slots.up_weight.numel / h;
      slots.up_bias = slot("c_fc.bias", {slots.inner});
      slots.down_weight = slot("c_proj.weight", {slots.inner, h});
      slots.down_bias = slot("c_proj.bias", {h});
    } else {
      slots.gate_weight = slot("gate_proj.weight", {any, h});
      slots.inner = slots.gate_weight.numel / h;
      slots.gate_bias = slot("gate_proj.bias", {slots.inner}, true);
      slots.up_weight = slot("up_proj.weight", {slots.inner, h});
      slots.up_bias = slot("up_proj.bias", {slots.inner}, true);
      slots.down_weight = slot("down_proj.weight", {h, slots.inner});
      slots.down_bias = slot("down_proj.bias", {h}, true);
    }
    TESSERA_TRY(failed_);
    return gelu ? gelu_mlp(plan_.math(), plan_.shape, slots)
                : gated_mlp(plan_.math(), plan_.shape, slots);
  }

  MadeLayer head_of() {
    HeadSlots slots{.vocabulary = plan_.vocabulary};
    slots.weight = slot("weight", {plan_.vocabulary, plan_.shape.width});
    TESSERA_TRY(failed_);
    return head(plan_.math(), plan_.shape, slots);
  }

  static constexpr std::int64_t any = -1;

  // Where the parameter `name` of the module is among the views of its work.
  Slot slot(const std::string& name, const std::vector<std::int64_t>& shape,
            bool optional = false) {
    const std::string full = model_.module(id_).path + "." + name;
    const ParameterId id = model_.find_parameter(full);
    Slot out;
    if (!id.valid() && optional) return out;
    const auto& used = used_[static_cast<std::size_t>(id_.value)];
    const auto place = std::find(used.begin(), used.end(), id);
    if (!id.valid() || place == used.end()) {
      failed_ = unsupported(model_.module(id_), "one without parameter " + name);
      return out;
    }
    ++slots_taken_;
    const Parameter& p = model_.parameter(id);
    const bool fits = std::equal(p.shape.begin(), p.shape.end(), shape.begin(), shape.end(),
                                 [](auto a, auto b) { return a == b || b == any; });
    if (!fits) {
      failed_ = Status(Code::invalid_argument,
                       fmt::format("parameter {} has another shape than the rest of the model "
                                   "wants",
                                   full));
    }
    out.read = static_cast<int>(place - used.begin());
    out.numel = p.numel().value;
    if (!p.requires_grad) return out;
    out.write = static_cast<int>(std::count_if(used.begin(), place, [this](ParameterId before) {
      return model_.parameter(before).requires_grad;
    }));
    return out;
  }

  const Model& model_;
  Plan& plan_;
  const std::vector<std::vector<ParameterId>> used_;
  ModuleId id_;
  std::size_t slots_taken_ = 0;
  Status failed_;
};

}  // namespace

Result<std::unique_ptr<Plan>> Plan::make(const Model& model, const Shape& shape) {
  auto plan = std::make_unique<Plan>(shape);
  TESSERA_TRY(Planner(model, *plan).make());
  return plan;
}

}  // namespace tessera::language
