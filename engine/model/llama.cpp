// SPDX-License-Identifier: Apache-2.0
// The Llama family: names and order of modules as in transformers, costs per sequence.
//
// Activations are the tensors that an eager bf16 implementation with a fused attention kernel keeps
// for backward (the method of Korthikanti et al., arXiv 2205.05198, section 4): 2 bytes per element
// and no term quadratic in the sequence. Elementwise bytes are reads plus writes of the same
// tensors.
#include "engine/model/hugging_face.h"
#include "engine/model/tree_builder.h"

namespace tessera {
namespace {

class LlamaBuilder {
 public:
  LlamaBuilder(const LlamaDimensions& d, const std::string& name)
      : d_(d),
        family_(d.architecture.substr(0, d.architecture.find("For"))),
        tree_(name, d.architecture, d.dtype) {}

  Model build() {
    tree_.model().sequence_length_max = d_.sequence_length_max;
    tree_.model().attention_heads = d_.heads;
    tree_.model().key_value_heads = d_.kv_heads;
    tree_.model().head_dim = d_.head_dim;
    tree_.model().norm_epsilon = d_.norm_epsilon;
    tree_.model().rotary = d_.rotary;
    tree_.model().sliding_window = d_.sliding_window;
    tree_.model().mathematics = d_.mathematics;
    tree_.open("model", family_ + "Model");
    const ModuleId embedding = tree_.leaf("embed_tokens", "Embedding", {d_.vocabulary, d_.hidden});
    runs(embedding, {.elementwise_bytes = per_token(2 * element * h()),
                     .activation_bytes = per_token(8)});  // token ids
    tree_.open("layers", "ModuleList");
    for (std::int64_t layer = 0; layer < d_.layers; ++layer) block(layer);
    tree_.close();
    norm("norm");
    tree_.close();
    head();
    return tree_.take();
  }

 private:
  double h() const { return static_cast<double>(d_.hidden); }
  double q() const { return static_cast<double>(d_.heads * d_.head_dim); }
  double kv() const { return static_cast<double>(d_.kv_heads * d_.head_dim); }
  double f() const { return static_cast<double>(d_.intermediate); }

  void runs(ModuleId id, const ModuleCost& cost) {
    tree_.module(id).cost = cost;
    tree_.model().forward.push_back(id);
  }

  void norm(const std::string& name) {
    const ModuleId id = tree_.leaf(name, family_ + "RMSNorm", {d_.hidden});
    runs(id, {.elementwise_bytes = per_token(2 * element * h()),
              .activation_bytes = per_token(element * h() + 4)});  // input, reciprocal deviation
  }

  void block(std::int64_t layer) {
    const ModuleId id = tree_.open(std::to_string(layer), family_ + "DecoderLayer");
    tree_.module(id).is_block = true;
    tree_.module(id).checkpoint_bytes = per_token(element * h());
    // Registered as attention, MLP, norms; run as norm, attention, norm, MLP.
    attention();
    d_.experts == 0 ? mlp() : experts();
    norm("input_layernorm");
    norm("post_attention_layernorm");
    auto& forward = tree_.model().forward;
    const auto end = forward.end();
    std::swap(end[-4], end[-2]);  // norm, MLP, attention, norm
    std::swap(end[-3], end[-2]);  // norm, attention, MLP, norm
    std::swap(end[-2], end[-1]);  // norm, attention, norm, MLP
    tree_.close();
  }

  void attention() {
    const ModuleId id = tree_.open("self_attn", family_ + "Attention");
    tree_.linear("q_proj", d_.hidden, d_.heads * d_.head_dim, d_.qkv_bias);
    tree_.linear("k_proj", d_.hidden, d_.kv_heads * d_.head_dim, d_.qkv_bias);
    tree_.linear("v_proj", d_.hidden, d_.kv_heads * d_.head_dim, d_.qkv_bias);
    tree_.linear("o_proj", d_.heads * d_.head_dim, d_.hidden, d_.output_bias);
    tree_.close();
    const double projected = q() + 2 * kv();
    runs(id, {.matmul_flops = per_token(2 * h() * (2 * q() + 2 * kv())),
              .attention_flops = {0, 0, 4 * q()},
              // Rotary embedding of q and k, residual sum.
              .elementwise_bytes = per_token(element * (2 * (q() + kv()) + 3 * h())),
              // Input of the projections, q, k, v, output of attention, its log-sum-exp.
              .activation_bytes =
                  per_token(element * (h() + projected + q()) + 4 * static_cast<double>(d_.heads)),
              .kernels = 8,
              .linears = {{d_.hidden, d_.heads * d_.head_dim},
                          {d_.hidden, d_.kv_heads * d_.head_dim},
                          {d_.hidden, d_.kv_heads * d_.head_dim},
                          {d_.heads * d_.head_dim, d_.hidden}},
              .attention = {d_.heads, d_.kv_heads, d_.head_dim}});
  }

