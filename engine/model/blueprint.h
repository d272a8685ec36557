// SPDX-License-Identifier: Apache-2.0
// A published architecture as data: sizes, names and the choices that families of transformers
// differ in. What builds models from blueprints is the same for all of them.
//
// The idea: blocks are lists of words. "q_proj:q k_proj:k v_proj:v o_proj:o" names the weights of
// an attention module in the order in which they are registered, each with its role; the role says
// its shape, and the weights say what the module costs.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "tessera/model.h"

namespace tessera {

enum class NormKind : std::uint8_t {
  rms,         // a weight
  layer,       // a weight and a bias
  layer_bare,  // a weight
  plain,       // nothing
};

/// Low-rank queries, keys and values (DeepSeek-V2, arXiv 2405.04434).
struct LatentSizes {
  std::int64_t query = 0;  // 0: queries are projected at once
  std::int64_t key_value = 0, no_position = 0, rotary = 0, value = 0;
  /// Of what chooses the tokens that are attended to (DeepSeek-V3.2).
  std::int64_t index_heads = 0, index_width = 0;
};

/// An attention module. Roles of its weights: q, k, v, qkv (fused), o; qg, queries and a
/// gate for what leaves; g, that gate alone; qn and kn, norms of queries
/// and keys; s, a number per head; n, a norm behind it; sn, one before its last matrix; b, a table
/// of relative positions; w, a number per element of all heads; p and pb, projections of those,
/// which the builder of its family counts; those of latent attention: qa, qan, qb, kva, kvan, kvb;
/// those of an indexer: iq, ik, ikn, iw.
struct AttentionPart {
  std::string name = "self_attn";
  std::string class_name = {};  // "": the family's prefix and "Attention"
  std::string weights = "q_proj:q k_proj:k v_proj:v o_proj:o";
  std::string biases = {};  // roles that have one: "q k v"
  std::int64_t heads = 0, key_value_heads = 0, head_dim = 0;
  std::int64_t source = 0;   // width of what keys and values are made of, if not the model's
  std::int64_t buckets = 0;  // rows of the table of relative positions
  bool rotary = true, causal = true;
  bool clamped = false;           // queries, keys and values, of which the input is kept
  bool copied_values = false;     // of a fused projection, which need not stay as a whole then
  NormKind norm = NormKind::rms;  // of queries and keys
  bool wide_norms = false;        // of queries and keys over all heads, not one
  bool norm_per_head = false;     // each head has a norm of its own, in a list
  bool norm_table = false;        // or a row of a table
  LatentSizes latent = {};        // key_value 0: none
  /// Bytes that attention without fused kernels keeps for each pair of tokens: per head, by
  /// kept_scores(), and once for all heads.
  double kept_scores = 0, kept_pairs = 0;
};

/// An MLP. Roles: g and u, or gu (fused), then d; n, a norm before that; xielu, an activation
/// function with two numbers that are trained. Without a name its weights
/// belong to the block itself.
struct MlpPart {
  std::string name = "mlp";
  std::string class_name = {};
  std::string weights = "gate_proj:g up_proj:u down_proj:d";
  std::string biases = {};
  std::int64_t inner = 0;
  bool relu = false;  // the activation of an MLP without a name
};

/// Experts in the place of an MLP; none if `count` is 0.
struct ExpertsPart {
  std::string name = "mlp";
  std::string class_name = {};  // "": the prefix and "SparseMoeBlock"
  // shared, gate, latent, norm:its name, frozen:a number per expert that is not trained
  std::string order = "router experts";
  std::string router = "gate";
  std::string router_module = {};  // around the router; "": none
  std::string numbered = {};       // what stands before the number of an expert of its own
  std::string expert_class = {};   // of one expert, the family's MLP if empty
  std::string weights = "gate_proj:g up_proj:u down_proj:d";  // of one expert; without g: no gate
  std::string shared_name = "shared_expert";
  std::int64_t count = 0, per_token = 0, inner = 0;
  std::int64_t latent = 0;   // above 0: experts are so wide, between two matrices
  std::int64_t shared = 0;   // width of the expert that all tokens meet
  std::string stacked = {};  // module whose matrices [experts * rows, columns] are those of all
  bool fused = false;        // as two tensors [experts, ...], as transformers 5 keeps them
  bool transposed = false;   // of those: [experts, in, out]
  bool router_bias = false, bias = false;
  bool wide_router = false;      // it reads its input in float32
  bool relu = false;             // the activation, where there is no gate
  bool shared_bias = false;      // of the expert that all tokens meet
  std::string corrections = {};  // a module of the router with a number per expert, not trained
};

/// A tensor or a small module of a mixer, in the order of registration.
struct MixerTensor {
  enum class Kind : std::uint8_t {
    vector,       // a parameter [rows]
    matrix,       // a parameter [rows, columns]
    linear,       // from columns to rows
    convolution,  // of `rows` channels, each for itself, `columns` tokens wide
    norm,         // a weight [rows]
  };
  std::string name;
  Kind kind = Kind::vector;
  std::int64_t rows = 0, columns = 0;
  bool bias = false;
};

/// What carries a state from token to token: state spaces (Mamba), linear attention, short
/// convolutions. Blocks have it in the place of attention, or beside it.
struct MixerPart {
  std::string name = "mamba";
  std::string class_name = "Mixer";  // behind the prefix
  std::vector<MixerTensor> tensors = {};
  double scan_flops = 0;  // per token, of products that are no weight's
  double kept = 0;        // elements per token that backward needs, beside the input
};

/// The one part of a block that is a norm and a part.
enum class SinglePart : std::uint8_t { attention, mixer, mlp, experts };

/// Blocks that attend to what is not there, such as an image: they are there, and do not run.
struct IdleBlocks {
  std::vector<bool> which = {};  // empty: none
  std::string block_class = {}, attention = {}, weights = {};
  std::string numbers = {};  // parameters of one element
};

struct Sizes {
  std::int64_t vocabulary = 32000, hidden = 4096, inner = 11008, layers = 32, heads = 32;
  std::int64_t key_value_heads = 0;  // 0: as many as heads
  std::int64_t head_dim = 0;         // 0: hidden / heads
  std::int64_t positions = 2048;
};

/// Keys of config.json; "" if the family has none. `a|b`: either.
struct SizeKeys {
  const char* hidden = "hidden_size";
  const char* inner = "intermediate_size";
  const char* layers = "num_hidden_layers";
  const char* heads = "num_attention_heads";
  const char* key_value_heads = "num_key_value_heads";
  const char* head_dim = "head_dim";
  const char* positions = "max_position_embeddings";
  const char* epsilon = "rms_norm_eps";
  const char* activation = "hidden_act";
};

/// A decoder: an embedding, blocks that are alike but for experts and windows, a norm, a head.
struct Blueprint {
  std::string prefix = {};  // "Qwen3", of its classes
  std::string root_class = {};
  SizeKeys keys = {};
  Sizes sizes = {};
  std::string dot = "model";    // the module around all but the head; "": none
  std::string base_class = {};  // its class, the prefix and "Model" if empty
  std::string embedding = "embed_tokens", positions = {}, embedding_norm = {}, layers = "layers";
  std::string final_norm = "norm", head = "lm_head", block_class = "DecoderLayer";
  std::string norm_early = {};  // a final norm that is registered before the blocks
  /// Names of a block's parts in the order of registration and in that of running.
  std::string registered = "self_attn mlp input_layernorm post_attention_layernorm";
  std::string runs = "input_layernorm self_attn post_attention_layernorm mlp";
  AttentionPart attention = {};
  MlpPart mlp = {};
  ExpertsPart experts = {};
  MixerPart mixer = {};
  std::vector<bool> mixer_blocks = {};  // blocks with the mixer instead of attention; empty: none
  std::string mixer_block_class = {};   // of those, `block_class` if empty
  std::string mixer_registered = {}, mixer_runs = {};  // of those, as of others if empty
  std::vector<SinglePart> single_parts = {};  // blocks of one part, called as attention; else empty
  /// Blocks whose attention has other weights, and those; empty: none.
  std::vector<bool> other_attention = {};
  std::string other_weights = {};
  std::vector<bool> dense_blocks = {};     // beside experts: blocks with an MLP; empty: none
  std::vector<std::int64_t> windows = {};  // by block, 0: none; empty: none at all
  bool chunked = false;                    // windows do not slide
  NormKind norm = NormKind::rms;
  double epsilon = 1e-6;
  bool tied = false, head_bias = false, conv1d = false;
  bool parallel = false;      // attention and MLP have the same input
  bool one_input = false;     // both of a block's norms do
  bool dropout = false;       // behind attention and MLP
  bool scaled_input = false;  // the embedding is multiplied
  bool capped_logits = false;
  std::int64_t position_rows = 0;    // of learned positions, sizes.positions if 0
  std::int64_t embedding_width = 0;  // 0: hidden; others are projected
  std::int64_t spare_rows = 0;       // of the embedding, which the head lacks
  std::int64_t labels = 0;           // above 0: the head has so many rows
  bool pooled = false;               // and reads one token of a sequence
  // A matrix and a norm in front of the head; "": none.
  std::string head_dense = {}, head_norm = {};
  bool head_dense_bias = true;
  IdleBlocks idle = {};
  std::string not_first = {};   // a part that the first block lacks
  std::string containers = {};  // classes of modules around others: "cls:OnlyMLMHead"
  bool headless = false;
};

}  // namespace tessera
