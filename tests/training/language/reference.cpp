// SPDX-License-Identifier: Apache-2.0
#include "tests/training/language/reference.h"

#include <algorithm>
#include <cmath>

#include "training/kernels/dropout.h"

namespace tessera::test {
namespace {

using Row = std::vector<double>;
using Rows = std::vector<Row>;

class Reference {
 public:
  /// `sample`: the number of the sequence, for dropout; -1: without.
  Reference(const Model& model, const Values& values, std::int64_t sample)
      : model_(model), values_(values), sample_(sample) {
    gpt2_ = model.modules[0].class_name == "GPT2LMHeadModel";
  }

  // Logits of every position of one sequence.
  Rows run(const std::vector<std::int32_t>& tokens) const {
    Rows x;
    const std::string table = gpt2_ ? "wte" : "model.embed_tokens";
    const std::size_t width = static_cast<std::size_t>(parameter(table + ".weight").shape[1]);
    for (std::size_t t = 0; t < tokens.size(); ++t) {
      Row row(width);
      for (std::size_t i = 0; i < width; ++i) {
        row[i] = at(table, static_cast<std::size_t>(tokens[t]) * width + i);
        if (gpt2_) row[i] += at("wpe", t * width + i);
      }
      x.push_back(row);
    }
    if (gpt2_) drop(model_.mathematics.embedding_dropout, "wpe", 0, 0, x);
    for (const Module& m : model_.modules) {
      if (m.is_block) block(m.path, x);
    }
    x = norm(gpt2_ ? "ln_f" : "model.norm", x);
    return affine(x, "lm_head", true);
  }

 private:
  const Parameter& parameter(const std::string& name) const {
    return model_.parameter(model_.find_parameter(name));
  }
  const std::vector<double>* find(const std::string& name) const {
    const ParameterId id = model_.find_parameter(name);
    return id.valid() ? &values_[id.index()] : nullptr;
  }
  double at(const std::string& module, std::size_t i) const {
    return (*find(module + ".weight"))[i];
  }

  Rows affine(const Rows& x, const std::string& name, bool out_in) const {
    const auto& w = *find(name + ".weight");
    const auto* b = find(name + ".bias");
    const std::size_t in = x[0].size();
    const std::size_t out = w.size() / in;
    Rows y;
    for (const Row& row : x) {
      Row to(out, 0);
      for (std::size_t o = 0; o < out; ++o) {
        if (b != nullptr) to[o] = (*b)[o];
        for (std::size_t i = 0; i < in; ++i) {
          to[o] += row[i] * (out_in ? w[o * in + i] : w[i * out + o]);
        }
      }
      y.push_back(to);
    }
    return y;
  }

  Rows norm(const std::string& name, const Rows& x) const {
    const auto& w = *find(name + ".weight");
    const auto* b = find(name + ".bias");
    Rows y;
    for (const Row& row : x) {
      double mean = 0;
      double square = 0;
      for (double v : row) mean += v / static_cast<double>(row.size());
      if (!gpt2_) mean = 0;
      for (double v : row) square += (v - mean) * (v - mean) / static_cast<double>(row.size());
      Row to;
      for (std::size_t i = 0; i < row.size(); ++i) {
        to.push_back((row[i] - mean) / std::sqrt(square + model_.norm_epsilon) * w[i] +
                     (b != nullptr ? (*b)[i] : 0));
      }
      y.push_back(to);
    }
    return y;
  }

  double frequency(std::size_t i) const {
    const RotaryEmbedding& r = model_.rotary;
    const double pi = std::acos(-1.0);
    const double f =
        std::pow(r.theta, -2.0 * static_cast<double>(i) / static_cast<double>(model_.head_dim));
    if (r.stretch == RotaryStretch::linear) return f / r.factor;
    if (r.stretch == RotaryStretch::yarn) return yarn(i, f);
    if (r.stretch != RotaryStretch::llama3) return f;
    const double length = static_cast<double>(r.original_positions);
    const double wave = 2 * pi / f;
    if (wave < length / r.high_frequency_factor) return f;
    if (wave > length / r.low_frequency_factor) return f / r.factor;
    const double smooth = (length / wave - r.low_frequency_factor) /
                          (r.high_frequency_factor - r.low_frequency_factor);
    return (1 - smooth) * f / r.factor + smooth * f;
  }