  void mlp() {
    const ModuleId id = tree_.open("mlp", family_ + "MLP");
    tree_.linear("gate_proj", d_.hidden, d_.intermediate, d_.mlp_bias);
    tree_.linear("up_proj", d_.hidden, d_.intermediate, d_.mlp_bias);
    tree_.linear("down_proj", d_.intermediate, d_.hidden, d_.mlp_bias);
    tree_.close();
    runs(id, gated(1, 1, 6));
  }

  // `copies` of `experts` gated MLPs per token: gate, up, activation, product and down.
  ModuleCost gated(double copies, std::int64_t experts, std::int32_t kernels) const {
    const double rows = copies / static_cast<double>(experts);
    return {.matmul_flops = per_token(copies * 6 * h() * f()),
            .attention_flops = {},
            .elementwise_bytes = per_token(copies * element * 5 * f() + element * 3 * h()),
            .activation_bytes = per_token(element * h() + copies * element * 4 * f()),
            .kernels = kernels,
            .linears = {{d_.hidden, d_.intermediate, rows, experts},
                        {d_.hidden, d_.intermediate, rows, experts},
                        {d_.intermediate, d_.hidden, rows, experts}}};
  }

  void experts() {
    const ModuleId id = tree_.open("block_sparse_moe", family_ + "SparseMoeBlock");
    tree_.linear("gate", d_.hidden, d_.experts, false);
    tree_.open("experts", "ModuleList");
    for (std::int64_t e = 0; e < d_.experts; ++e) {
      tree_.open(std::to_string(e), family_ + "BlockSparseTop2MLP");
      tree_.linear("w1", d_.hidden, d_.intermediate, false);
      tree_.linear("w2", d_.intermediate, d_.hidden, false);
      tree_.linear("w3", d_.hidden, d_.intermediate, false);
      tree_.close();
    }
    tree_.close();
    tree_.close();
    const auto used = static_cast<double>(d_.experts_per_token);
    const auto choices = static_cast<double>(d_.experts);
    ModuleCost cost = gated(used, d_.experts, static_cast<std::int32_t>(6 * d_.experts + 4));
    cost.linears.push_back({d_.hidden, d_.experts});
    cost.matmul_flops.linear += 2 * h() * choices;  // the router
    // Gathered inputs and, to be weighted, outputs of the experts; the router's logits.
    cost.activation_bytes.linear += 2 * element * used * h() + 4 * choices;
    cost.elementwise_bytes.linear += 4 * element * used * h();  // gather and scatter
    runs(id, cost);
  }

  void head() {
    const auto v = static_cast<double>(d_.vocabulary);
    const ModuleId id = tree_.open("lm_head", "Linear");
    if (d_.tied) {
      tree_.model().ties.push_back(
          {"lm_head.weight", tree_.model().find_parameter("model.embed_tokens.weight")});
    } else {
      tree_.parameter("weight", {d_.vocabulary, d_.hidden});
    }
    tree_.close();
    runs(id, {.matmul_flops = per_token(2 * h() * v),
              .attention_flops = {},
              .elementwise_bytes = per_token((2 + 4 + 4 + 4) * v),   // cast, softmax, loss
              .activation_bytes = per_token(element * h() + 6 * v),  // bf16 and fp32 logits
              .kernels = 4,
              .linears = {{d_.hidden, d_.vocabulary}},
              .logits = v});
  }

  const LlamaDimensions& d_;
  const std::string family_;
  TreeBuilder tree_;
};

}  // namespace

Result<Model> llama_model(const LlamaDimensions& dimensions, const std::string& name,
                          const std::string& source) {
  Model model = LlamaBuilder(dimensions, name).build();
  TESSERA_TRY(check_size(model, source));
  return model;
}

}  // namespace tessera
