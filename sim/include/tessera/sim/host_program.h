// SPDX-License-Identifier: Apache-2.0
// The program that a simulated run is of: what drives the engine, step by step.
//
// The idea: a model that is known by shape and cost needs no program of its own. One that trains
// for real plans its memory byte by byte; simulated, it has to plan the same bytes.
//
//   SimulateOptions options{...};
//   options.program = [](Runtime& runtime, const Model& model, const SimulateOptions& of) {
//     return MyProgram::create(runtime, model, of);
//   };
#pragma once

#include <functional>
#include <memory>

#include "tessera/engine.h"
#include "tessera/model.h"

namespace tessera::sim {

struct SimulateOptions;

class HostProgram {
 public:
  virtual ~HostProgram() = default;

  virtual Engine& engine() = 0;
  /// One training step. Fails: what the engine fails with.
  virtual Status step() = 0;
  /// After the last step: gives back what it took of the runtime.
  virtual Status finish() = 0;
};

/// Makes a program on `runtime`, which keeps no numbers and answers Runtime::read with 0. Runtime,
/// model and options outlive the program.
using HostProgramMaker = std::function<Result<std::unique_ptr<HostProgram>>(
    Runtime& runtime, const Model& model, const SimulateOptions& options)>;

}  // namespace tessera::sim
