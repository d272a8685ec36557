// SPDX-License-Identifier: Apache-2.0
#include "training/language/plan.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "engine/model/gradient_flow.h"
#include "engine/model/used_by.h"

namespace tessera::language {
namespace {

class Planner {
 public:
  Planner(const Model& model, Plan& plan)
      : model_(model), plan_(plan), used_(used_by(model)), flow_(model, model.forward) {}

  Status make() {
    TESSERA_TRY(check_mathematics());
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

  // What is not computed must not be computed in another way.
  Status check_mathematics() const {
    const Mathematics& m = model_.mathematics;
    if (!m.refused.empty()) {
      return Status(Code::not_supported, fmt::format("{}: {}", model_.name, m.refused.front()));
    }
    const RotaryEmbedding& r = model_.rotary;
    if (!r.known) return unsupported(model_.modules[0], "one with an unknown rope_scaling");
    if (r.stretch != RotaryStretch::dynamic || plan_.shape.places() <= r.positions) return {};
    return Status(Code::not_supported,
                  fmt::format("{}: rope_type dynamic is computed up to max_position_embeddings {}, "
                              "but sequences have {} tokens: choose shorter ones",
                              model_.name, r.positions, plan_.shape.places()));
  }

  // The number of the block that module `id` is in.
  std::int64_t block_of(ModuleId id) const {
    std::int64_t before = -1;
    for (std::size_t k = 0; k <= id.index(); ++k) before += model_.modules[k].is_block ? 1 : 0;
    return std::max<std::int64_t>(before, 0);
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
    planned.runs_backward = flow_.runs_backward(k);
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
    if (positions >= plan_.shape.places()) {
      return position_embedding(plan_.shape, table,
                                dropout(model_.mathematics.embedding_dropout, 0));
    }
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
    set_scores(slots);
    slots.weight_dropout = dropout(model_.mathematics.attention_dropout, 0);
    slots.out_dropout = dropout(model_.mathematics.residual_dropout, 1);
    const std::int64_t q = slots.heads * slots.head_dim;
    const std::int64_t kv = slots.kv_heads * slots.head_dim;
    if (fused) {
      slots.weight[0] = slot("c_attn.weight", {h, q + 2 * kv});
      slots.bias[0] = slot("c_attn.bias", {q + 2 * kv});
      slots.adapter[0] = adapter("c_attn", h, q + 2 * kv);
      slots.out_adapter = adapter("c_proj", q, h);
      slots.out_weight = slot("c_proj.weight", {q, h});
      slots.out_bias = slot("c_proj.bias", {h});
    } else {
      constexpr const char* names[] = {"q_proj", "k_proj", "v_proj"};
      for (std::size_t k = 0; k < 3; ++k) {
        const std::string name = names[k];
        slots.weight[k] = slot(name + ".weight", {k == 0 ? q : kv, h});
        slots.bias[k] = slot(name + ".bias", {k == 0 ? q : kv}, true);
        slots.adapter[k] = adapter(name, h, k == 0 ? q : kv);
      }
      slots.out_adapter = adapter("o_proj", q, h);
      slots.out_weight = slot("o_proj.weight", {h, q});
      slots.out_bias = slot("o_proj.bias", {h}, true);
      if (slots.head_dim % 2 != 0) failed_ = unsupported(model_.module(id_), "of odd head_dim");
      slots.rotary = rotary();
    }
    TESSERA_TRY(failed_);
    return attention(plan_.math(), plan_.shape, slots);
  }

  void set_scores(AttentionSlots& slots) const {
    const Mathematics& m = model_.mathematics;
    const std::int64_t block = block_of(id_);
    const auto place = static_cast<std::size_t>(block);
    const bool full = place < m.full_attention.size() && m.full_attention[place];
    const bool narrow = model_.sliding_window > 0 && plan_.shape.places() > model_.sliding_window;
    if (narrow && !full) slots.window = model_.sliding_window;
    if (m.scores_scaled && !m.scores_scaled_by_block) return;
    slots.scale = m.scores_scaled ? 1.0F / std::sqrt(static_cast<float>(slots.head_dim)) : 1.0F;
    if (m.scores_scaled_by_block) slots.scale /= static_cast<float>(block + 1);
  }

  // One table for all layers.
  bool rotary() {
    if (plan_.rotary.half == 0) {
      plan_.rotary = kernels::rotary_table(model_.rotary, model_.head_dim, plan_.shape.places());
    }
    return true;
  }

  MadeLayer mlp_of(bool gpt2) {
    const std::int64_t h = plan_.shape.width;
    const Activation of_class = gpt2 ? Activation::gelu_tanh : Activation::silu;
    MlpSlots slots{.activation = model_.mathematics.activation.value_or(of_class)};
    slots.out_dropout = dropout(model_.mathematics.residual_dropout, 1);
    if (gpt2) {
      slots.up_weight = slot("c_fc.weight", {h, any});
      slots.inner = slots.up_weight.numel / h;
      slots.up_bias = slot("c_fc.bias", {slots.inner});
      slots.down_weight = slot("c_proj.weight", {slots.inner, h});
      slots.down_bias = slot("c_proj.bias", {h});
      slots.up_adapter = adapter("c_fc", h, slots.inner);
      slots.down_adapter = adapter("c_proj", slots.inner, h);
    } else {
      slots.gate_weight = slot("gate_proj.weight", {any, h});
      slots.inner = slots.gate_weight.numel / h;
      slots.gate_bias = slot("gate_proj.bias", {slots.inner}, true);
      slots.up_weight = slot("up_proj.weight", {slots.inner, h});
      slots.up_bias = slot("up_proj.bias", {slots.inner}, true);
      slots.down_weight = slot("down_proj.weight", {h, slots.inner});
      slots.down_bias = slot("down_proj.bias", {h}, true);
      slots.gate_adapter = adapter("gate_proj", h, slots.inner);
      slots.up_adapter = adapter("up_proj", h, slots.inner);
      slots.down_adapter = adapter("down_proj", slots.inner, h);
    }
    TESSERA_TRY(failed_);
    return gpt2 ? plain_mlp(plan_.math(), plan_.shape, slots)
                : gated_mlp(plan_.math(), plan_.shape, slots);
  }

  MadeLayer head_of() {
    HeadSlots slots{.vocabulary = plan_.vocabulary};
    slots.weight = slot("weight", {plan_.vocabulary, plan_.shape.width});
    TESSERA_TRY(failed_);
    return head(plan_.math(), plan_.shape, slots);
  }

  // By the operation's place in the model; a module has two at most.
  DropoutSlots dropout(float share, std::int32_t operation) const {
    if (!plan_.shape.drops) share = 0;
    return {share, static_cast<std::uint32_t>(2 * id_.value + operation)};
  }

  // Beside the linear layer `name` of the module, if there is one.
  AdapterSlots adapter(const std::string& name, std::int64_t in, std::int64_t out) {
    AdapterSlots slots{.scale = plan_.shape.adapter_scale};
    slots.down = slot(name + ".lora_A.weight", {any, in}, true);
    if (slots.down.read < 0) return slots;
    slots.rank = slots.down.numel / in;
    slots.up = slot(name + ".lora_B.weight", {out, slots.rank});
    return slots;
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
  const GradientFlow flow_;
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
