// SPDX-License-Identifier: Apache-2.0
// CLIP (arXiv 2103.00020) and SigLIP: a model of texts beside one of images, which meet in a loss.
#include <fmt/format.h>

#include <algorithm>

#include "engine/architectures/encoder_parts.h"
#include "engine/architectures/hugging_face.h"
#include "engine/model/graft.h"

namespace tessera {
namespace {

struct Towers {
  const char *prefix, *text, *vision;  // of classes and model types of both
  bool projected;                      // to the width at which they meet
};

// One of both, from the object at `key`; CLIP's first files have its values at `key`_dict.
Result<Model> tower(JsonReader& config, const std::string& key, const char* model_type,
                    const std::string& its_class, bool dict, const std::string& name) {
  const std::string older = key + "_dict";
  const bool given = dict && config.has(older.c_str());
  const std::string from = given ? older : key;
  nlohmann::json inner = nlohmann::json::object();
  if (config.has(from.c_str())) inner = config.json()[from];
  if (config.has(key.c_str()) && !config.json()[key].is_object()) inner = nullptr;
  if (!inner.is_object()) {
    return Status(Code::invalid_argument,
                  fmt::format("{}: {} must be an object {{...}}", config.source(), from));
  }
  const nlohmann::json type = inner.value("model_type", nlohmann::json(model_type));
  if (type != model_type && !type.is_null()) {
    return Status(Code::invalid_argument,
                  fmt::format("{}: {}.model_type must be {}, found {}", config.source(), from,
                              model_type, shown_value(type)));
  }
  inner["model_type"] = model_type;
  inner["architectures"] = {its_class};
  for (const char* kind : {"dtype", "torch_dtype"}) inner.erase(kind);
  for (const char* kind : {"dtype", "torch_dtype", "transformers_version"}) {
    if (config.has(kind)) inner[kind] = config.json()[kind];
  }
  return hugging_face_model(inner, config.source() + ": " + from, name);
}

// Numbers that a text or an image becomes: of the last norm or, with a bias, the last matrix.
std::int64_t width_of(const Model& tower) {
  const Module* last = &tower.module(tower.forward.back());
  while (last->parameters.empty()) last = &tower.module(last->children.back());
  return tower.parameter(last->parameters.back()).shape.back();
}

Result<Model> build(const Towers& kind, JsonReader& config, const std::string& name) {
  const bool dict = kind.projected;
  const std::string prefix = kind.prefix;
  TESSERA_ASSIGN(const Model text,
                 tower(config, "text_config", kind.text, prefix + "TextModel", dict, name));
  TESSERA_ASSIGN(const Model vision,
                 tower(config, "vision_config", kind.vision, prefix + "VisionModel", dict, name));
  constexpr std::int64_t most = 1'000'000'000;
  const std::int64_t width = kind.projected ? config.integer("projection_dim", 1, 512) : 1;
  if (width > most) config.fail("projection_dim", fmt::format("is {}, more than {}", width, most));
  if (kind.projected) config.not_negative("logit_scale_init_value", 2.6592);
  const DType dtype = encoder_dtype(config);
  TESSERA_TRY(config.status());
  PartWriter w(name, prefix + "Model", prefix, dtype);
  if (kind.projected) {
    w.tree().parameter("logit_scale", {});
  } else {
    for (const char* number : {"logit_scale", "logit_bias"}) w.tree().parameter(number, {1});
  }
  Model& model = w.model();
  describe_encoder(model, text.sequence_length_max, text.attention_heads,
                   text.attention_heads * text.head_dim);
  graft(model, text);
  graft(model, vision);
  // Texts are registered first, and run last.
  const auto behind_texts = static_cast<std::ptrdiff_t>(text.forward.size());
  const auto images_first = [&](std::ptrdiff_t behind_images) {
    auto& forward = model.forward;
    std::rotate(forward.begin(), forward.begin() + behind_texts, forward.end() - behind_images);
  };
  if (!kind.projected) {
    const std::int64_t texts = width_of(text);
    if (texts != width_of(vision)) {
      return Status(Code::invalid_argument,
                    fmt::format("{}: texts become {} numbers and images {}, which the loss "
                                "multiplies: give text_config.projection_size {}",
                                config.source(), texts, width_of(vision), width_of(vision)));
    }
    images_first(0);
    return checked(w.take(), config);
  }
  for (const auto& [path, tower] :
       {std::pair{"visual_projection", &vision}, {"text_projection", &text}}) {
    const std::int64_t in = width_of(*tower);
    const ModuleId id = w.linear(path, in, width, false);
    fix_length(w.tree().module(id).cost, 1);
    w.runs(id);
  }
  images_first(1);
  return checked(w.take(), config);
}

}  // namespace

Result<Model> clip_model(JsonReader& config, const std::string&, const std::string& name) {
  return build({"CLIP", "clip_text_model", "clip_vision_model", true}, config, name);
}

Result<Model> siglip_model(JsonReader& config, const std::string&, const std::string& name) {
  return build({"Siglip", "siglip_text_model", "siglip_vision_model", false}, config, name);
}

}  // namespace tessera
