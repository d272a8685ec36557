// SPDX-License-Identifier: Apache-2.0
#include "engine/architectures/number_keys.h"

#include <algorithm>

#include "engine/text/words.h"

namespace tessera {
namespace {

using Kind = NumberKind;

constexpr std::string_view known_activations[] = {"gelu",
                                                  "gelu_10",
                                                  "gelu_fast",
                                                  "gelu_new",
                                                  "gelu_python",
                                                  "gelu_accurate",
                                                  "gelu_pytorch_tanh",
                                                  "gelu_python_tanh",
                                                  "laplace",
                                                  "leaky_relu",
                                                  "linear",
                                                  "mish",
                                                  "quick_gelu",
                                                  "relu",
                                                  "relu2",
                                                  "relu6",
                                                  "sigmoid",
                                                  "silu",
                                                  "swish",
                                                  "tanh",
                                                  "prelu",
                                                  "xielu",
                                                  "softplus"};

// Words that a class takes beside numbers.
bool in_words(const NumberKey& key, const nlohmann::json& value) {
  return (key.name == "logit_scale" && value == "inv_sqrt_d_model") ||
         (key.name == "use_bidirectional_attention" && (value == "all" || value == "vision")) ||
         (key.name == "time_step_rank" && value == "auto");
}

}  // namespace

const NumberKey* number_key(std::string_view name) {
  const auto rows = number_key_rows();
  const auto found = std::find_if(rows.begin(), rows.end(),
                                  [&](const NumberKey& key) { return key.name == name; });
  return found == rows.end() ? nullptr : &*found;
}

bool belongs_to(const NumberKey& key, std::string_view model_type) {
  if (key.families.empty() || lists(key.families, model_type)) return true;
  const auto kins = kin_of_keys();
  const auto kin = std::find_if(kins.begin(), kins.end(), [&](const SameKeys& pair) {
    return pair.model_type == model_type;
  });
  if (kin == kins.end() || lists(kin->lacks, key.name)) return false;
  return belongs_to(key, kin->as);
}

bool is_activation(std::string_view name) {
  return std::find(std::begin(known_activations), std::end(known_activations), name) !=
         std::end(known_activations);
}

const char* wrong_form(const NumberKey& key, const nlohmann::json& value) {
  const bool number = value.is_number() && value.get<double>() >= 0;
  const bool word = value.is_string() && !value.get<std::string>().empty();
  switch (key.kind) {
    case Kind::flag: return value.is_boolean() ? nullptr : "must be true or false";
    case Kind::number: return number ? nullptr : "must be a number that is not negative";
    case Kind::share:
      return number && value.get<double>() <= 1 ? nullptr : "must be a number from 0 to 1";
    case Kind::activation:
      return word && is_activation(value.get<std::string>())
                 ? nullptr
                 : "must be an activation of transformers, such as \"gelu\"";
    case Kind::word: return word ? nullptr : "must be a name";
    case Kind::scalar:
      return number || value.is_boolean() || in_words(key, value)
                 ? nullptr
                 : "must be a number that is not negative, or true or false";
    case Kind::object: return value.is_object() ? nullptr : "must be an object {...}";
    case Kind::list: return value.is_array() ? nullptr : "must be a list";
    case Kind::words:
      return value.is_array() && std::all_of(value.begin(), value.end(),
                                             [](const auto& one) { return one.is_string(); })
                 ? nullptr
                 : "must be a list of names";
    case Kind::numbers:
      return value.is_array() && std::all_of(value.begin(), value.end(),
                                             [](const auto& one) { return one.is_number(); })
                 ? nullptr
                 : "must be a list of numbers";
  }
  return nullptr;
}

}  // namespace tessera
