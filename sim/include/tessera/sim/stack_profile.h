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

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "tessera/model.h"
#include "tessera/param_group.h"
#include "tessera/sim/gpu.h"
#include "tessera/status.h"
#include "tessera/trace.h"

namespace tessera::sim {

/// How long operations of one part of a model take beside what their costs say, as measured:
/// start_ns + factor * cost.
struct PartTime {
  std::string part;  // as part_of says
  Phase phase = Phase::none;
  Time start_ns = 0;
  double factor = 1;
};

/// What an operation belongs to: the last name of its module's path that is no number ("mlp" of
/// "transformer.h.3.mlp"), or what it is for ("step") where it has no module. Families that call
/// the same work by other names have those of Llama ("self_attn" of "transformer.h.3.attn").
std::string_view part_of(std::string_view module, Reason reason);

struct StackProfile {
  enum class Allocator : std::uint8_t {
    events,   // blocks are reused by the order of recorded events alone, as on this engine's GPUs
    pytorch,  // PyTorch's caching allocator: segments, streams apart, reuse when the host asks
    expandable,  // the same with expandable_segments
    planned,     // all places are decided before the run: as much as is held at once
  };
  enum class Loss : std::uint8_t {
    eager,    // logits, their fp32 copy and its gradient are kept and passed over one by one
    fused,    // one kernel each way, gradients over the logits
    chunked,  // fused, a part of the tokens at a time: the logits never exist as a whole
  };
  enum class Program : std::uint8_t {
    framework,  // holds what a framework's modules hold, by the model's costs
    train,      // tessera train's own on CPUs: the bytes that it plans, of `threads` threads a rank
  };
  enum class Saves : std::uint8_t {
    eager,     // what every operator keeps for its own backward
    fused,     // without the activation inside of a gated MLP, which its backward computes again
    compiled,  // and without what normalisations return
  };

  std::string name = "eager";
  std::string source;                // where its numbers come from
  std::string attention = "flash2";  // a curve of the GPU, "best" of them, or "unfused"
  // unfused: over the scores, in forward. Scaled, masked, their softmax in float32 and back, each
  // read and written: 2 + 2 + 3 + 3 (eager_attention_forward of transformers' Llama).
  double score_passes = 10;
  double elementwise_bytes = 1;  // beside what eager, well fused kernels of modules move
  double kernels = 1;            // launched, beside what modules say
  Time host_kernel_ns = 0;       // of the host, to issue a kernel of a module
  Time host_module_ns = 0;       // of the host, per call of a module that computes
  Time host_collective_ns = 0;   // of the host, per collective
  Time host_micro_batch_ns = 0;  // above 0: the program waits for the device before each training
                                 // pass, and takes so long before it goes on
  Time host_step_ns = 0;         // the same before the optimizer
  Time host_pass_ns = 0;         // of the host, per training pass, beside its operations
  double contention = 0;         // share of the time that compute loses beside communication
  double collectives = 1;        // their time, beside that on idle GPUs
  double gradient_bytes = 0;     // moved per parameter where backward adds its gradient to another
  Program program = Program::framework;
  std::int64_t threads = 1;  // of each rank, where the program plans memory by them
  Loss loss = Loss::eager;
  Saves saves = Saves::eager;
  bool fp8 = false;       // linear layers of blocks multiply in 8 bit, operands cast before
  double cast_bytes = 8;  // moved per element that is cast to fp8: the largest value, then the cast
  // Whether forward casts weights, too (and keeps what it has cast); or they are stored in fp8, or
  // cast once a step.
  bool casts_weights = true;
  bool autocast = false;  // matmuls of float32 parameters run in bf16, whose weights every
                          // micro-batch casts: torch.autocast
  bool dropout = true;    // where the model's architecture has it
  std::optional<StateType> optimizer_dtype;  // of the optimizer's states, where a run does not say
  Allocator allocator = Allocator::events;
  Bytes context{};  // of a GPU's memory: contexts, communication buffers, workspaces of libraries
  // As `tessera calibrate` finds it in traces of real runs:
  bool one_thread = false;           // a rank's operations run one by one, whatever their streams
  Time between_ns = 0;               // one_thread: from the end of an operation to the next
  std::vector<PartTime> parts;       // those not named take what their costs say
  std::int64_t calibrated_runs = 0;  // that it was fitted to
  double calibrated_p90 = 0;         // of 10 of them, 9 were nearer: 0.05 is 5 %
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
/// "events", "pytorch", "expandable", "planned".
const char* name_of(StackProfile::Allocator allocator);

/// All of it as a JSON object, which load_profile reads.
std::string to_json(const StackProfile& profile);

/// `model` with the costs that its modules have in this stack.
Model adapted(const Model& model, const StackProfile& profile);

/// The curve that the profile's attention means on `gpu`; null where it is unfused or the GPU has
/// none at all. Fails: invalid_argument, if the GPU has curves, but not this one.
Result<const AttentionCurve*> attention_of(const StackProfile& profile, const Gpu& gpu);

}  // namespace tessera::sim
