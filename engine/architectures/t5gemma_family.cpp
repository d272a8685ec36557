// SPDX-License-Identifier: Apache-2.0
// T5Gemma (arXiv 2504.06225): blocks of Gemma 2 as an encoder and a decoder, each of its own size.
#include <fmt/format.h>

#include "engine/architectures/config_check.h"
#include "engine/architectures/encoder_parts.h"

namespace tessera {
namespace {

constexpr const char* part_type = "t5_gemma_module";

struct GemmaHalf {
  std::int64_t vocabulary, hidden, inner, layers, heads, key_value_heads, head_dim, positions;
  std::vector<std::int64_t> windows = {};  // by block, 0: none
  bool bias, capped;
};

// Every second block attends to all, unless `layer_types` says which.
void read_windows(JsonReader& config, GemmaHalf& s) {
  const bool null = config.json().contains("sliding_window") && !config.has("sliding_window");
  const std::int64_t width = null ? 0 : config.integer("sliding_window", 1, 4096);
  std::vector<bool> full;
  for (std::int64_t k = 0; k < s.layers; ++k) full.push_back(k % 2 != 0);
  read_full_blocks(config, full);
  for (const bool all : full) s.windows.push_back(all ? 0 : width);
}

GemmaHalf read_half(JsonReader& config) {
  GemmaHalf s{};
  s.vocabulary = config.integer("vocab_size", 1, 256000);
  s.hidden = config.integer("hidden_size", 1, 2304);
  s.inner = config.integer("intermediate_size", 1, 9216);
  s.layers = blocks_of(config, "num_hidden_layers", 26);
  s.heads = heads_of(config, "num_attention_heads", 8, "hidden_size", s.hidden);
  s.key_value_heads = config.integer("num_key_value_heads", 1, 4);
  s.head_dim = config.integer("head_dim", 1, 256);
  s.positions = config.integer("max_position_embeddings", 1, 8192);
  s.bias = config.boolean("attention_bias", false);
  const auto there = [&](const char* key) {
    return !config.json().contains(key) || config.has(key);
  };
  s.capped = there("final_logit_softcapping");
  if (s.heads % s.key_value_heads != 0) {
    config.fail("num_attention_heads", fmt::format("{} is not a multiple of num_key_value_heads {}",
                                                   s.heads, s.key_value_heads));
  }
  check_heads_width(config, "head_dim", s.head_dim, "num_attention_heads", s.heads);
  if (s.head_dim % 2 != 0) {
    config.fail("head_dim",
                fmt::format("is {}: heads are rotated by pairs of elements, so it must be even",
                            s.head_dim));
  }
  read_windows(config, s);
  return s;
}

class T5GemmaBuilder {
 public:
  T5GemmaBuilder(const GemmaHalf* halves, bool decodes, bool dropout, bool tied,
                 const std::string& head, std::int64_t labels, const std::string& name, DType dtype)
      : halves_(halves),
        decodes_(decodes),
        dropout_(dropout),
        tied_(tied),
        head_(head),
        labels_(labels),
        base_(head == "Model" || head == "EncoderModel" ? "" : "model."),
        w_(name, "T5Gemma" + head, "T5Gemma", dtype) {}

  Model build() {
    const GemmaHalf& last = halves_[decodes_ ? 1 : 0];
    Model& model = w_.model();
    describe_encoder(model, last.positions, last.heads, last.heads * last.head_dim);
    model.key_value_heads = last.key_value_heads;
    w_.container("model", decodes_ ? "T5GemmaModel" : "T5GemmaEncoderModel");
    w_.container(base_ + "encoder", "T5GemmaEncoder");
    w_.container(base_ + "decoder", "T5GemmaDecoder");
    w_.container("lm_head", "T5GemmaLMHead");
    w_.container("score", "T5GemmaClassificationHead");
    stack(base_ + "encoder", 0);
    if (decodes_) stack(base_ + "decoder", 1);
    if (head_ == "ForConditionalGeneration") {
      w_.runs(w_.head("lm_head.out_proj", last.hidden, last.vocabulary,
                      tied_ ? "model.decoder.embed_tokens.weight" : "", false, last.capped));
    } else if (!base_.empty()) {
      w_.runs(w_.linear("score.out_proj", last.hidden, labels_, true));
    }
    return w_.take();
  }

 private:
  ModuleCost& cost(ModuleId id) { return w_.tree().module(id).cost; }

  ModuleId norm(const std::string& path, int side) {
    return w_.norm(path, NormKind::rms, halves_[side].hidden);
  }

  ModuleId attention(const std::string& path, int side, bool cross, std::int64_t window) {
    const GemmaHalf& s = halves_[side];
    const AttentionPart part{.class_name = cross ? "T5GemmaCrossAttention" : "T5GemmaSelfAttention",
                             .biases = s.bias ? "q k v o" : "",
                             .heads = s.heads,
                             .key_value_heads = s.key_value_heads,
                             .head_dim = s.head_dim,
                             .source = cross ? halves_[0].hidden : 0,
                             .rotary = !cross,
                             .causal = side == 1 && !cross};
    const ModuleId id = w_.attention(path, part, s.hidden, false, dropout_);
    cost(id).attention.window = side == 1 || window == 0 ? window : window / 2 + 1;
    return id;
  }

