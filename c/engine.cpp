// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <vector>

#include "c/handles.h"
#include "tessera/training.h"

namespace tessera::c {
namespace {

void add_parameters(const Model& model, ModuleId id, std::vector<ParameterId>& all) {
  const Module& module = model.module(id);
  all.insert(all.end(), module.parameters.begin(), module.parameters.end());
  for (const ModuleId child : module.children) add_parameters(model, child, all);
}

float or_else(float value, float otherwise) { return value == 0 ? otherwise : value; }

}  // namespace

std::vector<ParameterId> parameters_of(const Model& model, ModuleId module) {
  std::vector<ParameterId> all;
  add_parameters(model, module, all);
  return all;
}

void ProgramBody::operator()(const BodyContext& context) const {
  std::vector<tessera_tensor> tensors;
  std::size_t gradients = 0;
  for (const ParameterId id : parameters_of(*model, module)) {
    const Parameter& parameter = model->parameter(id);
    const bool trained = pass == ModuleWork::Pass::backward && parameter.requires_grad;
    tensors.push_back({.parameter = id.value,
                       .dtype = static_cast<std::int32_t>(dtype),
                       .numel = parameter.numel().value,
                       .value = context.read(tensors.size()).data(),
                       .gradient = trained ? context.write(gradients++).data() : nullptr});
  }
  const tessera_pass what{.struct_size = sizeof what,
                          .kind = static_cast<std::int32_t>(pass),
                          .rank = context.rank(),
                          .micro_batch = micro_batch,
                          .module = model->module(module).path.c_str(),
                          .tensor_count = static_cast<std::int32_t>(tensors.size()),
                          .tensors = tensors.data()};
  compute(user, &what);
}

AdamOptions adam_of(const tessera_step_options& options) {
  const AdamOptions usual;
  return {.learning_rate = or_else(options.learning_rate, usual.learning_rate),
          .beta1 = or_else(options.beta1, usual.beta1),
          .beta2 = or_else(options.beta2, usual.beta2),
          .epsilon = or_else(options.epsilon, usual.epsilon),
          .weight_decay = options.weight_decay};
}

// The optimizer looks at its own numbers.
Status check_step(const tessera_step_options& options) {
  if (options.accumulation < 0) {
    return Status(Code::invalid_argument,
                  fmt::format("accumulation: {}, but must be at least 0", options.accumulation));
  }
  if (options.max_grad_norm >= 0) return {};
  return Status(Code::invalid_argument,
                fmt::format("max_grad_norm: {}, but must be at least 0", options.max_grad_norm));
}

std::function<void(Rank, float)> norm_taker(tessera_engine& engine,
                                            const tessera_step_options& options) {
  engine.grad_norm.reset();
  if (options.grad_norm == 0 && !(options.max_grad_norm > 0)) return {};
  return [&engine](Rank rank, float norm) {
    if (rank == engine.runtime.calls->local_ranks().first()) engine.grad_norm = norm;
  };
}

namespace {

Status step(tessera_engine& engine, const tessera_step_options& options, tessera_compute_fn compute,
            void* user) {
  TESSERA_TRY(check_step(options));
  if (compute == nullptr) return Status(Code::invalid_argument, "compute: a function");
  TrainingOptions training{.accumulation = std::max(options.accumulation, 1),
                           .sync_every_micro_batch = options.reduce_last_only == 0,
                           .checkpointing = options.checkpoint != 0 ? ActivationCheckpointing::full
                                                                    : ActivationCheckpointing::none,
                           .adam = adam_of(options),
                           .max_grad_norm = options.max_grad_norm,
                           .grad_norm = norm_taker(engine, options)};
  training.body = [&](ModuleId module, ModuleWork::Pass pass,
                      std::int32_t micro_batch) -> std::function<void(const BodyContext&)> {
    return ProgramBody{engine.model.get(), engine.dtype, module, pass, micro_batch, compute, user};
  };
  return run_training_step(*engine.engine, *engine.model, training);
}

Status grad_norm(tessera_engine& engine, float& norm) {
  TESSERA_TRY(engine.runtime.calls->wait());
  if (!engine.grad_norm) {
    return Status(Code::invalid_argument,
                  "the last step computed no norm: set grad_norm or max_grad_norm of its options");
  }
  norm = *engine.grad_norm;
  return {};
}

}  // namespace

Result<ParameterId> known(const tessera_engine& engine, std::int32_t parameter) {
  const auto count = static_cast<std::int32_t>(engine.model->parameters.size());
  if (parameter >= 0 && parameter < count) return ParameterId{parameter};
  return Status(Code::invalid_argument,
                fmt::format("parameter {}: the model has {}", parameter, count));
}

}  // namespace tessera::c

using tessera::c::guarded;

int tessera_engine_create(tessera_runtime* runtime, const tessera_model* model, const char* scheme,
                          const char* options, tessera_engine** engine) {
  return guarded(
      [&]() -> tessera::Status {
        if (!model->model->reads.empty()) {
          return {tessera::Code::not_supported,
                  "the model has `reads`: callbacks get a module's own parameters only"};
        }
        const auto ranks = static_cast<tessera::Rank>(runtime->calls->world().count());
        TESSERA_ASSIGN(const tessera::Scheme chosen, tessera::c::scheme_of(scheme, options, ranks));
        TESSERA_ASSIGN(auto made, tessera::make_engine(*runtime->calls, *model->model, chosen));
        *engine = new tessera_engine{*runtime, model->model, tessera::compute_dtype(chosen), scheme,
                                     std::move(made)};
        if (runtime->trace) runtime->trace->engine_made(*(*engine)->engine);
        return {};
      },
      runtime, model, scheme, engine);
}

void tessera_engine_destroy(tessera_engine* engine) { delete engine; }

int tessera_engine_initialise(tessera_engine* engine, tessera_value_fn value, void* user) {
  return guarded(
      [&] {
        return engine->engine->initialise(
            [=](tessera::ParameterId parameter, tessera::Numel index) {
              return value(user, parameter.value, index.value);
            });
      },
      engine, reinterpret_cast<const void*>(value));
}

int tessera_engine_step(tessera_engine* engine, const tessera_step_options* options,
                        tessera_compute_fn compute, void* user) {
  return guarded(
      [&]() -> tessera::Status {
        TESSERA_ASSIGN(const auto given, tessera::c::taken(options));
        return tessera::c::step(*engine, given, compute, user);
      },
      engine);
}

int tessera_engine_read_shards(tessera_engine* engine, int32_t parameter, tessera_shard_fn read,
                               void* user) {
  return guarded(
      [&]() -> tessera::Status {
        TESSERA_ASSIGN(const tessera::ParameterId id, tessera::c::known(*engine, parameter));
        return engine->engine->inspect_shards(id, [&](tessera::Rank rank, tessera::Numel first,
                                                      std::span<const float> values) {
          read(user, rank, first.value, values.data(), static_cast<std::int64_t>(values.size()));
        });
      },
      engine, reinterpret_cast<const void*>(read));
}

int tessera_engine_grad_norm(tessera_engine* engine, float* norm) {
  return guarded([&] { return tessera::c::grad_norm(*engine, *norm); }, engine, norm);
}
