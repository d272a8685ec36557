// SPDX-License-Identifier: Apache-2.0
#include "engine/architectures/mixer_keys.h"

#include <fmt/format.h>

#include "engine/text/words.h"

namespace tessera {

void read_mixer_blocks(JsonReader& config, Blueprint& b, const char* key, const char* mixers,
                       const char* attentions) {
  if (!config.has(key)) return;
  const nlohmann::json& list = config.json()[key];
  const auto layers = static_cast<std::size_t>(b.sizes.layers);
  if (!list.is_array() || list.size() != layers) {
    return config.fail(key, fmt::format("must be a list of {} words", layers));
  }
  for (std::size_t k = 0; k < layers; ++k) {
    const std::string word = list[k].is_string() ? list[k].get<std::string>() : "";
    const bool mixes = lists(mixers, word);
    if (!mixes && !lists(attentions, word)) {
      return config.fail(fmt::format("{}[{}]", key, k),
                         fmt::format("must be one of {} {}", mixers, attentions));
    }
    b.mixer_blocks[k] = mixes;
  }
}

}  // namespace tessera
