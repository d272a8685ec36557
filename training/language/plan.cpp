// SPDX-License-Identifier: Apache-2.0
#include "training/language/plan.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "engine/model/gradient_flow.h"
#include "engine/model/used_by.h"
#include "training/language/repeated_norm.h"
#include "training/language/slot_taker.h"

namespace tessera::language {
namespace {

class Planner {
 public:
  Planner(const Model& model, Plan& plan)
      : model_(model),
        plan_(plan),
        used_(used_by(model)),
        flow_(model, model.forward),
        taker_(model, used_, plan.shape) {}

  Status make() {
    TESSERA_TRY(check_mathematics());
    TESSERA_TRY(check_repeated_norms(model_, plan_.shape));
    TESSERA_TRY(measure());
    for (std::size_t k = 0; k < model_.forward.size(); ++k) TESSERA_TRY(plan_layer(k));
    plan_.first = model_.forward.front();
    plan_.last = model_.forward.back();
    for (const Module& m : model_.modules) plan_.blocks += m.is_block ? 1 : 0;
    plan_.parameters = model_.parameters;
    plan_.norms_about_one = model_.mathematics.norms_about_one;
    for (const Parameter& p : model_.parameters) {
      plan_.classes.push_back(model_.module(p.module).class_name);
    }
    return {};
  }

 private:
  // What is not computed must not be computed in another way.
  Status check_mathematics() const {
    const Mathematics& m = model_.mathematics;
    if (!m.refused.empty()) {
      return Status(Code::not_supported, fmt::format("{}: {}", model_.name, m.refused.front()));
    }
    if (m.on_cpus_only && plan_.shape.processor != Processor::cpu) {
      return Status(Code::not_supported,
                    fmt::format("{}: models of this family are computed on CPUs only: train on "
                                "CPUs, or a model of the family of GPT-2 or Llama",
                                model_.name));
    }
    TESSERA_TRY(check_rotary(model_.rotary));
    return m.window_rotary ? check_rotary(*m.window_rotary) : Status();
  }

  Status check_rotary(const RotaryEmbedding& r) const {
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
    plan_.parallel = model_.mathematics.parallel;
    plan_.logit_cap = static_cast<float>(model_.mathematics.logit_cap);
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
    taker_.begin(id);
    TESSERA_ASSIGN(planned.layer, by_class(k));
    if (taker_.taken() == planned.parameters.size()) return {};
    return unsupported(model_.module(id), "one with other parameters than its class has");
  }

  MadeLayer by_class(std::size_t k) {
    const std::string& name = model_.module(id_).class_name;
    const bool last = k + 1 == model_.forward.size();
    if (name == "Embedding") return embedding(k);
    if (name == "LayerNorm" || name.ends_with("RMSNorm")) return norm_of(k);
    if (name.ends_with("Attention")) return attention_of(k, name == "GPT2Attention");
    if (name == "GPT2MLP" || name == "GPTNeoXMLP") return plain_mlp_of(k, name == "GPT2MLP");
    if (name.ends_with("MLP")) return gated_mlp_of(k);
    if (name == "Linear" && last) return head_of();
    return unsupported(model_.module(id_), "a " + name);
  }

  MadeLayer embedding(std::size_t k) {
    const Slot table = slot("weight", {k == 0 ? plan_.vocabulary : any, plan_.shape.width});
    TESSERA_TRY(taker_.status());
    if (k == 0) {
      const auto scale = static_cast<float>(model_.mathematics.embedding_scale);
      return token_embedding(plan_.shape, table, scale, model_.mathematics.padding_token);
    }
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
                    .last = k + 2 == model_.forward.size(),
                    .about_one = model_.mathematics.norms_about_one,
                    .repeated = repeated_norm(model_, plan_.shape, k).repeated};
    plan_.repeats_norms = plan_.repeats_norms || slots.repeated;
    slots.weight = slot("weight", {plan_.shape.width});
    if (model_.module(id_).class_name == "LayerNorm") {
      slots.bias = slot("bias", {plan_.shape.width});
    }
    TESSERA_TRY(taker_.status());
    const bool behind = model_.mathematics.norm_places != NormPlaces::in_front && k > 0 &&
                        in_branch(model_.module(model_.forward[k - 1]));
    return behind ? norm_behind(plan_.shape, slots) : norm(plan_.shape, slots);
  }

