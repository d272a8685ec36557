// SPDX-License-Identifier: Apache-2.0
#include "engine/architectures/build_decoder.h"

#include <map>

#include "engine/architectures/encoder_parts.h"
#include "engine/architectures/part_writer.h"

namespace tessera {
namespace {

class DecoderBuilder {
 public:
  DecoderBuilder(const Blueprint& b, const std::string& name, DType dtype)
      : b_(b), writer_(name, b.root_class, b.prefix, dtype) {}

  Model build() {
    describe();
    if (!b_.dot.empty()) {
      const auto last = b_.dot.rfind('.');
      if (last != std::string::npos) writer_.container(b_.dot.substr(0, last), b_.prefix + "Model");
      writer_.container(b_.dot, b_.base_class.empty() ? b_.prefix + "Model" : b_.base_class);
    }
    for (const std::string& word : words_of(b_.containers)) {
      writer_.container(named_role(word).name, b_.prefix + named_role(word).role);
    }
    const std::string& weights = b_.attention.weights;
    if (const auto dot = weights.find('.'); dot != std::string::npos) {
      writer_.container(weights.substr(0, dot), b_.prefix + "SelfAttention");
    }
    const ModuleId early = before_blocks();
    for (std::int64_t k = 0; k < b_.sizes.layers; ++k) block(k);
    if (early.valid()) {
      writer_.runs(early);
    } else if (!b_.final_norm.empty()) {
      writer_.runs(writer_.norm(at(b_.final_norm), b_.norm, hidden()));
    }
    if (narrow()) writer_.runs(*project_out_);
    if (!b_.headless) head();
    return writer_.take();
  }

 private:
  std::int64_t hidden() const { return b_.sizes.hidden; }
  bool narrow() const { return b_.embedding_width > 0 && b_.embedding_width != hidden(); }
  std::string at(const std::string& name) const {
    return b_.dot.empty() ? name : b_.dot + "." + name;
  }

  void describe() {
    Model& model = writer_.model();
    model.sequence_length_max = b_.sizes.positions;
    model.attention_heads = b_.attention.heads;
    model.key_value_heads = b_.attention.key_value_heads;
    model.head_dim = b_.attention.head_dim;
    model.norm_epsilon = b_.epsilon;
    if (b_.mixer.tensors.empty()) return;
    model.cost_note =
        "what layers that carry a state from token to token keep and move is estimated from their "
        "shapes, as fused kernels would, and was compared with no measurement";
  }

  // Embeddings, and a final norm where that is registered before the blocks.
  ModuleId before_blocks() {
    const std::int64_t width = narrow() ? b_.embedding_width : hidden();
    writer_.runs(writer_.embedding(at(b_.embedding), b_.sizes.vocabulary + b_.spare_rows, width,
                                   false, b_.scaled_input));
    ModuleId positions;
    if (!b_.positions.empty()) {
      const std::int64_t rows = b_.position_rows > 0 ? b_.position_rows : b_.sizes.positions;
      positions = writer_.embedding(at(b_.positions), rows, hidden(), true);
    }
    if (narrow()) {
      project_out_ = writer_.linear(at("project_out"), hidden(), width, false);
      writer_.runs(writer_.linear(at("project_in"), width, hidden(), false));
    }
    if (positions.valid()) writer_.runs(positions);
    if (!b_.embedding_norm.empty()) {
      writer_.runs(writer_.norm(at(b_.embedding_norm), b_.norm, hidden()));
    }
    if (b_.norm_early.empty()) return {};
    return writer_.norm(at(b_.norm_early), b_.norm, hidden());
  }

  // Its attention has no positions; its norms and MLP are those of others.
  void idle_block(const std::string& path) {
    const IdleBlocks& idle = b_.idle;
    writer_.begin_block(path, b_.prefix + idle.block_class, hidden());
    for (const std::string& word : words_of(idle.numbers)) writer_.tree().parameter(word, {1});
    AttentionPart part = b_.attention;
    part.class_name = idle.attention;
    part.weights = idle.weights;
    for (const std::string& word : words_of(b_.registered)) {
      if (word == b_.attention.name) {
        writer_.attention(path + ".cross_attn", part, hidden(), b_.conv1d, b_.dropout);
      } else {
        this->part(word, path, /*dense=*/true, /*mixer=*/false);
      }
    }
  }

