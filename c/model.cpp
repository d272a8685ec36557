// SPDX-License-Identifier: Apache-2.0
#include "tessera/model.h"

#include "c/handles.h"

namespace tessera::c {
namespace {

std::string& last_error() {
  thread_local std::string text;
  return text;
}

Status keep(Result<Model> model, tessera_model** handle) {
  TESSERA_TRY(model.status());
  *handle = new tessera_model{std::make_shared<const Model>(std::move(*model))};
  return {};
}

const Parameter* parameter(const tessera_model* model, std::int32_t number) {
  if (model == nullptr) return nullptr;
  const auto& all = model->model->parameters;
  const bool known = number >= 0 && number < static_cast<std::int32_t>(all.size());
  return known ? &all[static_cast<std::size_t>(number)] : nullptr;
}

}  // namespace

int code_of(const Status& status) {
  if (!status.ok()) last_error() = status.message();
  return static_cast<int>(status.code());
}

}  // namespace tessera::c

using tessera::c::guarded;

const char* tessera_last_error(void) { return tessera::c::last_error().c_str(); }
const char* tessera_version(void) { return TESSERA_VERSION; }

int tessera_model_load(const char* path, tessera_model** model) {
  return guarded([&] { return tessera::c::keep(tessera::load_model(path), model); }, path, model);
}

int tessera_model_from_json(const char* text, tessera_model** model) {
  return guarded([&] { return tessera::c::keep(tessera::parse_model(text, "model"), model); }, text,
                 model);
}

void tessera_model_destroy(tessera_model* model) { delete model; }

int32_t tessera_model_parameter_count(const tessera_model* model) {
  return model == nullptr ? -1 : static_cast<std::int32_t>(model->model->parameters.size());
}

const char* tessera_model_parameter_name(const tessera_model* model, int32_t number) {
  const tessera::Parameter* parameter = tessera::c::parameter(model, number);
  return parameter == nullptr ? nullptr : parameter->name.c_str();
}

int64_t tessera_model_parameter_numel(const tessera_model* model, int32_t number) {
  const tessera::Parameter* parameter = tessera::c::parameter(model, number);
  return parameter == nullptr ? -1 : parameter->numel().value;
}

int32_t tessera_model_parameter_shape(const tessera_model* model, int32_t number, int64_t* shape,
                                      int32_t capacity) {
  const tessera::Parameter* parameter = tessera::c::parameter(model, number);
  if (parameter == nullptr) return -1;
  const auto count = static_cast<std::int32_t>(parameter->shape.size());
  if (shape != nullptr) {
    std::copy_n(parameter->shape.begin(), std::clamp(capacity, 0, count), shape);
  }
  return count;
}