  static bool in_branch(const Module& module) {
    return module.class_name.ends_with("Attention") || module.class_name.ends_with("MLP");
  }

  // How attention, or an MLP, stands to the residual stream.
  BranchSlots branch(bool mlp) const {
    const Mathematics& m = model_.mathematics;
    BranchSlots out{.reads_stream = m.norm_places == NormPlaces::behind};
    if (m.norm_places != NormPlaces::in_front) out.to = BranchTarget::norm;
    if (m.parallel) out.to = mlp ? BranchTarget::stream_and_held : BranchTarget::held;
    return out;
  }

  MadeLayer attention_of(std::size_t k, bool fused) {
    AttentionSlots slots{.heads = model_.attention_heads, .head_dim = model_.head_dim};
    slots.kv_heads = model_.key_value_heads == 0 ? slots.heads : model_.key_value_heads;
    slots.fused = fused;
    if (slots.heads < 1 || slots.head_dim < 1) {
      return unsupported(model_.module(id_), "attention with an unknown number of heads");
    }
    set_scores(slots);
    slots.weight_dropout = dropout(model_.mathematics.attention_dropout, 0);
    slots.out_dropout = dropout(model_.mathematics.residual_dropout, 1);
    slots.branch = branch(false);
    slots.norm = norm_before(k);
    if (fused) {
      take_fused(slots);
    } else {
      take_separate(slots);
      take_rotary(slots);
    }
    TESSERA_TRY(taker_.status());
    return attention(plan_.math(), plan_.shape, slots);
  }

  static std::int64_t width_of(const AttentionSlots& slots, std::size_t k) {
    return (k == 0 ? slots.heads : slots.kv_heads) * slots.head_dim;
  }

  // GPT-2's matrices are [in, out].
  void take_fused(AttentionSlots& slots) {
    const std::int64_t h = plan_.shape.width;
    const std::int64_t q = width_of(slots, 0);
    const std::int64_t all = q + 2 * width_of(slots, 1);
    slots.weight[0] = slot("c_attn.weight", {h, all});
    slots.bias[0] = slot("c_attn.bias", {all});
    slots.adapter[0] = adapter("c_attn", h, all);
    slots.out_adapter = adapter("c_proj", q, h);
    slots.out_weight = slot("c_proj.weight", {q, h});
    slots.out_bias = slot("c_proj.bias", {h});
  }

  void take_separate(AttentionSlots& slots) {
    const std::int64_t h = plan_.shape.width;
    const std::int64_t q = width_of(slots, 0);
    const std::string out = model_.mathematics.heads_interleaved ? "dense" : "o_proj";
    if (model_.mathematics.heads_interleaved) {
      slots.interleaved = true;
      slots.weight[0] = slot("query_key_value.weight", {3 * q, h});
      slots.bias[0] = slot("query_key_value.bias", {3 * q}, true);
      slots.adapter[0] = adapter("query_key_value", h, 3 * q);
    } else if (taker_.has("qkv_proj.weight")) {
      take_rows(slots, q, width_of(slots, 1));
    } else {
      constexpr const char* names[] = {"q_proj", "k_proj", "v_proj"};
      for (std::size_t k = 0; k < 3; ++k) {
        const std::string name = names[k];
        slots.weight[k] = slot(name + ".weight", {width_of(slots, k), h});
        slots.bias[k] = slot(name + ".bias", {width_of(slots, k)}, true);
        slots.adapter[k] = adapter(name, h, width_of(slots, k));
      }
    }
    slots.out_adapter = adapter(out, q, h);
    slots.out_weight = slot(out + ".weight", {h, q});
    slots.out_bias = slot(out + ".bias", {h}, true);
    slots.q_norm = head_norm("q_norm.weight", q, slots.head_dim);
    slots.k_norm = head_norm("k_norm.weight", width_of(slots, 1), slots.head_dim);
  }

