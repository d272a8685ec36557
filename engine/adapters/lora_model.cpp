// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "tessera/lora.h"

namespace tessera {
namespace {

constexpr double activation_element = 2;  // bytes, as in the costs of published models

bool is_linear(const Module& module) {
  return module.class_name == "Linear" || module.class_name == "Conv1D";
}

std::string last_name(const std::string& path) { return path.substr(path.rfind('.') + 1); }

// Inserts adapters behind their targets, so that modules and parameters stay in pre-order.
class AdapterInsertion {
 public:
  AdapterInsertion(const Model& model, const LoraOptions& options, std::set<ModuleId> targets)
      : from_(model), options_(options), targets_(std::move(targets)) {}

  Model made() {
    out_ = from_;
    out_.modules.clear();
    out_.parameters.clear();
    number();
    for (std::size_t m = 0; m < from_.modules.size(); ++m) copy(m);
    for (Buffer& buffer : out_.buffers) buffer.module = module(buffer.module);
    for (Tie& tie : out_.ties) tie.parameter = parameter(tie.parameter);
    for (ModuleAlias& alias : out_.module_aliases) alias.module = module(alias.module);
    const auto renumber = [&](std::vector<ModuleId>& forward, std::vector<Revisit>& again) {
      for (ModuleId& id : forward) id = module(id);
      for (Revisit& revisit : again) revisit.module = module(revisit.module);
    };
    renumber(out_.forward, out_.again);
    for (Graph& graph : out_.graphs) renumber(graph.forward, graph.again);
    for (auto* uses : {&out_.reads, &out_.returns}) {
      for (ParameterUse& use : *uses) use = {module(use.module), parameter(use.parameter)};
    }
    for (const ModuleId target : targets_) add_cost(target);
    out_.buffers.insert(out_.buffers.end(), scales_.begin(), scales_.end());
    if (packed_ > 0) note();
    return std::move(out_);
  }

 private:
  ModuleId module(ModuleId old) const { return old.valid() ? modules_[old.index()] : old; }
  ParameterId parameter(ParameterId old) const {
    return old.valid() ? parameters_[old.index()] : old;
  }

  void number() {
    std::int32_t modules = 0, parameters = 0;
    parameters_.resize(from_.parameters.size());
    for (std::size_t m = 0; m < from_.modules.size(); ++m) {
      modules_.push_back(ModuleId{modules});
      const bool target = targets_.contains(ModuleId{static_cast<std::int32_t>(m)});
      modules += target ? 3 : 1;
      for (const ParameterId p : from_.modules[m].parameters) {
        parameters_[p.index()] = ParameterId{parameters++};
      }
      parameters += target ? 2 : 0;
    }
  }

  void copy(std::size_t m) {
    Module own = from_.modules[m];
    own.parent = module(own.parent);
    for (ModuleId& child : own.children) child = module(child);
    const bool target = targets_.contains(ModuleId{static_cast<std::int32_t>(m)});
    const auto id = static_cast<std::int32_t>(out_.modules.size());
    if (target) own.children.insert(own.children.end(), {ModuleId{id + 1}, ModuleId{id + 2}});
    for (ParameterId& p : own.parameters) {
      Parameter copied = from_.parameter(p);
      copied.module = ModuleId{id};
      copied.requires_grad = false;
      if (packs(m, copied)) pack(copied);
      p = ParameterId{static_cast<std::int32_t>(out_.parameters.size())};
      out_.parameters.push_back(std::move(copied));
    }
    out_.modules.push_back(own);
    if (!target) return;
    const auto [in, out] = sizes(ModuleId{static_cast<std::int32_t>(m)});
    add(ModuleId{id}, own.path + ".lora_A", {options_.rank, in});
    add(ModuleId{id}, own.path + ".lora_B", {out, options_.rank});
  }

  bool packs(std::size_t m, const Parameter& weight) const {
    if (!options_.packed || !is_linear(from_.modules[m]) || weight.shape.size() != 2) return false;
    for (ModuleId up = from_.modules[m].parent; up.valid(); up = from_.module(up).parent) {
      if (from_.module(up).is_block) return true;
    }
    return false;
  }

  // Four numbers to an element of 16 bit.
  void pack(Parameter& weight) {
    const std::int64_t numbers = weight.numel().value;
    packed_ += numbers;
    weight.shape.back() = (weight.shape.back() + 3) / 4;
    weight.name = weight.name.substr(0, weight.name.rfind('.')) + ".qweight";
    weight.dtype = DType::bfloat16;
    elements_ += weight.numel().value;
    const std::string scales = weight.name.substr(0, weight.name.rfind('.')) + ".scales";
    scales_.push_back({scales, {(numbers + 63) / 64}, DType::float32, weight.module});
  }

  void add(ModuleId parent, const std::string& path, std::vector<std::int64_t> shape) {
    const ModuleId id{static_cast<std::int32_t>(out_.modules.size())};
    const ParameterId weight{static_cast<std::int32_t>(out_.parameters.size())};
    out_.modules.push_back(
        {.path = path, .class_name = "Linear", .parent = parent, .parameters = {weight}});
    out_.parameters.push_back({.name = path + ".weight",
                               .shape = std::move(shape),
                               .dtype = from_.dtype,
                               .requires_grad = true,
                               .module = id});
  }

  // Of a target, whose weight is [out, in], or [in, out] of Conv1D.
  std::pair<std::int64_t, std::int64_t> sizes(ModuleId target) const {
    const Module& own = from_.module(target);
    const auto& shape = from_.parameter(own.parameters[0]).shape;
    if (own.class_name == "Conv1D") return {shape[0], shape[1]};
    return {shape[1], shape[0]};
  }

