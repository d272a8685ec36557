// SPDX-License-Identifier: Apache-2.0
#include "training/reference/plan.h"

#include <fmt/format.h>

#include "engine/model/used_by.h"

namespace tessera::real {
namespace {

class Planner {
 public:
  Planner(const Model& model, const RealModelOptions& options)
      : model_(model),
        options_(options),
        residual_network_(model.modules[0].class_name == "GPT2LMHeadModel") {}

  Result<Plan> make() {
    const auto used = used_by(model_);
    for (ModuleId id : model_.forward) {
      Visit visit{.module = id};
      TESSERA_ASSIGN(visit.layer,
                     module_layer(model_, id, used[id.index()], options_.sequence_length));
      connect(visit);
      TESSERA_TRY(check_input(visit));
      TESSERA_TRY(check_residual(visit));
      visit.recompute_first = recompute_first(plan_.visits.size());
      plan_.visits.push_back(std::move(visit));
    }
    plan_.output_width = widths_.back();
    return std::move(plan_);
  }

 private:
  const std::string& class_of(const Visit& visit) const {
    return model_.module(visit.module).class_name;
  }

  // In a residual network the sums of the published GPT-2, otherwise a chain.
  void connect(Visit& visit) const {
    const int previous = static_cast<int>(plan_.visits.size()) - 1;
    visit.input = previous;
    if (!residual_network_ || previous < 0) return;
    const std::string& name = class_of(visit);
    if (name == "Embedding") {
      visit.input = Visit::positions;
      visit.residual = previous;
    } else if (name == "GPT2Attention" || name == "GPT2MLP") {
      visit.residual = plan_.visits.back().input;  // what the layer norm before it read
    }
  }

  Status check_input(const Visit& visit) {
    const Module& module = model_.module(visit.module);
    const ModuleLayer& layer = visit.layer;
    if (layer.reads_ids) return check_embedding(visit);
    std::int64_t given = visit.input >= 0 ? widths_.back() : options_.input_features;
    if (visit.input < 0) {
      if (given == 0) given = layer.width_in;
      if (given == 0) {
        return Status(Code::invalid_argument,
                      fmt::format("{} is the first and takes any width: set input_features",
                                  described(module)));
      }
      plan_.input_width = given;
    }
    if (layer.width_in != 0 && layer.width_in != given) {
      const std::string from =
          visit.input < 0 ? "the input" : described(model_.module(plan_.visits.back().module));
      return Status(Code::invalid_argument,
                    fmt::format("{} reads rows of width {}, but {} has width {}", described(module),
                                layer.width_in, from, given));
    }
    widths_.push_back(layer.width_out == 0 ? given : layer.width_out);
    return {};
  }

  Status check_embedding(const Visit& visit) {
    const Module& module = model_.module(visit.module);
    if (visit.input >= 0) {
      return Status(
          Code::invalid_argument,
          fmt::format("{} reads token ids, so it must run first, but it runs after {}",
                      described(module), described(model_.module(plan_.visits.back().module))));
    }
    if (visit.input == Visit::data) {
      if (visit.layer.rows > largest_id) {
        return Status(Code::not_supported,
                      fmt::format("{} has {} rows: the most is {}", described(module),
                                  visit.layer.rows, std::int64_t{largest_id}));
      }
      plan_.vocabulary = visit.layer.rows;
    } else if (visit.layer.rows < options_.sequence_length) {
      return Status(Code::invalid_argument,
                    fmt::format("{} has {} positions, fewer than the sequence length {}",
                                described(module), visit.layer.rows, options_.sequence_length));
    }
    widths_.push_back(visit.layer.width_out);
    return {};
  }

  Status check_residual(const Visit& visit) const {
    if (visit.residual < 0) return {};
    const std::int64_t other = widths_[static_cast<std::size_t>(visit.residual)];
    if (other == widths_.back()) return {};
    return Status(
        Code::invalid_argument,
        fmt::format(
            "{} writes rows of width {}, but is added to {} of width {}",
            described(model_.module(visit.module)), widths_.back(),
            described(model_.module(plan_.visits[static_cast<std::size_t>(visit.residual)].module)),
            other));
  }

  bool inside(ModuleId id, ModuleId block) const {
    for (ModuleId m = id; m.valid(); m = model_.module(m).parent) {
      if (m == block) return true;
    }
    return false;
  }

  // The first visit of the run inside the outermost block that contains visit `k`. A block that is
  // an entry of the forward list itself is left after every visit.
  std::size_t recompute_first(std::size_t k) const {
    const ModuleId id = model_.forward[k];
    ModuleId block;
    for (ModuleId m = id; m.valid(); m = model_.module(m).parent) {
      if (model_.module(m).is_block) block = m;
    }
    if (!block.valid() || block == id) return k;
    std::size_t first = k;
    while (first > 0 && inside(model_.forward[first - 1], block) &&
           !model_.begins_again(model_.again, first, block)) {
      --first;
    }
    return first;
  }

  static constexpr std::int64_t largest_id = std::int64_t{1} << 24;  // exact in a float

  const Model& model_;
  const RealModelOptions& options_;
  const bool residual_network_;
  Plan plan_;
  std::vector<std::int64_t> widths_;  // of the visits' outputs
};

}  // namespace

Result<Plan> make_plan(const Model& model, const RealModelOptions& options) {
  if (options.batch < 1 || options.sequence_length < 1 || options.world_size < 1 ||
      options.input_features < 0) {
    return Status(Code::invalid_argument,
                  fmt::format("batch {}, sequence_length {} and world_size {} must be at least 1, "
                              "input_features {} not negative",
                              options.batch, options.sequence_length, options.world_size,
                              options.input_features));
  }
  if (model.forward.empty()) {
    return Status(
        Code::invalid_argument,
        fmt::format("the model {} runs no module: its forward list is empty", model.name));
  }
  return Planner(model, options).make();
}

}  // namespace tessera::real
