// SPDX-License-Identifier: Apache-2.0
// A model as the engine sees it: a tree of modules, the parameters they own, the order in which
// they run, and what running them costs.
//
// The idea: shapes and names come from a published `config.json` (or a module-tree JSON), never
// from a framework. Costs are polynomials of the sequence length, so one model serves every batch.
//
//   Result<Model> model = load_model("examples/models/llama-3-8b.json");
//   model->parameter_count();                      // 8'030'261'248 elements
//   flops_per_sample(*model, 8192);                // forward + backward
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "tessera/activation.h"
#include "tessera/status.h"
#include "tessera/types.h"

namespace tessera {

/// constant + linear * s + quadratic * s^2, s = sequence length in tokens.
struct Polynomial {
  double constant = 0;
  double linear = 0;
  double quadratic = 0;

  double at(std::int64_t sequence_length) const {
    const auto s = static_cast<double>(sequence_length);
    return constant + s * (linear + s * quadratic);
  }
  friend Polynomial operator+(Polynomial a, Polynomial b) {
    return {a.constant + b.constant, a.linear + b.linear, a.quadratic + b.quadratic};
  }
};

/// A layer's matmul: every row of its input, [rows, in], with a weight of [in, out].
struct LinearShape {
  std::int64_t in = 0, out = 0;
  double rows_per_token = 1;  // below 1: a token meets few of many experts
  std::int64_t count = 1;     // experts alike
  bool fp8 = false;           // operands are cast to 8 bit
  // With fp8: forward casts the weight, too, and keeps both for backward, which casts gradients.
  bool casts_weight = false;
};

/// Heads of attention; none: the module has none, or none whose kernels are known.
struct AttentionHeads {
  std::int64_t heads = 0, key_value_heads = 0, head_dim = 0;
  std::int64_t window = 0;  // the most tokens that a token attends to; 0: all
  bool chunked = false;     // windows stand side by side and do not slide
  bool causal = true;       // a token attends to none behind it
};

/// The cost of one forward call of a module per sample (one sequence), descendants not included.
/// Backward costs twice the matmul work and 2.5 times the attention work (FlashAttention-2, section
/// 3.1.2: five matmuls instead of two).
struct ModuleCost {
  Polynomial matmul_flops = {};
  Polynomial attention_flops = {};  // softmax(QK^T)V inside a fused kernel; counted in full even if
                                    // causal: the kernel's efficiency stands for the skipped half.
                                    // Where it is not causal, it takes twice as long
  Polynomial elementwise_bytes =
      {};  // bytes moved by normalisations, activations, residuals, losses
  Polynomial activation_bytes = {};  // kept from forward to backward, without checkpointing
  std::int32_t kernels = 1;          // device kernels launched by forward
  /// The parts of matmul_flops and attention_flops, where they are known.
  std::vector<LinearShape> linears = {};
  AttentionHeads attention = {};
  double logits = 0;          // per token, that a loss is computed of where the module ends
  double dropout = 0;         // elements per token that dropout masks
  double backward_bytes = 0;  // moved in backward alone, whatever the batch
  double in_place = 0;        // bytes per token of activations that their gradients replace
};

/// Attention FLOPs of one forward call: attention_flops, and of those the share that is left where
/// a window is narrower than the sequence.
double attention_flops(const ModuleCost& cost, std::int64_t sequence_length);

struct Parameter {
  std::string name;  // fully qualified, as published: "model.layers.0.mlp.up_proj.weight"
  std::vector<std::int64_t> shape;
  DType dtype = DType::float32;
  bool requires_grad = true;
  ModuleId module;  // owner

  Numel numel() const;
};

/// A tensor of a module that is no parameter and has no gradient: running statistics, a mask.
struct Buffer {
  std::string name;  // fully qualified
  std::vector<std::int64_t> shape;
  DType dtype = DType::float32;
  ModuleId module;  // owner

