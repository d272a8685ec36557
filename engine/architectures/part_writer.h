// SPDX-License-Identifier: Apache-2.0
// Writes the parts of transformers into a module tree: their weights, and what they cost.
#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "engine/model/blueprint.h"
#include "engine/model/part_costs.h"
#include "engine/model/tree_builder.h"
#include "engine/text/words.h"

namespace tessera {

/// "q_proj:q" -> {"q_proj", "q"}.
struct NamedRole {
  std::string name, role;
};
NamedRole named_role(const std::string& word);

class PartWriter {
 public:
  PartWriter(std::string name, std::string root_class, std::string prefix, DType dtype)
      : tree_(std::move(name), std::move(root_class), dtype), prefix_(std::move(prefix)) {}

  Model& model() { return tree_.model(); }
  TreeBuilder& tree() { return tree_; }
  const std::string& prefix() const { return prefix_; }

  /// Opens the modules of a dotted path that are not open yet, and closes others: paths are given
  /// in the order of registration. "" is the root.
  void enter(const std::string& path);
  /// Class of the container at `path`, or of all that are called so; others are module lists.
  void container(const std::string& path, const std::string& class_name);

  /// Each writes a module, and returns it with its cost; it does not run yet.
  ModuleId embedding(const std::string& path, std::int64_t rows, std::int64_t width, bool added,
                     bool scaled = false);
  ModuleId norm(const std::string& path, NormKind kind, std::int64_t width);
  ModuleId linear(const std::string& path, std::int64_t in, std::int64_t out, bool bias);
  ModuleId attention(const std::string& path, const AttentionPart& part, std::int64_t hidden,
                     bool conv1d, bool dropout);
  /// Both modules of an MLP without a name.
  std::vector<ModuleId> mlp_halves(const std::string& path, const MlpPart& part,
                                   std::int64_t hidden, bool dropout);
  ModuleId mlp(const std::string& path, const MlpPart& part, std::int64_t hidden, bool conv1d,
               bool dropout);
  ModuleId experts(const std::string& path, const ExpertsPart& part, std::int64_t hidden);
  ModuleId mixer(const std::string& path, const MixerPart& part, std::int64_t hidden);
  /// A head over the vocabulary; `tied_to`: its weight is that parameter, if not "".
  ModuleId head(const std::string& path, std::int64_t hidden, std::int64_t rows,
                const std::string& tied_to, bool bias, bool capped, bool wide = true);

  void begin_block(const std::string& path, const std::string& class_name, std::int64_t hidden);
  void runs(ModuleId id) { model().forward.push_back(id); }
  /// The whole model, all closed.
  Model take();

 private:
  ModuleId part(const std::string& path, const std::string& class_name);
  LinearShape projection(const std::string& name, std::int64_t in, std::int64_t out, bool bias,
                         bool conv1d = false);
  void norm_weights(const std::string& name, NormKind kind, std::int64_t width);
  void head_norms(const std::string& name, std::int64_t heads, std::int64_t width, bool list);
  std::int64_t latent_role(const std::string& role, const AttentionPart& part,
                           std::int64_t& in) const;
  void one_expert(const ExpertsPart& part, std::int64_t hidden, std::int64_t inner, bool bias);
  void router(const ExpertsPart& part, std::int64_t hidden);
  void all_experts(const ExpertsPart& part, std::int64_t in);
  void stacked_experts(const ExpertsPart& part, std::int64_t in);
  void fused_experts(const ExpertsPart& part, std::int64_t in);
  ModuleCost shared_expert(const ExpertsPart& part, std::int64_t hidden);
  ModuleCost around_experts(const ExpertsPart& part, std::int64_t hidden);

  TreeBuilder tree_;
  const std::string prefix_;
  std::vector<std::string> open_;  // names of the modules that are open below the root
  std::vector<std::pair<std::string, std::string>> containers_;
};

}  // namespace tessera
