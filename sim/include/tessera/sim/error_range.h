// SPDX-License-Identifier: Apache-2.0
// How far a simulated number may be from the real one, by what published runs near it showed.
//
//   const ErrorRange range = step_time_error({.profile = "mosaic", .gpu = "H100 SXM 80 GB", ...});
//   range.text;   // "step time within 10 % for 9 in 10 of 35 runs of ..."
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "tessera/model.h"
#include "tessera/sim/cost_model.h"

namespace tessera::sim {

struct SimulateOptions;

struct ErrorRange {
  bool near = false;  // whether something like it was validated
  double p90 = 0;    // of 10 validated ones, 9 are nearer: 0.1 is 10 %; unless near: of the nearest
                     // or of all systems that nothing was fitted to, whichever is worse
  std::string text;  // a sentence
};

/// {"near": true, "p90": 0.1, "text": "..."}, for traces and reports.
std::string to_json(const ErrorRange& range);

/// Names are those of shipped files; a changed one has another name (name_unless_changed).
struct SimulatedRun {
  std::string profile, gpu, cluster, scheme;
  Rank ranks = 1;
  Numel parameters{};
  std::int64_t sequence = 0, tokens = 0;  // of a sequence, of a micro-batch; 0: of any
  std::string checkpointing = {};         // none, full, operators or "norm+ffn"; empty: any
  std::string offload = {};               // "optimizer", "parameters to NVMe"; empty: nothing
  std::string frozen = {};                // "LoRA", "QLoRA", "some"; empty: all is trained
  std::string memory_profile = {};        // whose memory is the same; empty: `profile`
  std::int64_t micro_batches = 0;         // of a step; 0: any
  /// Other options that it was made with, by name: "reduce_dtype" and "bfloat16".
  std::vector<std::pair<std::string, std::string>> options = {};
  /// What all validated runs are and this one is not: "it has no experts".
  std::vector<std::string> beside = {};
};

/// All of it, of a run.
SimulatedRun run_of(const Model& model, const SimulateOptions& options);

/// From the family of validated runs (docs/validation.md) that is nearest; a sentence that says so
/// where none is near.
ErrorRange step_time_error(const SimulatedRun& run);

/// Of a profile that was fitted to runs of the same machine.
ErrorRange calibrated_error(std::int64_t runs, double p90);

/// Of the memory of a program that plans its bytes itself (StackProfile::program).
ErrorRange planned_memory_error();

/// The same of peak memory, from runs whose memory was compared.
ErrorRange memory_error(const SimulatedRun& run);

/// The same of collectives from `least` to `most` bytes in a group of that shape.
ErrorRange collective_error(const std::string& cluster, const CollectiveShape& shape, Bytes least,
                            Bytes most);

/// The name of what is shipped, or "NAME, changed": nothing was validated with that.
std::string name_unless_changed(const Cluster& cluster);
std::string name_unless_changed(const StackProfile& profile);

}  // namespace tessera::sim