  Bytes bytes() const;
};

struct Module {
  std::string path;                     // "" for the root, "model.layers.0.mlp" otherwise
  std::string class_name;               // "LlamaMLP"
  ModuleId parent;                      // none for the root
  std::vector<ModuleId> children;       // registration order
  std::vector<ParameterId> parameters;  // own parameters, registration order
  std::int32_t outputs = 1;             // tensors that forward returns, parameters not counted
  ModuleCost cost;
  bool is_block = false;        // a transformer block: the default sharding unit and the unit of
                                // activation checkpointing
  Polynomial checkpoint_bytes;  // blocks: the input that checkpointing keeps per sample
};

/// The second name of a parameter: `alias` is the same tensor as `parameter`.
struct Tie {
  std::string alias;  // "lm_head.weight"
  ParameterId parameter;
};

/// A further place where a module is registered: the object at `path` is `module` itself, with the
/// same parameters. The module's own path is where it was registered first.
struct ModuleAlias {
  std::string path;  // "decoder.embedding"; its parent is a module of the model
  ModuleId module;
};

/// A parameter that `module` reads or returns although another module registered it.
struct ParameterUse {
  ModuleId module;
  ParameterId parameter;
  friend bool operator==(const ParameterUse&, const ParameterUse&) = default;
};

/// A container that ends and begins again between two entries of a forward order that both lie in
/// it, as a layer that is called twice in a row: without it they are one call.
struct Revisit {
  std::size_t entry = 0;  // place in the order of the first entry of the later call
  ModuleId module;
};

/// Another order in which a model may run: a shorter one, or one with another route.
struct Graph {
  std::string name;
  std::vector<ModuleId> forward;  // as Model::forward
  std::vector<Revisit> again = {};
};

enum class ActivationCheckpointing : std::uint8_t {
  none,       // keep every activation
  full,       // keep only the input of each block and run its forward again in backward
  operators,  // beside the input, what attention and every second matmul return: the rest again
};

/// How positions are stretched for longer sequences than those of training, by `rope_type`.
enum class RotaryStretch : std::uint8_t {
  none,
  linear,   // all frequencies divided by `factor`
  dynamic,  // none up to `positions`; real training does not go further
  yarn,     // arXiv 2309.00071
  llama3,   // Llama 3.1's: long wavelengths only
};

/// The rotation of queries and keys by their positions (arXiv 2104.09864).
struct RotaryEmbedding {
  double theta = 10000;
  double share = 1;  // of head_dim, its first elements; the others stay as they are
  RotaryStretch stretch = RotaryStretch::none;
  double factor = 1;
  double low_frequency_factor = 1, high_frequency_factor = 4;  // llama3
  std::int64_t original_positions = 8192;                      // llama3, yarn
  std::int64_t positions = 0;                                  // max_position_embeddings
  double beta_fast = 32, beta_slow = 1;                        // yarn
  bool truncate = true;                                        // yarn
  double attention_factor = 0;            // yarn, of cosines and sines; 0: by mscale or factor
  double mscale = 0, mscale_all_dim = 0;  // yarn; 0: not given
  bool known = true;                      // false: the model stretches in another way
};

/// Where the norms of a block stand. In front: x + f(norm(x)); behind: x + norm(f(x)).
enum class NormPlaces : std::uint8_t { in_front, behind, both };

/// What the modules of a published architecture compute where shapes leave a choice. Simulation
/// does not need it.
struct Mathematics {
  std::optional<Activation> activation;  // none: that of the MLP's class
  bool scores_scaled = true;             // by 1 / sqrt(head_dim)
  bool scores_scaled_by_block = false;   // and by 1 / (number of the block from 1)
  /// By block: it attends to all tokens whatever sliding_window is; empty: none does.
  std::vector<bool> full_attention;
  /// Dropout while training, shares below 1: of embeddings, of the weights of attention, and of
  /// what attention and MLP add to the residual stream.
  float embedding_dropout = 0, attention_dropout = 0, residual_dropout = 0;
  /// Keys of dropout that the file does not say: 0 here, another share by the family's own class.
  std::vector<std::string> unsaid_dropout;
  NormPlaces norm_places = NormPlaces::in_front;
  bool parallel = false;           // attention and MLP of a block add to what the block began with
  bool norms_about_one = false;    // norms multiply by 1 + weight
  bool wide_head_norms = false;    // those of queries and keys take all heads together, not each
  bool heads_interleaved = false;  // one matrix gives q, k and v of a head after another's
  double embedding_scale = 1;      // of what the embedding returns
  /// Its row of the embedding has no gradient from where the token is read (of nn.Embedding:
  /// padding_idx); -1: no such token.
  std::int64_t padding_token = -1;
  double score_width = 0;               // scores are scaled by 1 / sqrt of it; 0: head_dim
  double score_cap = 0, logit_cap = 0;  // c: x becomes c tanh(x / c); 0: none
  std::vector<bool> unrotated;          // by block: positions do not act; empty: they do
  /// The rotation of blocks with a window, if it is another than Model::rotary.
  std::optional<RotaryEmbedding> window_rotary;
  bool on_cpus_only = false;         // real training of the family
  std::vector<std::string> refused;  // real training does not compute these keys: sentences

