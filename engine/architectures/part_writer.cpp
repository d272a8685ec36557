// SPDX-License-Identifier: Apache-2.0
#include "engine/architectures/part_writer.h"

#include <algorithm>
#include <sstream>

namespace tessera {
namespace {

bool lists_role(const std::string& roles, const std::string& role) {
  const auto all = words_of(roles);
  return std::find(all.begin(), all.end(), role) != all.end();
}

std::vector<std::string> parts_of(const std::string& path) {
  std::vector<std::string> out;
  std::istringstream text(path);
  for (std::string one; std::getline(text, one, '.');) out.push_back(one);
  return out;
}

std::string norm_class(const std::string& prefix, NormKind kind) {
  return kind == NormKind::rms ? prefix + "RMSNorm" : "LayerNorm";
}

}  // namespace

NamedRole named_role(const std::string& word) {
  const auto colon = word.find(':');
  return {word.substr(0, colon), word.substr(colon + 1)};
}

void PartWriter::container(const std::string& path, const std::string& class_name) {
  containers_.emplace_back(path, class_name);
}

void PartWriter::enter(const std::string& path) {
  const auto wanted = parts_of(path);
  const auto fork = std::mismatch(open_.begin(), open_.end(), wanted.begin(), wanted.end());
  const auto same = static_cast<std::size_t>(fork.first - open_.begin());
  while (open_.size() > same) {
    tree_.close();
    open_.pop_back();
  }
  for (std::size_t k = same; k < wanted.size(); ++k) {
    const std::string full = tree_.path_of(wanted[k]);
    std::string class_name = "ModuleList";
    for (const auto& [known, its] : containers_) {
      if (known == full || known == wanted[k]) class_name = its;
    }
    tree_.open(wanted[k], class_name);
    open_.push_back(wanted[k]);
  }
}

ModuleId PartWriter::part(const std::string& path, const std::string& class_name) {
  const auto dot = path.rfind('.');
  enter(dot == std::string::npos ? "" : path.substr(0, dot));
  const std::string name = dot == std::string::npos ? path : path.substr(dot + 1);
  open_.push_back(name);
  return tree_.open(name, class_name);
}

Model PartWriter::take() {
  enter("");
  return tree_.take();
}

void PartWriter::begin_block(const std::string& path, const std::string& class_name,
                             std::int64_t hidden) {
  const ModuleId id = part(path, class_name);
  tree_.module(id).is_block = true;
  tree_.module(id).checkpoint_bytes = per_token(element * static_cast<double>(hidden));
}

// A weight [out, in], or [in, out] as Conv1D has it.
LinearShape PartWriter::projection(const std::string& name, std::int64_t in, std::int64_t out,
                                   bool bias, bool conv1d) {
  if (conv1d) {
    tree_.open(name, "Conv1D");
    tree_.parameter("weight", {in, out});
    if (bias) tree_.parameter("bias", {out});
    tree_.close();
  } else {
    tree_.linear(name, in, out, bias);
  }
  return {in, out};
}

ModuleId PartWriter::embedding(const std::string& path, std::int64_t rows, std::int64_t width,
                               bool added, bool scaled) {
  const ModuleId id = part(path, "Embedding");
  tree_.parameter("weight", {rows, width});
  tree_.module(id).cost = embedding_cost(width, added, scaled);
  return id;
}

void PartWriter::norm_weights(const std::string& name, NormKind kind, std::int64_t width) {
  tree_.open(name, norm_class(prefix_, kind));
  if (kind != NormKind::plain) tree_.parameter("weight", {width});
  if (kind == NormKind::layer) tree_.parameter("bias", {width});
  tree_.close();
}

ModuleId PartWriter::norm(const std::string& path, NormKind kind, std::int64_t width) {
  const ModuleId id = part(path, norm_class(prefix_, kind));
  if (kind != NormKind::plain) tree_.parameter("weight", {width});
  if (kind == NormKind::layer) tree_.parameter("bias", {width});
  tree_.module(id).cost = norm_cost(kind, width);
  return id;
}

ModuleId PartWriter::linear(const std::string& path, std::int64_t in, std::int64_t out, bool bias) {
  const ModuleId id = part(path, "Linear");
  tree_.parameter("weight", {out, in});
  if (bias) tree_.parameter("bias", {out});
  tree_.module(id).cost = linear_cost({in, out});
  return id;
}

// Norms of queries or keys that differ from head to head.
void PartWriter::head_norms(const std::string& name, std::int64_t heads, std::int64_t width,
                            bool list) {
  if (!list) {
    tree_.leaf(name, "LayerNorm", {heads, width});
    return;
  }
  tree_.open(name, prefix_ + "LayerNormPerHead");
  tree_.open("norms", "ModuleList");
  for (std::int64_t k = 0; k < heads; ++k) {
    tree_.leaf(std::to_string(k), "LayerNorm", {width});
  }
  tree_.close();
  tree_.close();
}

// Columns of a projection of latent attention, and its rows `in`; 0 for other roles.
std::int64_t PartWriter::latent_role(const std::string& role, const AttentionPart& part,
                                     std::int64_t& in) const {
  const LatentSizes& l = part.latent;
  if (l.key_value == 0) return 0;
  if (role == "qa") return l.query;
  if (role == "kva") return l.key_value + l.rotary;
  if (role == "q") return part.heads * (l.no_position + l.rotary);
  if (role == "qb") in = l.query;
  if (role == "qb") return part.heads * (l.no_position + l.rotary);
  if (role == "iq") in = l.query;
  if (role == "iq") return l.index_heads * l.index_width;
  if (role == "ik") return l.index_width;
  if (role == "iw") return l.index_heads;
  if (role == "kvb") in = l.key_value;
  if (role == "kvb") return part.heads * (l.no_position + l.value);
  return 0;
}

ModuleId PartWriter::attention(const std::string& path, const AttentionPart& a, std::int64_t hidden,
                               bool conv1d, bool dropout) {
  const ModuleId id = part(path, a.class_name.empty() ? prefix_ + "Attention" : a.class_name);
  const std::int64_t q = a.heads * a.head_dim;
  const std::int64_t kv = a.key_value_heads * a.head_dim;
  const bool latent = a.latent.key_value > 0;
  std::vector<LinearShape> linears;
  for (const std::string& word : words_of(a.weights)) {
    const auto [name, role] = named_role(word);
    enter(name.find('.') == std::string::npos ? path : path + "." + name.substr(0, name.find('.')));
    const std::string own = name.substr(name.rfind('.') + 1);
    std::int64_t in = hidden;
    std::int64_t out = latent_role(role, a, in);
    if (role == "w") tree_.parameter(own, {q});
    if (role == "s") tree_.parameter(own, {a.heads});
    if (role == "b") tree_.leaf(own, "Embedding", {a.buckets, a.heads});
    if (role == "n") norm_weights(own, NormKind::layer, hidden);
    if (role == "sn") norm_weights(own, NormKind::rms, q);
    if (role == "ikn") norm_weights(own, NormKind::layer, a.latent.index_width);
    if (role == "qan") norm_weights(own, NormKind::rms, a.latent.query);
    if (role == "kvan") norm_weights(own, NormKind::rms, a.latent.key_value);
    if (role == "qn" || role == "kn") {
      const std::int64_t heads = role == "qn" ? a.heads : a.key_value_heads;
      if (a.norm_per_head || a.norm_table) {
        head_norms(own, heads, a.head_dim, a.norm_per_head);
      } else {
        norm_weights(own, a.norm, (a.wide_norms ? heads : 1) * a.head_dim);
      }
    }
    if (role == "o") in = latent ? a.heads * a.latent.value : q;
    if (role == "o") out = hidden;
    if (role == "qkv") out = q + 2 * kv;
    if (role == "qg") out = 2 * q;
    if (role == "g") out = q;
    if (role == "q" && out == 0) out = q;
    if (role == "k" || role == "v") out = kv;
    if ((role == "k" || role == "v") && a.source > 0) in = a.source;
    if (role == "p" || role == "pb") projection(own, hidden, q, lists_role(a.biases, role));
    if (out == 0) continue;
    linears.push_back(projection(own, in, out, lists_role(a.biases, role), conv1d));
  }
  enter(path);
  tree_.module(id).cost = attention_cost(a, linears, hidden, dropout);
  if ((a.weights + " ").find(":n ") != std::string::npos) {
    tree_.module(id).cost = tree_.module(id).cost + norm_cost(NormKind::layer, hidden);
  }
  if (a.weights.find(":sn ") != std::string::npos) {
    tree_.module(id).cost = tree_.module(id).cost + norm_cost(NormKind::rms, q);
  }
  return id;
}

ModuleId PartWriter::mlp(const std::string& path, const MlpPart& m, std::int64_t hidden,
                         bool conv1d, bool dropout) {
  const ModuleId id = part(path, m.class_name.empty() ? prefix_ + "MLP" : m.class_name);
  std::vector<LinearShape> linears;
  bool gated = false;
  for (const std::string& word : words_of(m.weights)) {
    const auto [name, role] = named_role(word);
    const bool bias = lists_role(m.biases, role);
    if (role == "n") {
      norm_weights(name, NormKind::rms, m.inner);
      continue;
    }
    if (role == "xielu") {
      tree_.open(name, "XIELUActivation");
      for (const char* number : {"alpha_p", "alpha_n"}) tree_.parameter(number, {1});
      tree_.close();
      continue;
    }
    gated = gated || role == "g" || role == "gu";
    const std::int64_t up = role == "gu" ? 2 * m.inner : m.inner;
    linears.push_back(role == "d" ? projection(name, m.inner, hidden, bias, conv1d)
                                  : projection(name, hidden, up, bias, conv1d));
  }
  tree_.module(id).cost = mlp_cost(linears, hidden, m.inner, gated, dropout);
  if (m.weights.find(":n ") != std::string::npos) {
    tree_.module(id).cost = tree_.module(id).cost + norm_cost(NormKind::rms, m.inner);
  }
  return id;
}

std::vector<ModuleId> PartWriter::mlp_halves(const std::string& path, const MlpPart& m,
                                             std::int64_t hidden, bool dropout) {
  std::vector<ModuleId> out;
  for (const std::string& word : words_of(m.weights)) {
    const auto [name, role] = named_role(word);
    const bool down = role == "d";
    const LinearShape shape{down ? m.inner : hidden, down ? hidden : m.inner};
    const bool bias = lists_role(m.biases, role);
    out.push_back(linear(path.empty() ? name : path + "." + name, shape.in, shape.out, bias));
    tree_.module(out.back()).cost = mlp_half_cost(shape, down, dropout, m.relu);
  }
  return out;
}

void PartWriter::one_expert(const ExpertsPart& part, std::int64_t hidden, std::int64_t inner,
                            bool bias) {
  for (const std::string& word : words_of(part.weights)) {
    const auto [name, role] = named_role(word);
    role == "d" ? tree_.linear(name, inner, hidden, bias) : tree_.linear(name, hidden, inner, bias);
  }
}

void PartWriter::all_experts(const ExpertsPart& e, std::int64_t in) {
  if (!e.stacked.empty()) return stacked_experts(e, in);
  if (e.fused) return fused_experts(e, in);
  const std::string mlp_class = e.expert_class.empty() ? prefix_ + "MLP" : prefix_ + e.expert_class;
  tree_.open("experts", "ModuleList");
  for (std::int64_t k = 0; k < e.count; ++k) {
    tree_.open(e.numbered + std::to_string(k), mlp_class);
    one_expert(e, in, e.inner, e.bias);
    tree_.close();
  }
  tree_.close();
}

void PartWriter::stacked_experts(const ExpertsPart& e, std::int64_t in) {
  tree_.open("experts", prefix_ + "Experts");
  tree_.open(e.stacked, prefix_ + "ExpertGLU");
  for (const std::string& word : words_of(e.weights)) {
    tree_.parameter(named_role(word).name, {e.count * e.inner, in});
  }
  tree_.close();
  tree_.close();
}

void PartWriter::fused_experts(const ExpertsPart& e, std::int64_t in) {
  tree_.open("experts", prefix_ + "Experts");
  const std::int64_t up = gated(e) ? 2 * e.inner : e.inner;
  const std::string name = gated(e) ? "gate_up_proj" : "up_proj";
  tree_.parameter(name, e.transposed ? std::vector{e.count, in, up} : std::vector{e.count, up, in});
  if (e.bias) tree_.parameter(name + "_bias", {e.count, up});
  tree_.parameter("down_proj", e.transposed ? std::vector{e.count, e.inner, in}
                                            : std::vector{e.count, in, e.inner});
  if (e.bias) tree_.parameter("down_proj_bias", {e.count, in});
  tree_.close();
}

// What all tokens meet; its input is kept by the experts already.
ModuleCost PartWriter::shared_expert(const ExpertsPart& e, std::int64_t hidden) {
  tree_.open(e.shared_name, prefix_ + "MLP");
  one_expert(e, hidden, e.shared, e.shared_bias);
  tree_.close();
  std::vector<LinearShape> linears(gated(e) ? 2 : 1, LinearShape{hidden, e.shared});
  linears.push_back({e.shared, hidden});
  ModuleCost cost = mlp_cost(linears, hidden, e.shared, gated(e), false);
  cost.activation_bytes.linear -= element * static_cast<double>(hidden);
  return cost;
}

// The matrices before and behind experts that are narrower than the model.
ModuleCost PartWriter::around_experts(const ExpertsPart& e, std::int64_t hidden) {
  tree_.linear("fc1_latent_proj", hidden, e.latent, e.shared_bias);
  tree_.linear("fc2_latent_proj", e.latent, hidden, e.shared_bias);
  return linear_cost({hidden, e.latent}) + linear_cost({e.latent, hidden});
}

void PartWriter::router(const ExpertsPart& e, std::int64_t hidden) {
  if (!e.router_module.empty()) tree_.open(e.router_module, prefix_ + "Router");
  if (e.corrections.empty()) tree_.linear(e.router, hidden, e.count, e.router_bias);
  if (!e.router_module.empty()) tree_.close();
  if (e.corrections.empty()) return;
  tree_.open(e.router, prefix_ + "TopKRouter");
  tree_.parameter("weight", {e.count, hidden});
  tree_.open(e.corrections, prefix_ + "Statics");
  const ParameterId correction = tree_.parameter("e_score_correction_bias", {1, e.count});
  model().parameters[correction.index()].requires_grad = false;
  tree_.close();
  tree_.close();
}

ModuleId PartWriter::experts(const std::string& path, const ExpertsPart& e, std::int64_t hidden) {
  const ModuleId id =
      part(path, e.class_name.empty() ? prefix_ + "SparseMoeBlock" : prefix_ + e.class_name);
  ModuleCost cost = experts_cost(e, hidden);
  for (const std::string& word : words_of(e.order)) {
    if (word == "router") router(e, hidden);
    if (word == "experts") all_experts(e, e.latent > 0 ? e.latent : hidden);
    if (word == "shared" && e.shared > 0) cost = cost + shared_expert(e, hidden);
    if (word.starts_with("frozen:")) {
      const ParameterId numbers = tree_.parameter(word.substr(7), {e.count});
      model().parameters[numbers.index()].requires_grad = false;
    }
    if (word.starts_with("norm:")) {
      norm_weights(word.substr(5), NormKind::rms, hidden);
      cost = cost + norm_cost(NormKind::rms, hidden);
    }
    if (word == "latent" && e.latent > 0) cost = cost + around_experts(e, hidden);
    if (word == "gate" && e.shared > 0) {
      tree_.linear(e.shared_name + "_gate", hidden, 1, false);
      cost = cost + linear_cost({hidden, 1});
      // Its product with the shared expert's output, which is kept.
    }
  }
  tree_.module(id).cost = cost;
  return id;
}

ModuleId PartWriter::mixer(const std::string& path, const MixerPart& m, std::int64_t hidden) {
  using Kind = MixerTensor::Kind;
  const ModuleId id = part(path, prefix_ + m.class_name);
  for (const MixerTensor& tensor : m.tensors) {
    switch (tensor.kind) {
      case Kind::vector: tree_.parameter(tensor.name, {tensor.rows}); break;
      case Kind::matrix: tree_.parameter(tensor.name, {tensor.rows, tensor.columns}); break;
      case Kind::linear: projection(tensor.name, tensor.columns, tensor.rows, tensor.bias); break;
      case Kind::norm: norm_weights(tensor.name, NormKind::rms, tensor.rows); break;
      case Kind::convolution:
        tree_.open(tensor.name, "Conv1d");
        tree_.parameter("weight", {tensor.rows, 1, tensor.columns});
        if (tensor.bias) tree_.parameter("bias", {tensor.rows});
        tree_.close();
    }
  }
  tree_.module(id).cost = mixer_cost(m, hidden);
  return id;
}

ModuleId PartWriter::head(const std::string& path, std::int64_t hidden, std::int64_t rows,
                          const std::string& tied_to, bool bias, bool capped, bool wide) {
  const ModuleId id = part(path, "Linear");
  if (!tied_to.empty()) {
    const ParameterId owner = model().find_parameter(tied_to);
    TESSERA_ASSERT(owner.valid(), "a head is tied to what was written before");
    model().ties.push_back({path + ".weight", owner});
  } else {
    tree_.parameter("weight", {rows, hidden});
  }
  if (bias) tree_.parameter("bias", {rows});
  tree_.module(id).cost = head_cost(hidden, rows, capped, wide);
  return id;
}

}  // namespace tessera
