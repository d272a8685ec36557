// SPDX-License-Identifier: Apache-2.0
// `optimizer` (deepspeed/runtime/engine.py: _configure_basic_optimizer). Tessera steps with AdamW;
// of other types it knows what they keep, so that memory and the time of a step are theirs.
#include <fmt/format.h>

#include <algorithm>

#include "engine/deepspeed/sections.h"
#include "engine/text/json_reader.h"

namespace tessera {
namespace {

struct OptimizerType {
  std::string_view name;  // in lower case
  std::int32_t states;    // per element, besides the master
  std::string_view why;   // a part of it that is charged otherwise
};

constexpr OptimizerType types[] = {
    {"adam", 2, ""},
    {"adamw", 2, ""},
    {"muadam", 2, ""},
    {"muadamw", 2, ""},
    {"nadam", 2, ""},
    {"radam", 2, ""},
    {"adamax", 2, ""},
    {"lamb", 2, "charged as AdamW: the norms of layers are not"},
    {"muon", 2,
     "charged as AdamW: matrices keep one state less, and their orthogonalisation costs "
     "matmuls"},
    {"lion", 1, ""},
    {"adagrad", 1, ""},
    {"rmsprop", 1, ""},
    {"sgd", 0, ""},
    {"musgd", 0, ""},
};

constexpr std::string_view compressing[] = {"onebitadam", "onebitlamb", "zerooneadam"};

std::string lower(std::string text) {
  for (char& c : text) {
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
  }
  return text;
}

// SGD keeps a state if it has momentum.
bool has_momentum(ConfigObject& params) {
  const nlohmann::json* const momentum = params.value({"momentum"});
  return momentum != nullptr && momentum->is_number() && momentum->get<double>() != 0;
}

void read_type(ConfigObject& optimizer, ConfigObject& params, DeepSpeedConfig& config) {
  const auto given = optimizer.text({"type"});
  if (!given) return;
  config.optimizer = *given;
  const std::string name = lower(*given);
  const auto type = std::find_if(std::begin(types), std::end(types),
                                 [&](const OptimizerType& known) { return known.name == name; });
  if (std::find(std::begin(compressing), std::end(compressing), name) != std::end(compressing)) {
    optimizer.fail("type", fmt::format("{} is not supported: it sends compressed gradients of its "
                                       "own; take another",
                                       *given));
  } else if (type == std::end(types)) {
    std::string all;
    for (const OptimizerType& known : types) {
      all += fmt::format("{}{}", all.empty() ? "" : ", ", known.name);
    }
    optimizer.fail("type", fmt::format("is {}, whose states are not known: choose one of {}",
                                       bare_or_quoted(*given), all));
  } else {
    const bool sgd = type->states == 0;
    config.adam.states = sgd && has_momentum(params) ? 1 : type->states;
    if (!type->why.empty()) optimizer.cost_differs("type", type->why);
  }
}

void read_betas(ConfigObject& params, AdamOptions& adam) {
  const nlohmann::json* betas = params.value({"betas"});
  if (betas == nullptr) return;
  const bool two =
      betas->is_array() && betas->size() == 2 && (*betas)[0].is_number() && (*betas)[1].is_number();
  if (two) {
    adam.beta1 = (*betas)[0].get<float>();
    adam.beta2 = (*betas)[1].get<float>();
  }
  const auto sensible = [](float beta) { return beta >= 0 && beta < 1; };
  if (!two || !sensible(adam.beta1) || !sensible(adam.beta2)) {
    params.fail("betas", "must be two numbers of 0 to below 1");
  }
}

}  // namespace

void read_optimizer(ConfigObject& root, DeepSpeedConfig& config) {
  ConfigObject optimizer = root.object("optimizer");
  ConfigObject params = optimizer.object("params");
  AdamOptions& adam = config.adam;
  const auto set = [](float& option, const std::optional<double>& value) {
    if (value) option = static_cast<float>(*value);
  };
  const auto rate = params.number({"lr"}, 0, 1e6);
  config.learning_rate_given = rate.has_value();
  set(adam.learning_rate, rate);
  set(adam.epsilon, params.number({"eps"}, 0, 1));
  set(adam.weight_decay, params.number({"weight_decay"}, 0, 1e6));
  read_betas(params, adam);
  read_type(optimizer, params, config);
  params.finish(UnknownKeys::refused);
  optimizer.finish(UnknownKeys::listed);
}

}  // namespace tessera