  double yarn(std::size_t i, double f) const {
    const RotaryEmbedding& r = model_.rotary;
    const auto d = static_cast<double>(model_.head_dim);
    const auto place = [&](double turns) {
      return d * std::log(static_cast<double>(r.original_positions) / (turns * 2 * std::acos(-1))) /
             (2 * std::log(r.theta));
    };
    const double low = std::max(std::floor(place(r.beta_fast)), 0.0);
    const double high = std::min(std::ceil(place(r.beta_slow)), d - 1);
    const double slowed = std::clamp((static_cast<double>(i) - low) / (high - low), 0.0, 1.0);
    return f / r.factor * slowed + f * (1 - slowed);
  }

  void rotate(Rows& x) const {
    const auto d = static_cast<std::size_t>(model_.head_dim);
    for (std::size_t t = 0; t < x.size(); ++t) {
      for (std::size_t h = 0; h < x[t].size(); h += d) {
        for (std::size_t i = 0; i < d / 2; ++i) {
          const double angle = static_cast<double>(t) * frequency(i);
          const bool yarn = model_.rotary.stretch == RotaryStretch::yarn;
          const double sharper = yarn ? 0.1 * std::log(model_.rotary.factor) + 1 : 1;
          const double a = x[t][h + i];
          const double b = x[t][h + i + d / 2];
          x[t][h + i] = sharper * (a * std::cos(angle) - b * std::sin(angle));
          x[t][h + i + d / 2] = sharper * (b * std::cos(angle) + a * std::sin(angle));
        }
      }
    }
  }

  // The number of the block in "h.3.attn" or "model.layers.3.self_attn".
  static std::size_t block_of(const std::string& path) {
    return std::stoul(path.substr(path.find_first_of("0123456789")));
  }
  std::size_t first_seen(const std::string& path, std::size_t t) const {
    const auto& full = model_.mathematics.full_attention;
    const auto window = static_cast<std::size_t>(model_.sliding_window);
    if (window == 0 || (!full.empty() && full[block_of(path)])) return 0;
    return t < window ? 0 : t + 1 - window;
  }
  double scale_of(const std::string& path) const {
    const Mathematics& m = model_.mathematics;
    const double all = m.scores_scaled ? 1 / std::sqrt(static_cast<double>(model_.head_dim)) : 1;
    return all / (m.scores_scaled_by_block ? static_cast<double>(block_of(path) + 1) : 1);
  }

  double activated(double g) const {
    const double z = std::sqrt(2 / std::acos(-1.0)) * (g + 0.044715 * g * g * g);
    switch (*model_.mathematics.activation) {
      case Activation::gelu_tanh: return 0.5 * g * (1 + std::tanh(z));
      case Activation::gelu: return 0.5 * g * std::erfc(-g / std::sqrt(2.0));
      case Activation::relu: return g > 0 ? g : 0;
      case Activation::silu: break;
    }
    return g / (1 + std::exp(-g));
  }

  // Rows are those from `first_row` on of the operation's.
  void drop(float share, const std::string& path, int operation, std::size_t first_row,
            Rows& rows) const {
    if (share == 0 || sample_ < 0) return;
    const kernels::Dropout dropout{
        share, kernels::dropout_key(dropout_seed, 0),
        static_cast<std::uint32_t>(2 * model_.find_module(path).value + operation)};
    float factors[kernels::dropout_tile];
    for (std::size_t r = 0; r < rows.size(); ++r) {
      for (std::size_t c = 0; c < rows[r].size(); ++c) {
        const std::size_t tile = c / std::size(factors) * std::size(factors);
        kernels::dropout_factors(dropout, sample_, static_cast<std::int64_t>(first_row + r),
                                 static_cast<std::int64_t>(tile), factors);
        rows[r][c] *= static_cast<double>(factors[c - tile]);
      }
    }
  }

