// SPDX-License-Identifier: Apache-2.0
#include "tessera/model.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>

#include "engine/model/frozen_share.h"
#include "engine/model/module_graph.h"
#include "engine/model/tree_builder.h"
#include "engine/model/used_by.h"

namespace tessera {

Numel Parameter::numel() const {
  const std::int64_t numel = numel_of(shape);
  TESSERA_ASSERT(numel >= 0, "shapes are checked when a model is read");
  return Numel{numel};
}

Bytes Buffer::bytes() const {
  const std::int64_t numel = numel_of(shape);
  TESSERA_ASSERT(numel >= 0, "shapes are checked when a model is read");
  return bytes_of(Numel{numel}, dtype);
}

bool Model::is_a(const Module& module, std::string_view name) const {
  if (module.class_name == name) return true;
  const auto bases = class_bases.find(module.class_name);
  return bases != class_bases.end() &&
         std::find(bases->second.begin(), bases->second.end(), name) != bases->second.end();
}

ModuleId Model::find_module(std::string_view full_path) const {
  const std::string path = without_aliases(*this, full_path);
  for (std::size_t m = 0; m < modules.size(); ++m) {
    if (modules[m].path == path) return ModuleId{static_cast<std::int32_t>(m)};
  }
  return {};
}

ParameterId Model::find_parameter(std::string_view full_name) const {
  const std::string wanted = without_aliases(*this, full_name);
  for (std::size_t p = 0; p < parameters.size(); ++p) {
    if (parameters[p].name == wanted) return ParameterId{static_cast<std::int32_t>(p)};
  }
  for (const Tie& tie : ties) {
    if (tie.alias == wanted) return tie.parameter;
  }
  return {};
}

const std::vector<ModuleId>* Model::find_graph(std::string_view wanted) const {
  if (wanted.empty()) return &forward;
  for (const Graph& graph : graphs) {
    if (graph.name == wanted) return &graph.forward;
  }
  return nullptr;
}

const std::vector<Revisit>& Model::revisits(std::string_view wanted) const {
  for (const Graph& graph : graphs) {
    if (graph.name == wanted) return graph.again;
  }
  return again;
}

bool Model::begins_again(const std::vector<Revisit>& revisits, std::size_t entry,
                         ModuleId id) const {
  for (const Revisit& revisit : revisits) {
    if (revisit.entry != entry) continue;
    for (ModuleId m = id; m.valid(); m = module(m).parent) {
      if (m == revisit.module) return true;
    }
  }
  return false;
}

Numel Model::parameter_count() const {
  Numel total{};
  for (const Parameter& parameter : parameters) total += parameter.numel();
  return total;
}

double attention_flops(const ModuleCost& cost, std::int64_t sequence_length) {
  const double whole = cost.attention_flops.at(sequence_length);
  const auto s = static_cast<double>(sequence_length);
  const auto w = static_cast<double>(cost.attention.window);
  if (cost.attention.window == 0 || s <= w) return whole;
  // Of a triangle of s * s / 2 pairs: a band as wide as the window, or triangles beside each other.
  if (!cost.attention.chunked) return whole * (2 * w * s - w * w) / (s * s);
  const double chunks = std::floor(s / w);
  const double rest = s - chunks * w;
  return whole * (chunks * w * w + rest * rest) / (s * s);
}

// The convention of PaLM (arXiv 2204.02311, appendix B): 6 FLOPs per matmul parameter and token
// plus 12 * layers * heads * head_dim * sequence per token, attention counted in full although it
// is causal. Forward is a third of it.
// Of frozen matrices there is no gradient: a third of their FLOPs is not needed.
double flops_per_sample(const Model& model, const std::vector<ModuleId>& forward,
                        std::int64_t sequence_length) {
  const bool frozen = std::any_of(model.parameters.begin(), model.parameters.end(),
                                  [](const Parameter& p) { return !p.requires_grad; });
  std::optional<FrozenShare> share;
  if (frozen) share.emplace(model, used_by(model));
  double flops = 0;
  for (ModuleId id : forward) {
    const ModuleCost& cost = model.module(id).cost;
    const double passes = share ? 2 + share->trained(id) : 3;
    flops += passes * cost.matmul_flops.at(sequence_length);
    flops += 3 * attention_flops(cost, sequence_length);
  }
  return flops;
}

double flops_per_sample(const Model& model, std::int64_t sequence_length) {
  return flops_per_sample(model, model.forward, sequence_length);
}

Bytes activation_bytes_per_sample(const Model& model, std::int64_t sequence_length,
                                  ActivationCheckpointing checkpointing) {
  auto block_of = [&](ModuleId id) {
    for (ModuleId m = id; m.valid(); m = model.module(m).parent) {
      if (model.module(m).is_block) return m;
    }
    return ModuleId{};
  };
  double bytes = 0;
  ModuleId last_block;
  for (ModuleId id : model.forward) {
    const ModuleId block = block_of(id);
    if (checkpointing == ActivationCheckpointing::none || !block.valid()) {
      bytes += model.module(id).cost.activation_bytes.at(sequence_length);
    } else if (block != last_block || block == id) {  // a block that runs twice in a row
      bytes += model.module(block).checkpoint_bytes.at(sequence_length);
    }
    last_block = block;
  }
  constexpr auto most = std::numeric_limits<std::int64_t>::max();
  // A description may claim any cost; 2^63 as a double is the first that does not fit.
  const bool fits = bytes < 9223372036854775808.0;
  return Bytes{fits ? static_cast<std::int64_t>(bytes) : most};
}

}  // namespace tessera
