// SPDX-License-Identifier: Apache-2.0
// The facts about a run that must be alike on all ranks.
#pragma once

#include "cli/train/agreement.h"
#include "cli/train/train_options.h"

namespace tessera::cli {

/// The version of the program, the model's description, and all options of the command that change
/// what is computed, given or not; not the content of files that they name.
Facts command_facts(const CLI::App& command, const std::string& model_path, const Model& model);
/// The bytes of the model's description, as a checksum: every key of it may change what is
/// computed.
std::string model_fact(const std::string& path, const Model& model);
/// The length of a corpus, and a checksum of its content.
std::string corpus_fact(const Corpus& corpus);
/// The length of a file, or of the tokenizer.json in a folder, and a checksum of 64 places in it.
std::string file_fact(const std::string& path);
/// As file_fact; of an index of several files also of these.
std::string weights_fact(const std::string& path);
/// The step of a checkpoint, or of the newest in a folder, and a checksum of its manifest.
std::string checkpoint_fact(const std::string& path);

/// All options of the command that change what is computed, given or not, and the content of the
/// files that they name; the program's version.
Facts facts_of(const TrainArguments& arguments, const TrainRun& run, const TrainData& data);

}  // namespace tessera::cli