  // Phi-3's: rows of one matrix.
  void take_rows(AttentionSlots& slots, std::int64_t q, std::int64_t kv) {
    const std::int64_t h = plan_.shape.width;
    const Slot whole = slot("qkv_proj.weight", {q + 2 * kv, h});
    const AdapterSlots beside = adapter("qkv_proj", h, q + 2 * kv);
    const std::int64_t first[] = {0, q, q + kv};
    for (std::size_t k = 0; k < 3; ++k) {
      const std::int64_t rows = k == 0 ? q : kv;
      slots.weight[k] = whole.part(first[k] * h, rows * h);
      slots.adapter[k] = beside.rows(first[k], rows);
    }
  }

  HeadNormSlots head_norm(const char* name, std::int64_t all, std::int64_t head_dim) {
    const Mathematics& m = model_.mathematics;
    HeadNormSlots out{.epsilon = static_cast<float>(model_.norm_epsilon),
                      .wide = m.wide_head_norms,
                      .about_one = m.norms_about_one};
    out.weight = slot(name, {m.wide_head_norms ? all : head_dim}, true);
    return out;
  }

  void set_scores(AttentionSlots& slots) const {
    const Mathematics& m = model_.mathematics;
    const std::int64_t block = block_of(id_);
    const auto place = static_cast<std::size_t>(block);
    const bool full = place < m.full_attention.size() && m.full_attention[place];
    slots.cap = static_cast<float>(m.score_cap);
    const bool narrow = model_.sliding_window > 0 && plan_.shape.places() > model_.sliding_window;
    if (narrow && !full) slots.window = model_.sliding_window;
    if (m.score_width > 0) slots.scale = 1.0F / std::sqrt(static_cast<float>(m.score_width));
    if (m.scores_scaled && !m.scores_scaled_by_block) return;
    slots.scale = m.scores_scaled ? 1.0F / std::sqrt(static_cast<float>(slots.head_dim)) : 1.0F;
    if (m.scores_scaled_by_block) slots.scale /= static_cast<float>(block + 1);
  }

  // One table for all layers, or one for those with a window and one for the others.
  void take_rotary(AttentionSlots& slots) {
    const Mathematics& m = model_.mathematics;
    const auto block = static_cast<std::size_t>(block_of(id_));
    if (block < m.unrotated.size() && m.unrotated[block]) return;
    const bool windowed =
        m.window_rotary.has_value() && block < m.full_attention.size() && !m.full_attention[block];
    const RotaryEmbedding& rotary = windowed ? *m.window_rotary : model_.rotary;
    const std::int64_t rotated = kernels::rotated_dim(rotary, slots.head_dim);
    if (rotated % 2 != 0 || rotated == 0) {
      return taker_.fail(
          unsupported(model_.module(id_), "of odd head_dim, or rotates an odd part of it"));
    }
    if (plan_.rotary.half == 0) {
      plan_.rotary = kernels::rotary_table(model_.rotary, slots.head_dim, plan_.shape.places());
      if (m.window_rotary) {
        plan_.window_rotary =
            kernels::rotary_table(*m.window_rotary, slots.head_dim, plan_.shape.places());
      }
    }
    slots.rotary_half = rotated / 2;
    slots.rotary_at = windowed ? 2 * plan_.rotary.numel() : 0;
  }

  RepeatedNorm norm_before(std::size_t k) const {
    return k > 0 ? repeated_norm(model_, plan_.shape, k - 1) : RepeatedNorm{};
  }

  MlpSlots mlp_slots(std::size_t k, Activation of_class) {
    return {.activation = model_.mathematics.activation.value_or(of_class),
            .out_dropout = dropout(model_.mathematics.residual_dropout, 1),
            .branch = branch(true),
            .norm = norm_before(k)};
  }