  // Two more products where the target runs; x A^T is kept for backward.
  void add_cost(ModuleId target) {
    ModuleId runs = module(target);
    const auto listed = [&](ModuleId id) {
      return std::find(out_.forward.begin(), out_.forward.end(), id) != out_.forward.end();
    };
    while (runs.valid() && !listed(runs)) runs = out_.module(runs).parent;
    if (!runs.valid()) return;
    const auto [in, out] = sizes(target);
    const auto rank = static_cast<double>(options_.rank);
    ModuleCost& cost = out_.modules[runs.index()].cost;
    cost.matmul_flops.linear += 2 * rank * static_cast<double>(in + out);
    cost.elementwise_bytes.linear += moved(static_cast<double>(in), static_cast<double>(out));
    cost.activation_bytes.linear += activation_element * rank;
    cost.kernels += options_.packed ? 5 : 4;
    if (options_.dropout > 0) {  // a mask of bytes, and a copy that is kept for backward
      cost.activation_bytes.linear += (activation_element + 1) * static_cast<double>(in);
      ++cost.kernels;
    }
    cost.linears.push_back({in, options_.rank});
    cost.linears.push_back({options_.rank, out});
  }

  // Bytes by kernels of their own (PEFT, tuners/lora/layer.py and bnb.py). Forward scales and adds
  // what the adapter returns, and copies what a 4-bit matrix does before; backward scales, and adds
  // the gradient of x to that of the matrix. As backward is counted twice as much as forward, both
  // together are right.
  double moved(double in, double out) const {
    const double scales = 2 * out, adds = 3 * out, copies = options_.packed ? 2 * out : 0;
    const double forward = activation_element * (scales + adds + copies);
    const double backward = activation_element * (scales + 3 * in);
    const double masks = options_.dropout > 0 ? 2 * (2 * activation_element + 1) * in : 0;
    return (forward + backward + masks) / 3;
  }

  void note() {
    out_.cost_note +=
        fmt::format("{}{} frozen weights are counted as the {} elements that hold them",
                    out_.cost_note.empty() ? "" : "; ", packed_, elements_);
  }

  const Model& from_;
  const LoraOptions& options_;
  const std::set<ModuleId> targets_;
  Model out_;
  std::vector<ModuleId> modules_;        // by old id
  std::vector<ParameterId> parameters_;  // likewise
  std::vector<Buffer> scales_;           // of packed weights
  std::int64_t packed_ = 0, elements_ = 0;
};

bool is_named(const Module& module, const std::string& target) {
  return module.path == target || module.path.ends_with("." + target);
}

Result<std::set<ModuleId>> find_targets(const Model& model, const LoraOptions& options) {
  std::set<ModuleId> found;
  for (const std::string& target : options.targets) {
    const std::size_t before = found.size();
    for (std::size_t m = 0; m < model.modules.size(); ++m) {
      const Module& module = model.modules[m];
      const ModuleId id{static_cast<std::int32_t>(m)};
      const bool head = !model.forward.empty() && id == model.forward.back();
      const bool all = target == "all-linear" && is_linear(module) && !head;
      if (!all && !is_named(module, target)) continue;
      const bool fits = is_linear(module) && !head && !module.parameters.empty() &&
                        module.children.empty() &&
                        model.parameter(module.parameters[0]).shape.size() == 2;
      if (!fits) {
        return Status(
            Code::not_supported,
            fmt::format("lora: {} is a {}{}: adapters go beside linear layers of blocks",
                        module.path, module.class_name, head ? " that gives logits" : ""));
      }
      found.insert(id);
    }
    if (found.size() > before) continue;
    std::set<std::string> names;
    for (const Module& module : model.modules) {
      if (is_linear(module)) names.insert(last_name(module.path));
    }
    return Status(Code::invalid_argument,
                  fmt::format("lora: {} has no module {}: its linear layers are {}", model.name,
                              target, fmt::join(names, ", ")));
  }
  return found;
}

}  // namespace

bool is_adapter(const Parameter& parameter) {
  return parameter.name.ends_with(".lora_A.weight") || parameter.name.ends_with(".lora_B.weight");
}

std::string rank_note(const Model& model) {
  std::string first;
  std::set<ModuleId> wide;  // the matrices
  for (const Parameter& p : model.parameters) {
    if (!is_adapter(p)) continue;
    const bool is_a = p.name.ends_with(".lora_A.weight");
    const std::int64_t rank = p.shape[is_a ? 0 : 1], side = p.shape[is_a ? 1 : 0];
    if (rank <= side) continue;
    const ModuleId matrix = model.module(p.module).parent;
    if (wide.empty()) {
      first = fmt::format("lora: rank {} is above the {} {} of {}", rank, side,
                          is_a ? "inputs" : "outputs", model.module(matrix).path);
    }
    wide.insert(matrix);
  }
  if (wide.empty()) return "";
  const std::string more =
      wide.size() == 1 ? "" : fmt::format(" and of {} more matrices", wide.size() - 1);
  return first + more + ": a lower rank can say the same with fewer elements";
}

Result<Model> with_lora(const Model& model, const LoraOptions& options) {
  if (options.rank < 1 || !(options.alpha > 0)) {
    return Status(Code::invalid_argument, fmt::format("lora: rank {} and alpha {} must be above 0",
                                                      options.rank, options.alpha));
  }
  if (std::any_of(model.parameters.begin(), model.parameters.end(), is_adapter)) {
    return Status(Code::invalid_argument, fmt::format("lora: {} has adapters", model.name));
  }
  TESSERA_ASSIGN(auto targets, find_targets(model, options));
  return AdapterInsertion(model, options, std::move(targets)).made();
}

}  // namespace tessera