  void block(std::int64_t number) {
    const auto place = static_cast<std::size_t>(number);
    const std::string path = at(b_.layers) + "." + std::to_string(number);
    if (place < b_.idle.which.size() && b_.idle.which[place]) return idle_block(path);
    const bool mixes = place < b_.mixer_blocks.size() && b_.mixer_blocks[place];
    const bool other = mixes && !b_.mixer_block_class.empty();
    writer_.begin_block(path, b_.prefix + (other ? b_.mixer_block_class : b_.block_class),
                        hidden());
    // A mixer stands where attention would.
    const auto its_own = [&](const std::string& word) {
      return mixes && word == b_.attention.name ? b_.mixer.name : word;
    };
    number_ = place;
    const bool dense =
        b_.experts.count == 0 || (place < b_.dense_blocks.size() && b_.dense_blocks[place]);
    std::map<std::string, std::vector<ModuleId>> parts;
    const bool own = mixes && !b_.mixer_registered.empty();
    for (const std::string& word : words_of(own ? b_.mixer_registered : b_.registered)) {
      if (number == 0 && word == b_.not_first) continue;
      const bool mixer = word != b_.attention.name || mixes;
      parts[its_own(word)] = part(its_own(word), path, dense, mixer);
    }
    if (place < b_.windows.size() && !mixes) {
      AttentionHeads& heads = cost(parts[b_.attention.name].front()).attention;
      heads.window = b_.windows[place];
      heads.chunked = b_.chunked;
    }
    if (b_.parallel) share_input(parts[b_.mlp.name].front());
    if (b_.one_input) share_input(parts["post_attention_layernorm"].front());
    for (const std::string& word : words_of(own ? b_.mixer_runs : b_.runs)) {
      for (const ModuleId id : parts[its_own(word)]) writer_.runs(id);
    }
  }

  ModuleCost& cost(ModuleId id) { return writer_.tree().module(id).cost; }

  // What attention keeps already.
  void share_input(ModuleId id) {
    cost(id).activation_bytes.linear -= element * static_cast<double>(hidden());
  }

  ModuleId attention(const std::string& full) {
    AttentionPart part = b_.attention;
    const bool other = number_ < b_.other_attention.size() && b_.other_attention[number_];
    if (other) part.weights = b_.other_weights;
    return writer_.attention(full, part, hidden(), b_.conv1d, b_.dropout);
  }

  ModuleId single(const std::string& full, SinglePart part) {
    switch (part) {
      case SinglePart::attention: return attention(full);
      case SinglePart::mixer: return writer_.mixer(full, b_.mixer, hidden());
      case SinglePart::mlp: return writer_.mlp(full, b_.mlp, hidden(), b_.conv1d, b_.dropout);
      case SinglePart::experts: return writer_.experts(full, b_.experts, hidden());
    }
    return {};
  }

  // `halves` are both weights of an MLP without a module of its own; `mixer`: a part that is called
  // as the mixer is one.
  std::vector<ModuleId> part(const std::string& word, const std::string& path, bool dense,
                             bool mixer) {
    const std::string full = path + "." + word;
    if (word == b_.attention.name && !b_.single_parts.empty()) {
      return {single(full, b_.single_parts[number_])};
    }
    if (mixer && word == b_.mixer.name && !b_.mixer.tensors.empty()) {
      return {writer_.mixer(full, b_.mixer, hidden())};
    }
    // Experts beside an MLP have a name of their own.
    if (word == b_.experts.name && word != b_.mlp.name) {
      return {writer_.experts(full, b_.experts, hidden())};
    }
    if (word == b_.attention.name) return {attention(full)};
    if (word == "halves") return writer_.mlp_halves(path, b_.mlp, hidden(), b_.dropout);
    if (word != b_.mlp.name) return {writer_.norm(full, b_.norm, hidden())};
    if (dense) return {writer_.mlp(full, b_.mlp, hidden(), b_.conv1d, b_.dropout)};
    return {writer_.experts(path + "." + b_.experts.name, b_.experts, hidden())};
  }

  void head() {
    const std::int64_t width = narrow() ? b_.embedding_width : hidden();
    if (b_.labels > 0) {
      const ModuleId id = writer_.linear(b_.head, hidden(), b_.labels, b_.head_bias);
      if (b_.pooled) fix_length(writer_.tree().module(id).cost, 1);
      return writer_.runs(id);
    }
    if (!b_.head_dense.empty()) {
      writer_.runs(writer_.linear(b_.head_dense, hidden(), hidden(), b_.head_dense_bias));
      writer_.runs(writer_.norm(b_.head_norm, b_.norm, hidden()));
    }
    const std::string tied = b_.tied ? at(b_.embedding) + ".weight" : "";
    writer_.runs(
        writer_.head(b_.head, width, b_.sizes.vocabulary, tied, b_.head_bias, b_.capped_logits));
  }

  const Blueprint& b_;
  PartWriter writer_;
  std::size_t number_ = 0;  // of the block that is built
  std::optional<ModuleId> project_out_;
};

}  // namespace

Result<Model> build_decoder(const Blueprint& blueprint, const std::string& name, DType dtype,
                            const std::string& source) {
  Model model = DecoderBuilder(blueprint, name, dtype).build();
  TESSERA_TRY(check_size(model, source));
  return model;
}

}  // namespace tessera