  // GPT-2's matrices are [in, out], those of GPT-NeoX [out, in].
  MadeLayer plain_mlp_of(std::size_t k, bool gpt2) {
    const std::int64_t h = plan_.shape.width;
    const std::string up = gpt2 ? "c_fc" : "dense_h_to_4h";
    const std::string down = gpt2 ? "c_proj" : "dense_4h_to_h";
    MlpSlots slots = mlp_slots(k, gpt2 ? Activation::gelu_tanh : Activation::gelu);
    using Sizes = std::vector<std::int64_t>;
    slots.out_in = !gpt2;
    slots.up_weight = slot(up + ".weight", gpt2 ? Sizes{h, any} : Sizes{any, h});
    const std::int64_t inner = slots.up_weight.numel / h;
    slots.inner = inner;
    slots.up_bias = slot(up + ".bias", {inner});
    slots.down_weight = slot(down + ".weight", gpt2 ? Sizes{inner, h} : Sizes{h, inner});
    slots.down_bias = slot(down + ".bias", {h});
    slots.up_adapter = adapter(up, h, inner);
    slots.down_adapter = adapter(down, inner, h);
    TESSERA_TRY(taker_.status());
    return plain_mlp(plan_.math(), plan_.shape, slots);
  }

  MadeLayer gated_mlp_of(std::size_t k) {
    const std::int64_t h = plan_.shape.width;
    MlpSlots slots = mlp_slots(k, Activation::silu);
    if (taker_.has("gate_up_proj.weight")) {
      const Slot both = slot("gate_up_proj.weight", {any, h});
      slots.inner = both.numel / h / 2;
      slots.gate_weight = both.part(0, slots.inner * h);
      slots.up_weight = both.part(slots.inner * h, slots.inner * h);
      const AdapterSlots beside = adapter("gate_up_proj", h, 2 * slots.inner);
      slots.gate_adapter = beside.rows(0, slots.inner);
      slots.up_adapter = beside.rows(slots.inner, slots.inner);
    } else {
      slots.gate_weight = slot("gate_proj.weight", {any, h});
      slots.inner = slots.gate_weight.numel / h;
      slots.gate_bias = slot("gate_proj.bias", {slots.inner}, true);
      slots.up_weight = slot("up_proj.weight", {slots.inner, h});
      slots.up_bias = slot("up_proj.bias", {slots.inner}, true);
      slots.gate_adapter = adapter("gate_proj", h, slots.inner);
      slots.up_adapter = adapter("up_proj", h, slots.inner);
    }
    slots.down_weight = slot("down_proj.weight", {h, slots.inner});
    slots.down_bias = slot("down_proj.bias", {h}, true);
    slots.down_adapter = adapter("down_proj", slots.inner, h);
    TESSERA_TRY(taker_.status());
    return gated_mlp(plan_.math(), plan_.shape, slots);
  }

  MadeLayer head_of() {
    HeadSlots slots{.vocabulary = plan_.vocabulary, .cap = plan_.logit_cap};
    slots.weight = slot("weight", {plan_.vocabulary, plan_.shape.width});
    TESSERA_TRY(taker_.status());
    return head(plan_.math(), plan_.shape, slots);
  }

  DropoutSlots dropout(float share, std::int32_t operation) const {
    return taker_.dropout(share, operation);
  }
  AdapterSlots adapter(const std::string& name, std::int64_t in, std::int64_t out) {
    return taker_.adapter(name, in, out);
  }
  Slot slot(const std::string& name, const std::vector<std::int64_t>& shape,
            bool optional = false) {
    return taker_.slot(name, shape, optional);
  }

  static constexpr std::int64_t any = SlotTaker::any;

  const Model& model_;
  Plan& plan_;
  const std::vector<std::vector<ParameterId>> used_;
  const GradientFlow flow_;
  SlotTaker taker_;
  ModuleId id_;
};

}  // namespace

Result<std::unique_ptr<Plan>> Plan::make(const Model& model, const Shape& shape) {
  auto plan = std::make_unique<Plan>(shape);
  TESSERA_TRY(Planner(model, *plan).make());
  return plan;
}

}  // namespace tessera::language