  void block(const std::string& path, int side, std::int64_t window) {
    const GemmaHalf& s = halves_[side];
    w_.begin_block(path, side == 1 ? "T5GemmaDecoderLayer" : "T5GemmaEncoderLayer", s.hidden);
    std::vector<ModuleId> runs(3);
    runs[1] = attention(path + ".self_attn", side, false, window);
    runs[0] = norm(path + ".pre_self_attn_layernorm", side);
    runs[2] = norm(path + ".post_self_attn_layernorm", side);
    const ModuleId mlp = w_.mlp(path + ".mlp", {.inner = s.inner}, s.hidden, false, dropout_);
    const ModuleId before = norm(path + ".pre_feedforward_layernorm", side);
    const ModuleId behind = norm(path + ".post_feedforward_layernorm", side);
    if (side == 1) {
      const ModuleId cross = attention(path + ".cross_attn", side, true, 0);
      const ModuleId first = norm(path + ".pre_cross_attn_layernorm", side);
      const ModuleId last = norm(path + ".post_cross_attn_layernorm", side);
      runs.insert(runs.end(), {first, cross, last});
    }
    runs.insert(runs.end(), {before, mlp, behind});
    for (const ModuleId id : runs) w_.runs(id);
  }

  void stack(const std::string& path, int side) {
    const GemmaHalf& s = halves_[side];
    w_.runs(w_.embedding(path + ".embed_tokens", s.vocabulary, s.hidden, false, true));
    const ModuleId last = norm(path + ".norm", side);  // registered in front of the blocks
    for (std::int64_t k = 0; k < s.layers; ++k) {
      block(path + ".layers." + std::to_string(k), side, s.windows[static_cast<std::size_t>(k)]);
    }
    w_.runs(last);
  }

  const GemmaHalf* const halves_;  // encoder, decoder
  const bool decodes_, dropout_, tied_;
  const std::string head_;
  const std::int64_t labels_;
  const std::string base_;
  PartWriter w_;
};

// What the outer file or the encoder decides, whatever a half says.
void check_decided(JsonReader& half, const char* key, double decided, const char* by) {
  if (!half.has(key)) return;
  const nlohmann::json& said = half.json()[key];
  if (said.is_number() && said.get<double>() == decided) return;
  half.fail(key, fmt::format("is {}, but {} decides, which is {}: leave it out", shown_value(said),
                             by, decided));
}

// The object at `key`, whose defaults are those of 2B.
Result<nlohmann::json> half_at(const JsonReader& config, const char* key) {
  const std::string where = config.source() + ": " + key;
  if (!config.has(key)) return nlohmann::json::object();
  const nlohmann::json& half = config.json()[key];
  if (!half.is_object()) {
    return Status(Code::invalid_argument, fmt::format("{} must be an object {{...}}", where));
  }
  const nlohmann::json type = half.value("model_type", nlohmann::json(part_type));
  if (type == part_type) return half;
  return Status(Code::invalid_argument, fmt::format("{}.model_type must be {}, found {}", where,
                                                    part_type, shown_value(type)));
}

// With a decoder unless the class or the file says that there is none.
bool has_decoder(JsonReader& config, const std::string& head) {
  const bool said = config.boolean("is_encoder_decoder", true);
  const bool alone = head == "EncoderModel";
  const bool free = head == "ForSequenceClassification" || head == "ForTokenClassification";
  if (alone && said) {
    config.fail("is_encoder_decoder", "must be false: this class is an encoder alone");
  }
  if (head == "Model" && !said) {
    config.fail("is_encoder_decoder", "is false: that is the class T5GemmaEncoderModel");
  }
  return free ? said : !alone;
}

}  // namespace

Result<Model> t5gemma_model(JsonReader& config, const std::string& head, const std::string& name) {
  TESSERA_ASSIGN(const nlohmann::json encoder, half_at(config, "encoder"));
  TESSERA_ASSIGN(const nlohmann::json decoder, half_at(config, "decoder"));
  JsonReader readers[] = {{encoder, config.source() + ": encoder"},
                          {decoder, config.source() + ": decoder"}};
  GemmaHalf halves[2];
  for (int side = 0; side < 2; ++side) {
    readers[side].take_null_as_false();
    check_activations(readers[side], part_type);
    check_numbers(readers[side], part_type);
    TESSERA_TRY(readers[side].status());
    halves[side] = read_half(readers[side]);
    TESSERA_TRY(readers[side].status());
  }
  const bool decodes = has_decoder(config, head);
  const double dropped = probability_of(config, "dropout_rate", 0);
  for (JsonReader& half : readers) check_decided(half, "dropout_rate", dropped, "dropout_rate");
  check_decided(readers[1], "cross_attention_hidden_size", static_cast<double>(halves[0].hidden),
                "encoder.hidden_size");
  const bool tied = config.boolean("tie_word_embeddings", true);
  const std::int64_t words = config.integer("vocab_size", 1, halves[1].vocabulary);
  const std::int64_t labels = labels_of(config);
  const DType dtype = encoder_dtype(config);
  TESSERA_TRY(config.status());
  for (const JsonReader& half : readers) TESSERA_TRY(half.status());
  Model model =
      T5GemmaBuilder(halves, decodes, dropped > 0, tied, head, labels, name, dtype).build();
  for (JsonReader& half : readers) {
    TESSERA_TRY(check_keys_read(half, part_type, false, model));
  }
  if (words != halves[1].vocabulary) {
    model.warnings.push_back(
        fmt::format("vocab_size {} is ignored: encoder and decoder have their own, {} and {}",
                    words, halves[0].vocabulary, halves[1].vocabulary));
  }
  add_note(model, fused_if_asked_note("t5gemma", halves[0].heads));
  return checked(std::move(model), config);
}

}  // namespace tessera
