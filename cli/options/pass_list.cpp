// SPDX-License-Identifier: Apache-2.0
#include "cli/options/pass_list.h"

#include <fmt/format.h>

#include <utility>

namespace tessera::cli {
namespace {

using Kind = TrainingPass::Kind;

constexpr std::pair<const char*, Kind> words[] = {{"train", Kind::train},
                                                  {"eval", Kind::evaluate},
                                                  {"forward", Kind::forward},
                                                  {"step", Kind::step}};

Result<TrainingPass> parse_pass(const std::string& word, const Model& model) {
  const auto colon = word.find(':');
  TrainingPass pass;
  if (colon != std::string::npos) pass.graph = word.substr(colon + 1);
  const std::string kind = word.substr(0, colon);
  for (const auto& [name, value] : words) {
    if (kind != name) continue;
    pass.kind = value;
    const bool bare = value == Kind::step ? colon == std::string::npos
                                          : colon == std::string::npos || !pass.graph.empty();
    if (bare && model.find_graph(pass.graph) != nullptr) return pass;
    if (!bare) break;
    return Status(Code::invalid_argument,
                  fmt::format("--passes {}: {} has no graph '{}'", word, model.name, pass.graph));
  }
  return Status(Code::invalid_argument,
                fmt::format("--passes '{}': give train, eval or forward, each perhaps with a graph "
                            "of the model as in train:short, or step",
                            word));
}

}  // namespace

Result<std::vector<TrainingPass>> parse_passes(const std::string& text, const Model& model) {
  std::vector<TrainingPass> passes;
  for (std::size_t first = 0; !text.empty() && first <= text.size();) {
    const std::size_t end = std::min(text.find(',', first), text.size());
    TESSERA_ASSIGN(TrainingPass pass, parse_pass(text.substr(first, end - first), model));
    passes.push_back(std::move(pass));
    first = end + 1;
  }
  return passes;
}

}  // namespace tessera::cli
