// SPDX-License-Identifier: Apache-2.0
#include "engine/architectures/nested_keys.h"

namespace tessera {
namespace {

// What any configuration may say, and what changes nothing.
constexpr std::string_view of_any[] = {"_name_or_path",
                                       "architectures",
                                       "chunk_size_feed_forward",
                                       "dtype",
                                       "id2label",
                                       "is_encoder_decoder",
                                       "label2id",
                                       "model_type",
                                       "output_attentions",
                                       "output_hidden_states",
                                       "problem_type",
                                       "return_dict",
                                       "torch_dtype",
                                       "transformers_version"};

}  // namespace

JsonReader nested_keys(JsonReader& config, const char* key, std::vector<std::string_view> known) {
  static const nlohmann::json none = nlohmann::json::object();
  const bool given = config.has(key);
  const bool object = given && config.json()[key].is_object();
  if (given && !object) config.fail(key, "must be an object {...}");
  JsonReader inner(object ? config.json()[key] : none, config.source() + ": " + key);
  known.insert(known.end(), std::begin(of_any), std::end(of_any));
  inner.only(known);
  return inner;
}

}  // namespace tessera
