// SPDX-License-Identifier: Apache-2.0
#include "tests/deepspeed/outcome.h"

#include <fmt/format.h>

namespace tessera::test {
namespace {

std::string decided(const DeepSpeedConfig& c) {
  std::string text = fmt::format("{} {}", c.stage, name_of(c.scheme));
  for (const auto& [name, value] : options_of(c.scheme, Model{})) {
    text += fmt::format(" {}={}", name, to_text(value));
  }
  const LossScaleOptions scale = c.loss_scale.value_or(LossScaleOptions{});
  text += fmt::format(" dtype {} batch {} {} clip {}", c.dtype ? name_of(*c.dtype) : "none",
                      c.micro_batch.value_or(0), c.accumulation.value_or(0),
                      c.gradient_clipping.value_or(-1));
  text +=
      fmt::format(" optimizer {} {} {} {} {} {} {}", c.optimizer, c.adam.learning_rate,
                  c.adam.beta1, c.adam.beta2, c.adam.epsilon, c.adam.weight_decay, c.adam.states);
  text += fmt::format(" scheduler {} scale {} {} {} {} {} {}", c.scheduler,
                      c.loss_scale.has_value(), scale.initial_scale, scale.growth_factor,
                      scale.growth_interval, scale.hysteresis, scale.min_scale);
  return text;
}

}  // namespace

bool Outcome::says(const std::string& path) const {
  for (std::string prefix = path;; prefix = prefix.substr(0, prefix.rfind('.'))) {
    const std::size_t at = said.find("\n" + prefix);
    if (at != std::string::npos) {
      const std::size_t end = at + 1 + prefix.size();
      if (end == said.size() || std::string("\n .").find(said[end]) != std::string::npos)
        return true;
    }
    if (prefix.find('.') == std::string::npos) return false;
  }
}

Outcome outcome_of(const nlohmann::json& config, Rank ranks) {
  return outcome_of_text(config.dump(), ranks);
}

Outcome outcome_of_text(const std::string& text, Rank ranks) {
  const auto read = parse_deepspeed_config(text, "ds.json", ranks);
  Outcome outcome{.refused = !read.ok(), .message = read.status().message()};
  if (!read.ok()) return outcome;
  outcome.decided = decided(*read);
  for (const auto* list : {&read->without_meaning, &read->numbers_differ, &read->cost_differs,
                           &read->unknown, &read->only_compatible}) {
    for (const std::string& key : *list) outcome.said += "\n" + key;
  }
  return outcome;
}

}  // namespace tessera::test