  Rows attention(const std::string& path, const Rows& y) const {
    const auto d = static_cast<std::size_t>(model_.head_dim);
    Rows q, k, v;
    if (gpt2_) {
      for (const Row& row : affine(y, path + ".c_attn", false)) {
        const std::size_t w = row.size() / 3;
        const auto cut = row.begin() + static_cast<std::ptrdiff_t>(w);
        const auto cut2 = cut + static_cast<std::ptrdiff_t>(w);
        q.emplace_back(row.begin(), cut);
        k.emplace_back(cut, cut2);
        v.emplace_back(cut2, row.end());
      }
    } else {
      q = affine(y, path + ".q_proj", true);
      k = affine(y, path + ".k_proj", true);
      v = affine(y, path + ".v_proj", true);
      rotate(q);
      rotate(k);
    }
    const std::size_t group = q[0].size() / k[0].size();
    Rows out(q.size(), Row(q[0].size(), 0));
    for (std::size_t h = 0; h < q[0].size() / d; ++h) {
      for (std::size_t t = 0; t < q.size(); ++t) {
        Row p(t + 1, 0);
        double sum = 0;
        for (std::size_t s = first_seen(path, t); s <= t; ++s) {
          double score = 0;
          for (std::size_t i = 0; i < d; ++i) score += q[t][h * d + i] * k[s][h / group * d + i];
          p[s] = std::exp(score * scale_of(path));
          sum += p[s];
        }
        Rows weights = {p};
        drop(model_.mathematics.attention_dropout, path, 0, h * q.size() + t, weights);
        for (std::size_t s = 0; s <= t; ++s) {
          for (std::size_t i = 0; i < d; ++i) {
            out[t][h * d + i] += weights[0][s] / sum * v[s][h / group * d + i];
          }
        }
      }
    }
    Rows added = affine(out, path + (gpt2_ ? ".c_proj" : ".o_proj"), !gpt2_);
    drop(model_.mathematics.residual_dropout, path, 1, 0, added);
    return added;
  }

  Rows mlp(const std::string& path, const Rows& y) const {
    Rows u = affine(y, path + (gpt2_ ? ".c_fc" : ".gate_proj"), !gpt2_);
    const Rows up = gpt2_ ? Rows{} : affine(y, path + ".up_proj", true);
    for (std::size_t t = 0; t < u.size(); ++t) {
      for (std::size_t i = 0; i < u[t].size(); ++i) {
        u[t][i] = activated(u[t][i]) * (gpt2_ ? 1 : up[t][i]);
      }
    }
    Rows added = affine(u, path + (gpt2_ ? ".c_proj" : ".down_proj"), !gpt2_);
    drop(model_.mathematics.residual_dropout, path, 1, 0, added);
    return added;
  }

  static void add(const Rows& y, Rows& x) {
    for (std::size_t t = 0; t < x.size(); ++t) {
      for (std::size_t i = 0; i < x[t].size(); ++i) x[t][i] += y[t][i];
    }
  }

  void block(const std::string& path, Rows& x) const {
    add(attention(path + (gpt2_ ? ".attn" : ".self_attn"),
                  norm(path + (gpt2_ ? ".ln_1" : ".input_layernorm"), x)),
        x);
    add(mlp(path + ".mlp", norm(path + (gpt2_ ? ".ln_2" : ".post_attention_layernorm"), x)), x);
  }

  const Model& model_;
  const Values& values_;
  const std::int64_t sample_;
  bool gpt2_ = false;
};

}  // namespace

std::vector<double> reference_logits(const Model& model, const Values& parameters,
                                     const std::vector<std::int32_t>& tokens) {
  return Reference(model, parameters, -1).run(tokens).back();
}

double reference_loss(const Model& model, const Values& parameters,
                      const std::vector<std::int32_t>& tokens, std::int64_t batch,
                      std::int64_t length) {
  double loss = 0;
  for (std::int64_t b = 0; b < batch; ++b) {
    const auto first = tokens.begin() + b * (length + 1);
    const Rows logits = Reference(model, parameters, b).run({first, first + length});
    for (std::int64_t t = 0; t < length; ++t) {
      const Row& row = logits[static_cast<std::size_t>(t)];
      double sum = 0;
      for (double v : row) sum += std::exp(v);
      loss += std::log(sum) - row[static_cast<std::size_t>(first[t + 1])];
    }
  }
  return loss / static_cast<double>(batch * length);
}

}  // namespace tessera::test
