// SPDX-License-Identifier: Apache-2.0
// The objects behind the handles of the C API, and the conversion of errors to codes.
#pragma once

#include <algorithm>
#include <cstring>
#include <exception>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "c/program_trace.h"
#include "tessera/c/tessera.h"
#include "tessera/engine.h"
#include "tessera/process_runtime.h"
#include "tessera/scheme.h"
#include "tessera/sim/cost_model.h"

struct tessera_model {
  std::shared_ptr<const tessera::Model> model;
};

struct tessera_runtime {
  std::unique_ptr<tessera::sim::CostModel> cost;    // the simulator's, which must outlive it
  std::unique_ptr<tessera::c::ProgramTrace> trace;  // which must, too
  std::unique_ptr<tessera::CheckedRuntime> calls;
  tessera::ProcessRuntime* process = nullptr;  // the same one, unless it is the simulator
};

struct tessera_engine {
  // The state of a step that the program drives pass by pass.
  struct Driven {
    std::optional<tessera::ModuleWork::Pass> pass;
    std::int32_t micro_batch = 0;
    std::map<tessera::ParameterId, int>
        uses;  // uses in the last forward that backward has yet to do
  };

  tessera_runtime& runtime;
  std::shared_ptr<const tessera::Model> model;
  tessera::DType dtype;  // of forward and backward
  std::string scheme;
  std::unique_ptr<tessera::Engine> engine;
  Driven driven = {};
  std::string loaded_state = {};
  std::optional<float> grad_norm = {};  // of the last step, on the first local rank
};

namespace tessera::c {

/// Remembers the message for tessera_last_error.
int code_of(const Status& status);

/// Runs `call`, which returns a Status, unless one of `pointers` is null. Nothing is thrown beyond
/// it.
template <class Call, class... Pointers>
int guarded(const Call& call, const Pointers*... pointers) {
  try {
    const auto is_null = [](const void* pointer) { return pointer == nullptr; };
    if ((is_null(pointers) || ...)) {
      return code_of(Status(Code::invalid_argument, "an argument is null that must not be"));
    }
    return code_of(call());
  } catch (const std::bad_alloc&) {
    return code_of(Status(Code::out_of_memory, "the process has no memory left"));
  } catch (const std::exception& error) {
    return code_of(Status(Code::invalid_argument, error.what()));
  }
}

/// A copy of the caller's struct, whose version may have fewer members or more; null: zeros. Fails:
/// invalid_argument, if `struct_size` is not set: what the caller says would be left out.
template <class Options>
Result<Options> taken(const Options* given) {
  Options all{};
  if (given == nullptr) return all;
  if (given->struct_size < sizeof given->struct_size) {
    return Status(Code::invalid_argument,
                  "struct_size of a struct is not set: set it to sizeof(the struct)");
  }
  std::memcpy(&all, given, std::min<std::size_t>(given->struct_size, sizeof all));
  return all;
}

/// Fails: invalid_argument.
Result<ParameterId> known(const tessera_engine& engine, std::int32_t parameter);

/// The parameters that bodies of `module` see: its own, then those of its children.
std::vector<ParameterId> parameters_of(const Model& model, ModuleId module);

/// Calls the program with the views of one module.
struct ProgramBody {
  const Model* model;
  DType dtype;
  ModuleId module;
  ModuleWork::Pass pass;
  std::int32_t micro_batch;
  tessera_compute_fn compute;
  void* user;

  void operator()(const BodyContext& context) const;
};

AdamOptions adam_of(const tessera_step_options& options);

/// Fails: invalid_argument, for numbers below 0 and such that are none.
Status check_step(const tessera_step_options& options);

/// What keeps the norm of a step for tessera_engine_grad_norm, and forgets that of the last one;
/// empty: none is asked for.
std::function<void(Rank, float)> norm_taker(tessera_engine& engine,
                                            const tessera_step_options& options);

/// Fails: invalid_argument (no such scheme or option), not_supported.
Result<Scheme> scheme_of(const std::string& name, const char* options, Rank ranks);

}  // namespace tessera::c
