// SPDX-License-Identifier: Apache-2.0
// GPT-2: names as in the published checkpoint, which has no "transformer." prefix and stores
// projections as Conv1D, [in, out].
#include <fmt/format.h>

#include "engine/model/config_keys.h"
#include "engine/model/hugging_face.h"
#include "engine/model/tree_builder.h"

namespace tessera {
namespace {

struct Dimensions {
  std::int64_t vocabulary, positions, hidden, layers, heads, inner;
  bool tied;
  double epsilon;
};

class Gpt2Builder {
 public:
  Gpt2Builder(const Dimensions& d, const std::string& name, DType dtype)
      : d_(d), tree_(name, "GPT2LMHeadModel", dtype) {}

  Model build() {
    tree_.model().sequence_length_max = d_.positions;
    tree_.model().attention_heads = d_.heads;
    tree_.model().head_dim = d_.hidden / d_.heads;
    tree_.model().norm_epsilon = d_.epsilon;
    const double h = static_cast<double>(d_.hidden);
    runs(tree_.leaf("wte", "Embedding", {d_.vocabulary, d_.hidden}),
         {.elementwise_bytes = per_token(2 * element * h), .activation_bytes = per_token(8)});
    runs(tree_.leaf("wpe", "Embedding", {d_.positions, d_.hidden}),
         {.elementwise_bytes = per_token(3 * element * h), .activation_bytes = per_token(8)});
    tree_.open("h", "ModuleList");
    for (std::int64_t layer = 0; layer < d_.layers; ++layer) block(layer);
    tree_.close();
    norm("ln_f");
    head();
    return tree_.take();
  }

 private:
  void runs(ModuleId id, const ModuleCost& cost) {
    tree_.module(id).cost = cost;
    tree_.model().forward.push_back(id);
  }

  void norm(const std::string& name) {
    const double h = static_cast<double>(d_.hidden);
    const ModuleId id = tree_.open(name, "LayerNorm");
    tree_.parameter("weight", {d_.hidden});
    tree_.parameter("bias", {d_.hidden});
    tree_.close();
    runs(id, {.elementwise_bytes = per_token(2 * element * h),
              .activation_bytes = per_token(element * h + 8)});  // input, mean, deviation
  }

  void conv1d(const std::string& name, std::int64_t in, std::int64_t out) {
    tree_.open(name, "Conv1D");
    tree_.parameter("weight", {in, out});
    tree_.parameter("bias", {out});
    tree_.close();
  }

  void block(std::int64_t layer) {
    const double h = static_cast<double>(d_.hidden);
    const double f = static_cast<double>(d_.inner);
    const ModuleId id = tree_.open(std::to_string(layer), "GPT2Block");
    tree_.module(id).is_block = true;
    tree_.module(id).checkpoint_bytes = per_token(element * h);
    norm("ln_1");
    const ModuleId attention = tree_.open("attn", "GPT2Attention");
    conv1d("c_attn", d_.hidden, 3 * d_.hidden);
    conv1d("c_proj", d_.hidden, d_.hidden);
    tree_.close();
    runs(attention,
         {.matmul_flops = per_token(8 * h * h),
          .attention_flops = {0, 0, 4 * h},
          .elementwise_bytes = per_token(element * 4 * h),  // dropout, residual sum
          // Input, q, k, v, output of attention, dropout mask, log-sum-exp.
          .activation_bytes = per_token(element * 5 * h + h + 4 * static_cast<double>(d_.heads)),
          .kernels = 6,
          .linears = {{d_.hidden, 3 * d_.hidden}, {d_.hidden, d_.hidden}},
          .attention = {d_.heads, d_.heads, d_.hidden / d_.heads},
          .dropout = h});
    norm("ln_2");
    const ModuleId mlp = tree_.open("mlp", "GPT2MLP");
    conv1d("c_fc", d_.hidden, d_.inner);
    conv1d("c_proj", d_.inner, d_.hidden);
    tree_.close();
    runs(mlp, {.matmul_flops = per_token(4 * h * f),
               .attention_flops = {},
               .elementwise_bytes = per_token(element * (2 * f + 4 * h)),  // GELU, dropout, sum
               .activation_bytes = per_token(element * (h + 2 * f) + h),
               .kernels = 5,
               .linears = {{d_.hidden, d_.inner}, {d_.inner, d_.hidden}},
               .dropout = h});
    tree_.close();
  }

  void head() {
    const double h = static_cast<double>(d_.hidden);
    const auto v = static_cast<double>(d_.vocabulary);
    const ModuleId id = tree_.open("lm_head", "Linear");
    if (d_.tied) {
      tree_.model().ties.push_back({"lm_head.weight", tree_.model().find_parameter("wte.weight")});
    } else {
      tree_.parameter("weight", {d_.vocabulary, d_.hidden});
    }
    tree_.close();
    runs(id, {.matmul_flops = per_token(2 * h * v),
              .attention_flops = {},
              .elementwise_bytes = per_token((2 + 4 + 4 + 4) * v),
              .activation_bytes = per_token(element * h + 6 * v),
              .kernels = 4,
              .linears = {{d_.hidden, d_.vocabulary}},
              .logits = v});
  }

  const Dimensions d_;
  TreeBuilder tree_;
};

}  // namespace

Result<Model> gpt2_model(JsonReader& config, const std::string& name) {
  Dimensions d;
  d.vocabulary = config.integer("vocab_size", 1, 50257);
  d.positions = config.integer("n_positions", 1, 1024);
  d.hidden = config.integer("n_embd", 1, 768);
  d.layers = config.integer("n_layer", 1, 12);
  d.heads = config.integer("n_head", 1, 12);
  d.inner = config.integer("n_inner", 1, 4 * d.hidden);
  d.tied = config.boolean("tie_word_embeddings", true);
  d.epsilon = config.positive("layer_norm_epsilon", 1e-5);
  const DType dtype = config_dtype(config);
  if (d.layers > 100'000) config.fail("n_layer", fmt::format("is {}, more than 100000", d.layers));
  if (d.hidden % d.heads != 0) {
    config.fail("n_embd", fmt::format("{} is not a multiple of n_head {}", d.hidden, d.heads));
  }
  Mathematics mathematics = read_mathematics(config, "gpt2", d.layers);
  TESSERA_TRY(config.status());
  Model model = Gpt2Builder(d, name, dtype).build();
  model.mathematics = std::move(mathematics);
  TESSERA_TRY(check_size(model, config.source()));
  return model;
}

}  // namespace tessera
