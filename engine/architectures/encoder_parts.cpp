// SPDX-License-Identifier: Apache-2.0
#include "engine/architectures/encoder_parts.h"

#include <fmt/format.h>

#include <algorithm>

#include "engine/architectures/family.h"
#include "engine/architectures/hugging_face.h"

namespace tessera {

namespace {

constexpr double mebi = 1024.0 * 1024;

// Of "n_heads|num_attention_heads": the one that the file has, or the first.
std::string written(const JsonReader& config, const std::string& names) {
  const auto bar = names.find('|');
  if (bar == std::string::npos) return names;
  const std::string second = names.substr(bar + 1);
  return config.json().contains(second) ? second : names.substr(0, bar);
}

}  // namespace

std::int64_t blocks_of(JsonReader& config, const char* key, std::int64_t otherwise) {
  constexpr std::int64_t most = 100'000;
  const std::int64_t blocks = integer_of(config, key, 1, otherwise);
  if (blocks <= most) return blocks;
  config.fail(written(config, key), fmt::format("is {}, more than {}", blocks, most));
  return 1;
}

std::int64_t heads_of(JsonReader& config, const char* key, std::int64_t otherwise,
                      const char* width_key, std::int64_t width) {
  const std::int64_t heads = integer_of(config, key, 1, otherwise);
  if (width % heads != 0) {
    config.fail(written(config, width_key),
                fmt::format("{} is not a multiple of {} {}", width, written(config, key), heads));
    return 1;
  }
  return heads;
}

std::int64_t window_of(JsonReader& config, std::int64_t layers) {
  if (!config.has("attention_window") || !config.json()["attention_window"].is_array()) {
    return config.integer("attention_window", 2, 512) / 2;
  }
  const nlohmann::json& list = config.json()["attention_window"];
  const bool same = list.size() == static_cast<std::size_t>(layers) &&
                    std::all_of(list.begin(), list.end(), [&](const nlohmann::json& each) {
                      return each.is_number_unsigned() && each == list[0];
                    });
  if (same && list[0].get<std::int64_t>() >= 2) return list[0].get<std::int64_t>() / 2;
  config.fail("attention_window",
              fmt::format("must be a number above 1, or {} times the same", layers));
  return 0;
}

std::int64_t blocks_around(JsonReader& config) {
  constexpr std::int64_t most = 1'000'000;
  const std::int64_t size = config.integer("block_size", 1, 64);
  const std::int64_t drawn = config.integer("num_random_blocks", 0, 3);
  if (size > most) config.fail("block_size", fmt::format("is {}, more than {}", size, most));
  if (drawn > most) config.fail("num_random_blocks", fmt::format("is {}, too many", drawn));
  const std::string type = config.text("attention_type", "block_sparse");
  if (type == "original_full") return 0;
  if (type != "block_sparse") {
    config.fail("attention_type", "must be block_sparse or original_full");
  }
  return std::min(size, most) * (5 + std::min(drawn, most)) / 2;
}

void keep_window(ModuleCost& cost, std::int64_t window) {
  cost.attention.window = window;
  if (window == 0) return;
  const auto width = static_cast<double>(2 * window);
  for (Polynomial* each : {&cost.activation_bytes, &cost.elementwise_bytes}) {
    each->linear += each->quadratic * width;
    each->quadratic = 0;
  }
}

void keep_chunks(ModuleCost& cost, std::int64_t window, std::int64_t hidden) {
  keep_window(cost, window);
  const double both = 4 * element * static_cast<double>(hidden);
  cost.activation_bytes.linear += both;
  cost.activation_bytes.constant -= both * static_cast<double>(window);
}

double probability_of(JsonReader& config, const char* key, double otherwise) {
  if (!config.has(key)) return otherwise;
  const nlohmann::json& value = config.json()[key];
  const bool good = value.is_number() && value.get<double>() >= 0 && value.get<double>() <= 1;
  if (!good) config.fail(key, "must be a number from 0 to 1");
  return good ? value.get<double>() : otherwise;
}

DType encoder_dtype(JsonReader& config) { return config_dtype(config); }

void describe_encoder(Model& model, std::int64_t positions, std::int64_t heads,
                      std::int64_t width) {
  model.sequence_length_max = positions;
  model.attention_heads = heads;
  model.key_value_heads = heads;
  model.head_dim = width / heads;
  model.mathematics.refused.push_back(
      fmt::format("real training knows {}, and no encoders", trained_families));
}

void add_note(Model& model, const std::string& sentence) {
  model.cost_note += (model.cost_note.empty() ? "" : "; ") + sentence;
}

std::string fused_if_asked_note(const std::string& model_type, std::int64_t heads) {
  constexpr double length = 1024;
  const double scores = kept_scores(true, false) * static_cast<double>(heads) * length * length;
  return fmt::format(
      "activations are counted as with fused attention, which transformers has for {} only if "
      "attn_implementation names it (flash_attention_2, flex_attention): by itself it keeps "
      "scores, too, about {:.0f} MiB per block and sequence of {:.0f} tokens and four times as "
      "much for twice the length",
      model_type, scores / mebi, length);
}

std::string bias_note(const std::string& model_type, std::int64_t heads) {
  constexpr double length = 1024;
  const double pairs = element * static_cast<double>(heads) * length * length;
  return fmt::format(
      "biases of relative positions of {} are not counted: about {:.0f} MiB for each table and "
      "each block of the decoder with sequences of {:.0f} tokens, whatever the batch is, and four "
      "times as much for twice the length",
      model_type, pairs / mebi, length);
}

void fix_length(ModuleCost& cost, std::int64_t tokens) {
  for (Polynomial* each : {&cost.matmul_flops, &cost.attention_flops, &cost.elementwise_bytes,
                           &cost.activation_bytes}) {
    *each = {each->at(tokens), 0, 0};
  }
  // Shapes of kernels are told by tokens of the sequence, which these are not.
  cost.linears.clear();
  cost.attention.heads = 0;
  cost.dropout = 0;
}

void run_on_one_token(PartWriter& writer, const std::string& path, std::int64_t in,
                      std::int64_t out) {
  const ModuleId id = writer.linear(path, in, out, true);
  fix_length(writer.tree().module(id).cost, 1);
  writer.runs(id);
}

Result<Model> checked(Model model, JsonReader& config) {
  TESSERA_TRY(check_size(model, config.source()));
  return model;
}

}  // namespace tessera
