// SPDX-License-Identifier: Apache-2.0
// The software between a model and its GPUs: which kernels it runs, and how fast it issues them.
//
// The idea: the same GPU trains the same model up to twice as fast with fused kernels in CUDA
// graphs as with an eager framework. A profile says in a few numbers which of them a run is meant
// to be.
//
//   Result<StackProfile> stack = load_profile("compile");   // shipped, or a JSON file
//   stack->loss = StackProfile::Loss::chunked;
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "tessera/model.h"
#include "tessera/sim/gpu.h"
#include "tessera/status.h"

namespace tessera::sim {

struct StackProfile {
  enum class Allocator : std::uint8_t {
    events,   // blocks are reused by the order of recorded events alone, as on this engine's GPUs
    caching,  // before it is out of memory it waits for the device and gives back what is cached
  };
  enum class Loss : std::uint8_t {
    eager,    // logits, their fp32 copy and its gradient are kept and passed over one by one
    fused,    // one kernel each way, gradients over the logits
    chunked,  // fused, a part of the tokens at a time: the logits never exist as a whole
  };

  std::string name = "eager";
  std::string source;                // where its numbers come from
  std::string attention = "flash2";  // a curve of the GPU, "best" of them, or "unfused"
  double score_passes = 0;           // unfused: over the scores, in forward
  double elementwise_bytes = 1;      // beside what eager, well fused kernels of modules move
  double kernels = 1;                // launched, beside what modules say
  Time host_kernel_ns = 0;           // of the host, to issue a kernel of a module
  Time host_module_ns = 0;           // of the host, per call of a module that computes
  Time host_collective_ns = 0;       // of the host, per collective
  Time host_micro_batch_ns = 0;  // above 0: the program waits for the device before each training
                                 // pass, and takes so long before it goes on
  double contention = 0;         // share of the time that compute loses beside communication
  double collectives = 1;        // their time, beside that on idle GPUs
  double gradient_bytes = 0;     // moved per parameter where backward adds its gradient to another
  Loss loss = Loss::eager;
  bool dropout = true;  // where the model's architecture has it
  Allocator allocator = Allocator::events;
  Bytes context{};  // of a GPU's memory: contexts, communication buffers, workspaces of libraries
};

/// A shipped profile or a JSON file (docs/simulator.md), which may begin with a shipped one and
/// change some of it.
/// Fails: invalid_argument (neither; a bad key or value), naming it.
Result<StackProfile> load_profile(const std::string& name_or_path);

/// The same from text; `source` names it in messages.
Result<StackProfile> parse_profile(std::string_view json, const std::string& source);

/// Names of the shipped profiles.
std::vector<std::string> shipped_profile_names();

/// "eager", "fused", "chunked".
const char* name_of(StackProfile::Loss loss);

/// All of it as a JSON object, which load_profile reads.
std::string to_json(const StackProfile& profile);

/// `model` with the costs that its modules have in this stack.
Model adapted(const Model& model, const StackProfile& profile);

/// The curve that the profile's attention means on `gpu`; null where it is unfused or the GPU has
/// none at all. Fails: invalid_argument, if the GPU has curves, but not this one.
Result<const AttentionCurve*> attention_of(const StackProfile& profile, const Gpu& gpu);

}  // namespace tessera::sim
