// SPDX-License-Identifier: Apache-2.0
// The language model of Gemma 4: blocks of two widths of heads, of which the last ones read keys
// and values of others; an embedding for every block; experts beside the MLP.
#include <fmt/format.h>

#include <algorithm>

#include "engine/architectures/encoder_parts.h"

namespace tessera {
namespace {

struct BlockHeads {
  std::int64_t key_value_heads, head_dim;
  bool full;  // attends to all tokens
};

struct Gemma4Sizes {
  std::int64_t vocabulary, hidden, inner, layers, heads, window, positions;
  std::int64_t shared;                 // blocks at the end without keys and values of their own
  std::int64_t each, each_vocabulary;  // width and rows of the embedding for every block
  std::int64_t experts = 0, per_token = 0, expert_inner = 0;
  std::vector<BlockHeads> blocks = {};
  bool bias, keys_are_values, wide_at_end, tied, capped, causal;
  bool last_changed = false;  // which layer_types says has a window
};

// Each sixth block attends to all, unless `layer_types` says which; the last one always does.
std::vector<bool> full_blocks(JsonReader& config, std::int64_t layers, bool& changed) {
  std::vector<bool> full;
  for (std::int64_t k = 0; k < layers; ++k) full.push_back((k + 1) % 6 == 0);
  read_full_blocks(config, full);
  changed = config.has("layer_types") && !full.back();
  full.back() = true;
  return full;
}

// What a saved file says of single blocks, instead of the two keys for all blocks with full
// attention.
void read_single_blocks(JsonReader& config, Gemma4Sizes& s) {
  const nlohmann::json& all = config.json()["per_layer_config"];
  if (!all.is_object()) return config.fail("per_layer_config", "must be an object {...}");
  for (const auto& [number, said] : all.items()) {
    const std::string where = fmt::format("per_layer_config.{}", in_quotes(number));
    const bool numeral = !number.empty() && number.size() < 7 &&
                         number.find_first_not_of("0123456789") == std::string::npos;
    const std::size_t k = numeral ? std::stoul(number) : s.blocks.size();
    if (k >= s.blocks.size()) {
      return config.fail(where, fmt::format("must be a block from 0 to {}", s.layers - 1));
    }
    JsonReader block(said, config.source() + ": " + where);
    if (!said.is_object()) return config.fail(where, "must be an object {...}");
    block.only({"head_dim", "num_key_value_heads"});
    s.blocks[k].head_dim = block.integer("head_dim", 1, s.blocks[k].head_dim);
    s.blocks[k].key_value_heads =
        block.integer("num_key_value_heads", 1, s.blocks[k].key_value_heads);
    config.adopt(block);
  }
}

void check_blocks(JsonReader& config, const Gemma4Sizes& s) {
  for (const BlockHeads& block : s.blocks) {
    if (s.heads % block.key_value_heads != 0) {
      config.fail("num_attention_heads", fmt::format("{} is not a multiple of {} heads of keys",
                                                     s.heads, block.key_value_heads));
    }
    check_heads_width(config, "head_dim", block.head_dim, "num_attention_heads", s.heads);
    if (block.head_dim % 2 != 0) {
      config.fail("head_dim", fmt::format("is {}: heads are rotated by pairs of elements, so it "
                                          "must be even",
                                          block.head_dim));
    }
  }
  if (s.shared == 0 || !config.status().ok()) return;
  const auto own = s.blocks.end() - std::min(s.shared, s.layers);
  for (const bool full : {true, false}) {
    const auto is = [&](const BlockHeads& block) { return block.full == full; };
    if (std::any_of(own, s.blocks.end(), is) && std::none_of(s.blocks.begin(), own, is)) {
      config.fail("num_kv_shared_layers",
                  fmt::format("is {}: no block before these has keys and values for all of them",
                              s.shared));
    }
  }
}

void read_experts(JsonReader& config, Gemma4Sizes& s) {
  if (!config.boolean("enable_moe_block", false)) {
    for (const char* key : {"num_experts", "top_k_experts", "moe_intermediate_size"}) {
      config.integer(key, 1, 1);
    }
    return;
  }
  constexpr std::int64_t most = 1'000'000;
  s.experts = config.integer("num_experts", 1);
  s.per_token = config.integer("top_k_experts", 1);
  s.expert_inner = config.integer("moe_intermediate_size", 1);
  if (s.experts > most) config.fail("num_experts", fmt::format("is {}", s.experts));
  if (s.per_token > s.experts) {
    config.fail("top_k_experts",
                fmt::format("{} is more than num_experts {}", s.per_token, s.experts));
  }
}

Gemma4Sizes read_gemma4(JsonReader& config) {
  Gemma4Sizes s{};
  s.vocabulary = config.integer("vocab_size", 1, 262144);
  s.hidden = config.integer("hidden_size", 1, 2304);
  s.inner = config.integer("intermediate_size", 1, 9216);
  s.layers = blocks_of(config, "num_hidden_layers", 30);
  s.heads = config.integer("num_attention_heads", 1, 8);
  s.positions = config.integer("max_position_embeddings", 1, 131072);
  s.each = config.integer("hidden_size_per_layer_input", 0, 256);
  s.each_vocabulary = config.integer("vocab_size_per_layer_input", 1, 262144);
  s.shared = config.integer("num_kv_shared_layers", 0, 0);
  for (const auto& [key, size] : {std::pair{"intermediate_size", s.inner},
                                  {"hidden_size", s.hidden},
                                  {"hidden_size_per_layer_input", s.each},
                                  {"num_attention_heads", s.heads},
                                  {"num_kv_shared_layers", s.shared}}) {
    if (size > width_max / 100'000)
      config.fail(key, fmt::format("is {}, which is too large", size));
  }
  s.keys_are_values = config.boolean("attention_k_eq_v", false);
  s.wide_at_end = config.boolean("use_double_wide_mlp", false);
  s.bias = config.boolean("attention_bias", false);
  s.tied = config.boolean("tie_word_embeddings", true);
  s.capped = config.has("final_logit_softcapping");
  if (s.capped) config.positive("final_logit_softcapping", 30);
  s.window = config.integer("sliding_window", 1, 512);
  const std::string both = config.text("use_bidirectional_attention", "");
  if (!both.empty() && both != "all" && both != "vision") {
    config.fail("use_bidirectional_attention", "must be null, \"all\" or \"vision\"");
  }
  s.causal = both != "all";
  const std::int64_t few = config.integer("num_key_value_heads", 1, 4);
  const std::int64_t narrow = config.integer("head_dim", 1, 256);
  const std::int64_t wide = config.integer("global_head_dim", 1, 512);
  const std::int64_t global = config.integer("num_global_key_value_heads", 1, few);
  const bool single = config.has("per_layer_config");
  for (const bool full : full_blocks(config, s.layers, s.last_changed)) {
    const bool other = full && !single;
    s.blocks.push_back({other && s.keys_are_values ? global : few, other ? wide : narrow, full});
  }
  if (single) read_single_blocks(config, s);
  read_experts(config, s);
  check_blocks(config, s);
  return s;
}

class Gemma4Builder {
 public:
  Gemma4Builder(const Gemma4Sizes& sizes, const std::string& head, std::int64_t,
                const std::string& name, DType dtype)
      : s_(sizes),
        causal_lm_(head == "ForCausalLM"),
        base_(causal_lm_ ? "model." : ""),
        w_(name, causal_lm_ ? "Gemma4ForCausalLM" : "Gemma4TextModel", "Gemma4", dtype) {}

  Model build() {
    describe_encoder(w_.model(), s_.positions, s_.heads, s_.heads * s_.blocks[0].head_dim);
    w_.model().key_value_heads = s_.blocks[0].key_value_heads;
    w_.container("model", "Gemma4TextModel");
    w_.runs(w_.embedding(base_ + "embed_tokens", s_.vocabulary, s_.hidden, false, true));
    const auto place = static_cast<std::ptrdiff_t>(w_.model().forward.size());
    for (std::int64_t k = 0; k < s_.layers; ++k) block(k);
    w_.runs(w_.norm(base_ + "norm", NormKind::rms, s_.hidden));
    if (s_.each > 0) inputs_of_blocks(place);
    if (causal_lm_) {
      w_.runs(w_.head("lm_head", s_.hidden, s_.vocabulary,
                      s_.tied ? "model.embed_tokens.weight" : "", false, s_.capped));
    }
    return w_.take();
  }

 private:
  ModuleCost& cost(ModuleId id) { return w_.tree().module(id).cost; }

  // Registered behind the blocks, and run before them.
  void inputs_of_blocks(std::ptrdiff_t place) {
    const std::int64_t all = s_.layers * s_.each;
    const std::string at = base_ + "per_layer_";
    const std::vector<ModuleId> ids = {
        w_.embedding(base_ + "embed_tokens_per_layer", s_.each_vocabulary, all, false, true),
        w_.linear(at + "model_projection", s_.hidden, all, false),
        w_.norm(at + "projection_norm", NormKind::rms, s_.each)};
    const auto layers = static_cast<double>(s_.layers);
    ModuleCost& norm = cost(ids[2]);  // one for each block
    norm.activation_bytes.linear *= layers;
    norm.elementwise_bytes.linear *= layers;
    auto& forward = w_.model().forward;
    forward.insert(forward.begin() + place, ids.begin(), ids.end());
  }

  bool shares(std::int64_t k) const { return k >= s_.layers - s_.shared; }

  ModuleId attention(const std::string& path, std::int64_t k) {
    const BlockHeads& heads = s_.blocks[static_cast<std::size_t>(k)];
    const bool one = s_.keys_are_values && heads.full;
    std::string weights = "q_proj:q q_norm:qn";
    if (!shares(k)) {
      weights += std::string(" k_norm:kn k_proj:k") + (one ? "" : " v_proj:v");
    }
    const ModuleId id = w_.attention(path + ".self_attn",
                                     {.class_name = "Gemma4TextAttention",
                                      .weights = weights + " o_proj:o",
                                      .biases = s_.bias ? "q k v o" : "",
                                      .heads = s_.heads,
                                      .key_value_heads = heads.key_value_heads,
                                      .head_dim = heads.head_dim,
                                      .causal = s_.causal},
                                     s_.hidden, false, false);
    const auto kv = static_cast<double>(heads.key_value_heads * heads.head_dim);
    const auto rows = 4 * static_cast<double>(heads.key_value_heads);
    if (shares(k)) {  // keys and values, and what their norms read, are another block's
      cost(id).activation_bytes.linear -= 3 * element * kv + rows;
    } else {  // values have a norm without a weight
      cost(id).activation_bytes.linear += (one ? 0 : element * kv) + rows;
      cost(id).elementwise_bytes.linear += 2 * element * kv;
    }
    if (!heads.full) cost(id).attention.window = s_.causal ? s_.window : s_.window / 2 + 1;
    return id;
  }

  // Each adds what its own embedding says.
  std::vector<ModuleId> own_input(const std::string& path) {
    const auto p = static_cast<double>(s_.each);
    const ModuleId gate = w_.linear(path + ".per_layer_input_gate", s_.hidden, s_.each, false);
    // The activation and the product with the block's input.
    cost(gate).activation_bytes.linear += 3 * element * p;
    cost(gate).elementwise_bytes.linear += 5 * element * p;
    return {gate, w_.linear(path + ".per_layer_projection", s_.each, s_.hidden, false),
            w_.norm(path + ".post_per_layer_input_norm", NormKind::rms, s_.hidden)};
  }

  std::vector<ModuleId> routed(const std::string& path) {
    const ExpertsPart part{
        .count = s_.experts, .per_token = s_.per_token, .inner = s_.expert_inner, .fused = true};
    const auto h = static_cast<double>(s_.hidden);
    w_.container("router", "Gemma4TextRouter");
    w_.container("experts", "Gemma4TextExperts");
    w_.enter(path + ".router");
    TreeBuilder& tree = w_.tree();
    tree.parameter("scale", {s_.hidden});
    tree.parameter("per_expert_scale", {s_.experts});
    tree.linear("proj", s_.hidden, s_.experts, false);
    const ModuleId router = w_.model().find_module(path + ".router");
    cost(router).activation_bytes =
        per_token(2 * element * h + 8 * static_cast<double>(s_.experts));
    cost(router).elementwise_bytes = per_token(5 * element * h);
    w_.enter(path + ".experts");
    tree.parameter("gate_up_proj", {s_.experts, 2 * s_.expert_inner, s_.hidden});
    tree.parameter("down_proj", {s_.experts, s_.hidden, s_.expert_inner});
    const ModuleId experts = w_.model().find_module(path + ".experts");
    cost(experts) = experts_cost(part, s_.hidden);
    const auto norm = [&](const char* name) {
      return w_.norm(path + "." + name, NormKind::rms, s_.hidden);
    };
    const ModuleId behind = norm("post_feedforward_layernorm_1");
    const ModuleId last = norm("post_feedforward_layernorm_2");
    const ModuleId before = norm("pre_feedforward_layernorm_2");
    return {behind, router, before, experts, last};
  }

  void block(std::int64_t k) {
    const std::string path = base_ + "layers." + std::to_string(k);
    w_.begin_block(path, "Gemma4TextDecoderLayer", s_.hidden);
    const ModuleId self = attention(path, k);
    const std::int64_t inner = s_.inner * (s_.wide_at_end && shares(k) ? 2 : 1);
    const ModuleId mlp = w_.mlp(path + ".mlp", {.class_name = "Gemma4TextMLP", .inner = inner},
                                s_.hidden, false, false);
    std::vector<ModuleId> norms;
    for (const char* name : {"input_layernorm", "post_attention_layernorm",
                             "pre_feedforward_layernorm", "post_feedforward_layernorm"}) {
      norms.push_back(w_.norm(path + "." + name, NormKind::rms, s_.hidden));
    }
    const auto own = s_.each > 0 ? own_input(path) : std::vector<ModuleId>();
    const auto experts = s_.experts > 0 ? routed(path) : std::vector<ModuleId>();
    for (const ModuleId id : {norms[0], self, norms[1], norms[2], mlp}) w_.runs(id);
    for (const ModuleId id : experts) w_.runs(id);
    w_.runs(norms[3]);
    for (const ModuleId id : own) w_.runs(id);
  }

  const Gemma4Sizes s_;
  const bool causal_lm_;
  const std::string base_;
  PartWriter w_;
};

}  // namespace

Result<Model> gemma4_model(JsonReader& config, const std::string& head, const std::string& name) {
  const Gemma4Sizes sizes = read_gemma4(config);
  TESSERA_ASSIGN(Model model, built<Gemma4Builder>(config, head, name, sizes));
  if (sizes.last_changed) {
    model.warnings.push_back(
        "the last of layer_types is taken as full_attention, as transformers does");
  }
  return model;
}

}  // namespace tessera
