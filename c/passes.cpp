// SPDX-License-Identifier: Apache-2.0
// Steps that the program drives itself, module by module.
#include <fmt/format.h>

#include <limits>

#include "c/handles.h"

namespace tessera::c {
namespace {

using Pass = ModuleWork::Pass;

Result<ModuleId> module_named(const tessera_engine& engine, const char* name, const char* call) {
  if (!engine.driven.pass) {
    return Status(Code::invalid_argument,
                  fmt::format("{} of module {}: call tessera_engine_begin first", call, name));
  }
  const ModuleId id = engine.model->find_module(name);
  if (id.valid()) return id;
  return Status(Code::invalid_argument,
                fmt::format("{}: {} has no module {}", call, engine.model->name, name));
}

Status begin(tessera_engine& engine, std::int32_t kind) {
  Engine& e = *engine.engine;
  if (engine.driven.pass) {
    return Status(Code::invalid_argument,
                  "tessera_engine_begin: the pass before has not ended: call tessera_engine_end");
  }
  const ModuleId root{0};
  if (kind == TESSERA_BACKWARD) {
    TESSERA_TRY(e.begin_backward());
    TESSERA_TRY(e.pre_backward(root));
  } else if (kind == TESSERA_FORWARD || kind == TESSERA_EVALUATE) {
    const bool trains = kind == TESSERA_FORWARD;
    const auto use = trains ? ForwardPass::Use::train : ForwardPass::Use::evaluate;
    TESSERA_TRY(e.next_forward({.use = use, .graph = {}}));
    TESSERA_TRY(e.begin_forward());
    TESSERA_TRY(e.pre_forward(root));
    if (trains) engine.driven.uses.clear();
  } else {
    return Status(Code::invalid_argument,
                  fmt::format("tessera_engine_begin: {} is no pass that a program begins", kind));
  }
  engine.driven.pass = static_cast<Pass>(kind);
  return {};
}

Status enter(tessera_engine& engine, const char* name) {
  TESSERA_ASSIGN(const ModuleId id, module_named(engine, name, "tessera_engine_enter"));
  const bool backward = engine.driven.pass == Pass::backward;
  return backward ? engine.engine->pre_backward(id) : engine.engine->pre_forward(id);
}

Status leave(tessera_engine& engine, const char* name) {
  TESSERA_ASSIGN(const ModuleId id, module_named(engine, name, "tessera_engine_leave"));
  const bool backward = engine.driven.pass == Pass::backward;
  return backward ? engine.engine->post_backward(id) : engine.engine->post_forward(id);
}

// A parameter's gradient is complete after the backward of its first use.
Status count_uses(tessera_engine& engine, ModuleId module) {
  const std::vector<ParameterId> parameters = parameters_of(*engine.model, module);
  for (auto id = parameters.rbegin(); id != parameters.rend(); ++id) {
    int& uses = engine.driven.uses[*id];
    if (engine.driven.pass == Pass::forward) ++uses;
    if (engine.driven.pass != Pass::backward || --uses != 0) continue;
    if (engine.model->parameter(*id).requires_grad) TESSERA_TRY(engine.engine->grad_ready(*id));
  }
  return {};
}

Status compute(tessera_engine& engine, const char* name, tessera_compute_fn compute, void* user) {
  if (compute == nullptr) return Status(Code::invalid_argument, "compute: a function");
  TESSERA_ASSIGN(const ModuleId id, module_named(engine, name, "tessera_engine_compute"));
  ModuleWork work{.module = id, .pass = *engine.driven.pass};
  work.body = ProgramBody{engine.model.get(),        engine.dtype, id,  work.pass,
                          engine.driven.micro_batch, compute,      user};
  TESSERA_TRY(engine.engine->compute(work));
  TESSERA_TRY(engine.runtime.calls->wait());
  return count_uses(engine, id);
}

Status end(tessera_engine& engine) {
  if (!engine.driven.pass) {
    return Status(Code::invalid_argument,
                  "tessera_engine_end: no pass has begun: call tessera_engine_begin first");
  }
  Engine& e = *engine.engine;
  const Pass pass = *std::exchange(engine.driven.pass, std::nullopt);
  if (pass != Pass::backward) return e.post_forward(ModuleId{0});
  TESSERA_TRY(e.post_backward(ModuleId{0}));
  ++engine.driven.micro_batch;
  return e.end_backward();
}

Status update(tessera_engine& engine, const tessera_step_options& options) {
  TESSERA_TRY(check_step(options));
  if (options.accumulation > 1 || options.checkpoint != 0 || options.reduce_last_only != 0) {
    return Status(Code::invalid_argument,
                  "tessera_engine_update: accumulation, checkpoint and reduce_last_only are for "
                  "tessera_engine_step: a program that drives passes itself does what they say");
  }
  engine.driven.micro_batch = 0;
  const auto norm = norm_taker(engine, options);
  if (norm) {
    const float most =
        options.max_grad_norm > 0 ? options.max_grad_norm : std::numeric_limits<float>::infinity();
    TESSERA_TRY(engine.engine->clip_grad_norm(most, 2, norm));
  }
  return engine.engine->step(adam_of(options));
}

}  // namespace
}  // namespace tessera::c

using tessera::c::guarded;

int tessera_engine_begin(tessera_engine* engine, int32_t pass_kind) {
  return guarded([&] { return tessera::c::begin(*engine, pass_kind); }, engine);
}

int tessera_engine_enter(tessera_engine* engine, const char* module) {
  return guarded([&] { return tessera::c::enter(*engine, module); }, engine, module);
}

int tessera_engine_compute(tessera_engine* engine, const char* module, tessera_compute_fn compute,
                           void* user) {
  return guarded([&] { return tessera::c::compute(*engine, module, compute, user); }, engine,
                 module);
}

int tessera_engine_leave(tessera_engine* engine, const char* module) {
  return guarded([&] { return tessera::c::leave(*engine, module); }, engine, module);
}

int tessera_engine_end(tessera_engine* engine) {
  return guarded([&] { return tessera::c::end(*engine); }, engine);
}

int tessera_engine_update(tessera_engine* engine, const tessera_step_options* options) {
  return guarded(
      [&]() -> tessera::Status {
        TESSERA_ASSIGN(const auto given, tessera::c::taken(options));
        return tessera::c::update(*engine, given);
      },
      engine);
}
