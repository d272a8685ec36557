// SPDX-License-Identifier: Apache-2.0
// What encoders have in common: how sizes are read, and costs that do not depend on the sequence.
#pragma once

#include <string>

#include "engine/architectures/family.h"
#include "engine/architectures/part_writer.h"
#include "engine/text/json_reader.h"

namespace tessera {

/// The number of blocks, at most 100,000. Keys may be two names of one: "n_layers|num_layers".
std::int64_t blocks_of(JsonReader& config, const char* key, std::int64_t otherwise);
/// The number of heads, which `width` at `width_key` is a multiple of.
std::int64_t heads_of(JsonReader& config, const char* key, std::int64_t otherwise,
                      const char* width_key, std::int64_t width);
/// On either side, of what Longformer and LED attend to: half of `attention_window`, a number or
/// the same for each of `layers`.
std::int64_t window_of(JsonReader& config, std::int64_t layers);
/// Half of what a token of Big Bird attends to: three blocks around it, two of global tokens and
/// those that are drawn. 0: all.
std::int64_t blocks_around(JsonReader& config);
/// Attention to so many tokens on either side: what is outside is neither computed nor kept.
/// 0: all.
void keep_window(ModuleCost& cost, std::int64_t window);
/// The same of Longformer, whose queries and keys are copied into chunks that overlap.
void keep_chunks(ModuleCost& cost, std::int64_t window, std::int64_t hidden);
/// A number from 0 to 1.
double probability_of(JsonReader& config, const char* key, double otherwise);
DType encoder_dtype(JsonReader& config);

void describe_encoder(Model& model, std::int64_t positions, std::int64_t heads, std::int64_t width);

/// Adds a sentence to `model.cost_note`.
void add_note(Model& model, const std::string& sentence);
/// Says that fused attention is counted, which transformers has for this type only if it is asked.
std::string fused_if_asked_note(const std::string& model_type, std::int64_t heads);
/// Says that what fused attention is given to add to scores is not counted: T5's.
std::string bias_note(const std::string& model_type, std::int64_t heads);

/// Makes costs of `tokens` tokens, whatever the length of the sequence: of images and of sound.
void fix_length(ModuleCost& cost, std::int64_t tokens);
/// Runs a Linear with a bias that reads one token of a sequence: of poolers and classifiers.
void run_on_one_token(PartWriter& writer, const std::string& path, std::int64_t in,
                      std::int64_t out);

/// The model, or why it is too large.
Result<Model> checked(Model model, JsonReader& config);

/// What `Builder`, made of `before`, the head, the number of its classes, the model's name and its
/// dtype, builds.
template <class Builder, class... Before>
Result<Model> built(JsonReader& config, const std::string& head, const std::string& name,
                    const Before&... before) {
  const std::int64_t labels = labels_of(config);
  const DType dtype = encoder_dtype(config);
  TESSERA_TRY(config.status());
  return checked(Builder(before..., head, labels, name, dtype).build(), config);
}

/// As EncoderFamily::build.
Result<Model> t5_model(JsonReader& config, const std::string& head, const std::string& name);
Result<Model> mt5_model(JsonReader& config, const std::string& head, const std::string& name);
Result<Model> umt5_model(JsonReader& config, const std::string& head, const std::string& name);
Result<Model> switch_model(JsonReader& config, const std::string& head, const std::string& name);
Result<Model> longt5_model(JsonReader& config, const std::string& head, const std::string& name);
Result<Model> t5gemma_model(JsonReader& config, const std::string& head, const std::string& name);
Result<Model> swin_model(JsonReader& config, const std::string& head, const std::string& name);
Result<Model> albert_model(JsonReader& config, const std::string& head, const std::string& name);
Result<Model> deberta_model(JsonReader& config, const std::string& head, const std::string& name);
Result<Model> first_deberta_model(JsonReader& config, const std::string& head,
                                  const std::string& name);
Result<Model> hubert_model(JsonReader& config, const std::string& head, const std::string& name);
Result<Model> modernbert_model(JsonReader& config, const std::string& head,
                               const std::string& name);
Result<Model> wav2vec2_model(JsonReader& config, const std::string& head, const std::string& name);
Result<Model> vit_model(JsonReader& config, const std::string& head, const std::string& name);
Result<Model> deit_model(JsonReader& config, const std::string& head, const std::string& name);
Result<Model> dinov2_model(JsonReader& config, const std::string& head, const std::string& name);
Result<Model> dinov2_with_registers_model(JsonReader& config, const std::string& head,
                                          const std::string& name);
Result<Model> vit_msn_model(JsonReader& config, const std::string& head, const std::string& name);
Result<Model> vit_mae_model(JsonReader& config, const std::string& head, const std::string& name);
Result<Model> beit_model(JsonReader& config, const std::string& head, const std::string& name);
Result<Model> dinov3_vit_model(JsonReader& config, const std::string& head,
                               const std::string& name);
Result<Model> ijepa_model(JsonReader& config, const std::string& head, const std::string& name);
Result<Model> clip_vision_model(JsonReader& config, const std::string& head,
                                const std::string& name);
Result<Model> siglip_vision_model(JsonReader& config, const std::string& head,
                                  const std::string& name);
Result<Model> gemma4_model(JsonReader& config, const std::string& head, const std::string& name);
Result<Model> clip_model(JsonReader& config, const std::string& head, const std::string& name);
Result<Model> siglip_model(JsonReader& config, const std::string& head, const std::string& name);
Result<Model> whisper_model(JsonReader& config, const std::string& head, const std::string& name);

}  // namespace tessera