  bool drops() const {
    return embedding_dropout > 0 || attention_dropout > 0 || residual_dropout > 0;
  }
};

struct Model {
  std::string name;
  DType dtype = DType::float32;       // of the checkpoint
  std::vector<Module> modules;        // pre-order; modules[0] is the root
  std::vector<Parameter> parameters;  // pre-order, every tensor once
  std::vector<Buffer> buffers;        // pre-order
  std::vector<Tie> ties;
  /// Of classes that have some: all classes that they derive from, by name.
  std::map<std::string, std::vector<std::string>> class_bases;
  std::vector<ModuleAlias> module_aliases;  // no module contains itself through them
  std::vector<ModuleId> forward;  // modules in execution order, repeats allowed; entries do not
                                  // contain each other
  std::vector<Revisit> again;     // by entry
  std::vector<Graph> graphs;      // beside it; entries of none contain those of another
  // Parameters of other modules that a module reads where its forward begins, before its children.
  std::vector<ParameterUse> reads;
  std::vector<ParameterUse> returns;  // parameters that are outputs of the module
  bool input_requires_grad = false;
  std::int64_t sequence_length_max = 0;  // 0: unknown
  std::int64_t attention_heads = 0;      // per attention module; 0: unknown
  std::int64_t key_value_heads = 0;      // shared by groups of them; 0: as many
  std::int64_t head_dim = 0;             // 0: unknown
  double norm_epsilon = 1e-5;
  RotaryEmbedding rotary;  // of the Llama family
  /// The most tokens that a token attends to in real training; 0: all before it.
  std::int64_t sliding_window = 0;
  Mathematics mathematics;
  std::vector<std::string> warnings;  // what its description says and does not act: sentences
  /// What costs are no more than estimated; "" if the description or the architecture says all.
  std::string cost_note;

  const Module& module(ModuleId id) const { return modules[id.index()]; }
  const Parameter& parameter(ParameterId id) const { return parameters[id.index()]; }
  /// Whether `module` is of the class `name`, or of one that derives from it.
  bool is_a(const Module& module, std::string_view name) const;
  /// The module at `path` (aliases and paths below them included), or an invalid id.
  ModuleId find_module(std::string_view path) const;
  /// The parameter called `name` (ties and paths through aliases included), or an invalid id.
  ParameterId find_parameter(std::string_view name) const;
  /// The order called `name`, `forward` for "", or null.
  const std::vector<ModuleId>* find_graph(std::string_view name) const;
  /// Where containers begin again in that order. REQUIRES: there is one of that name.
  const std::vector<Revisit>& revisits(std::string_view name) const;
  /// Whether an entry begins another call of `module`, by itself or with a module around it.
  bool begins_again(const std::vector<Revisit>& again, std::size_t entry, ModuleId module) const;
  /// Elements of all parameters, tied ones once.
  Numel parameter_count() const;
};

/// Model FLOPs of forward + backward of one sample, recomputation not counted (what MFU divides
/// by): three times the forward, attention included, the convention of PaLM (arXiv 2204.02311,
/// appendix B): 6 per matmul parameter and 12 * layers * heads * head_dim * s per token.
double flops_per_sample(const Model& model, std::int64_t sequence_length);
/// As above, along another order of the model.
double flops_per_sample(const Model& model, const std::vector<ModuleId>& forward,
                        std::int64_t sequence_length);

/// Bytes of activations alive at the end of the forward pass of one sample.
Bytes activation_bytes_per_sample(const Model& model, std::int64_t sequence_length,
                                  ActivationCheckpointing checkpointing);

/// Reads a Hugging Face `config.json` or a module-tree JSON (docs/model-format.md); told apart by
/// the key "tessera_model".
/// Fails: io_error (no such file, a directory), invalid_argument (not JSON, unknown architecture,
/// a key of the wrong type or range), naming file and key.
Result<Model> load_model(const std::string& path);

/// As load_model, from text; `source` names it in messages.
Result<Model> parse_model(std::string_view json, const std::string& source);

}  // namespace tessera
