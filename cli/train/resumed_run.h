// SPDX-License-Identifier: Apache-2.0
// What a run's numbers depend on, which its checkpoints keep, so that a run that goes on otherwise
// than it began says so.
#pragma once

#include <string>
#include <vector>

#include "cli/train/agreement.h"
#include "cli/train/train_options.h"
#include "tessera/trainer.h"

namespace tessera::cli {

/// The name of a checkpoint's blob with facts_text(numeric_facts(...)).
inline constexpr const char* facts_blob = "facts";

/// Model, options of the optimizer and of numbers, and how much a step learns from. Neither ranks,
/// scheme nor batch by themselves: a run may go on with others.
Facts numeric_facts(const TrainArguments& arguments, const TrainRun& run, const Trainer& trainer);
/// A sentence that names what has changed since the checkpoint with that text; "": nothing.
std::string changes_since(const std::string& checkpoint, const std::string& text, const Facts& now);

/// Warnings of what is in `folder` and passed by: checkpoints that have been renamed, or whose
/// saving did not end.
std::vector<std::string> passed_warnings(const std::string& folder);

/// The same, and one if a checkpoint (none: "") was trained as another model than that of the file.
std::vector<std::string> checkpoint_warnings(const std::string& checkpoint,
                                             const std::string& model_path, const Model& model);

/// Fails: invalid_argument, if a checkpoint (none: "") has adapters, which only its run can use.
Status check_no_adapters(const std::string& checkpoint);

}  // namespace tessera::cli
