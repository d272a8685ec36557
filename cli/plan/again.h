// SPDX-License-Identifier: Apache-2.0
// A simulated run once more, from what its trace says about it.
#pragma once

#include <string>

#include "tessera/lora.h"
#include "tessera/sim/simulate.h"
#include "tessera/storage/trace_reader.h"

namespace tessera::cli {

struct Again {
  Model model;
  sim::SimulateOptions options;  // without sink and progress
};

/// What a recorded run trained, simulated or not.
struct DescribedRun {
  Model model;
  Scheme scheme;
  TrainingOptions training;
};

/// Fails: not_supported (a trace that does not say its model), invalid_argument (an option that
/// this version does not know), naming the trace.
Result<DescribedRun> described_run(const storage::TraceReader& reader, const std::string& trace);

/// What a trace keeps besides options: the texts of the model's and the cluster's description, and
/// the model's adapters, so that it can be made again wherever these files are, and whatever became
/// of them.
std::string sources_json(const std::string& model, const std::string& cluster,
                         const std::optional<LoraOptions>& lora);

/// Everything that the trace depends on. Fails: as TraceReader::open; not_supported (a trace that
/// says nothing about its sources, for instance of a run that was not simulated); invalid_argument
/// (an option that this version does not know), naming the trace.
Result<Again> read_again(const std::string& trace);

/// Whether both files hold the same bytes. Fails: io_error, naming the one that cannot be read.
Result<bool> same_bytes(const std::string& one, const std::string& other);

/// The whole file. Fails: io_error, naming it.
Result<std::string> file_text(const std::string& path);

}  // namespace tessera::cli
