// SPDX-License-Identifier: Apache-2.0
// Makes a checkpoint (tessera/checkpoint.h) of one that PyTorch or DeepSpeed has saved, with
// AdamW's state, so that a run goes on here under any scheme and number of ranks.
//
// The idea: whoever held which part, a checkpoint is whole tensors with names. They are read one
// after another, matched with the model's parameters, and written; nothing in pickles is executed.
//
//   TESSERA_ASSIGN(const Model model, load_model("config.json"));
//   TESSERA_ASSIGN(const CheckpointImport done, import_checkpoint("ckpt", model, "run", {}));
//   // tessera train config.json --resume run
//
// Read are: torch.distributed.checkpoint (a folder with .metadata; FSDP, DDP, torchtitan), also
// what torch saved with its optimizer state under "optim.state." or "state."; DeepSpeed's
// zero_pp_rank_*_optim_states.pt of stages 1, 2 and 3, and its universal checkpoints.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "tessera/model.h"
#include "tessera/status.h"

namespace tessera::exchange {

struct CheckpointImportOptions {
  /// What stands in front of the parameters' names ("model."). None: found, if it is one alone.
  std::optional<std::string> prefix = {};
  /// Of the new checkpoint. None: how often its parameters were stepped.
  std::optional<std::int64_t> step = {};
};

/// The blob of a new checkpoint that says where it is from; it has no other. A run that goes on
/// from it has no order of samples, learning rate or loss scale of before.
inline constexpr const char* imported_blob = "imported";

struct CheckpointImport {
  std::string format;      // "PyTorch DCP", "DeepSpeed ZeRO-3 of 8 ranks"
  std::string checkpoint;  // the new folder
  std::int64_t step = 0;
  std::int64_t parameters = 0;
  std::int64_t with_state = 0;        // parameters that have been stepped
  std::vector<std::string> warnings;  // a sentence each: what was left out
};

/// Reads the checkpoint at `path` and makes one in the folder `directory`, which then has all that
/// the model has and is complete, or nothing. Takes the memory of the largest parameter and 256
/// MiB. Fails: invalid_argument (neither format; a parameter that is missing or has another shape;
/// several prefixes), corrupt, not_supported, io_error, naming file and tensor.
Result<CheckpointImport> import_checkpoint(const std::string& path, const Model& model,
                                           const std::string& directory,
                                           const CheckpointImportOptions& options);

/// The checkpoint at `path` (as for read_checkpoint) as one of torch.distributed.checkpoint in the
/// new folder `folder`: "model.NAME", "optim.state.NAME.exp_avg", "...exp_avg_sq" and "...step", in
/// float32. It has no param groups: load it with DefaultLoadPlanner(allow_partial_load=True).
/// `prefix` stands in front of every NAME ("transformer."). Takes the memory of the largest
/// parameter twice. Fails: invalid_argument (the folder exists), corrupt, io_error, not_supported
/// (a parameter of 4 GiB): then there is no folder.
Status export_dcp(const std::string& path, const std::string& folder,
                  const std::string& prefix = {});

/// The same as a universal checkpoint of DeepSpeed in the new folder `folder`, which its
/// load_checkpoint reads under stages 1 to 3 on any number of ranks ("load_universal": true).
/// Fails: as export_dcp; not_supported (parameters that were not stepped equally often): then there
/// is no folder.
Status export_universal(const std::string& path, const std::string& folder,
                        const std::string& prefix = {});

/// What files of DeepSpeed say beside tensors.
struct ZeroExportOptions {
  int stage = 3;            // 1 to 3
  std::int64_t ranks = 1;   // that will load them: DeepSpeed wants as many as saved
  std::string prefix = {};  // in front of every name
  /// Of the one group of parameters, which torch's optimizers take from the file.
  double learning_rate = 1e-3;
  double beta1 = 0.9, beta2 = 0.999, epsilon = 1e-8, weight_decay = 0.01;
};

/// The same as DeepSpeed's own files, zero_pp_rank_*_optim_states.pt and model states, in the new
/// folder `folder`, which load_checkpoint reads in a run of that stage and number of ranks whose
/// optimizer has one group. Names that the model has beside the checkpoint's (second names of tied
/// weights, buffers) need load_module_strict=False. Fails: as export_universal; invalid_argument
/// (no such stage or number of ranks): then there is no folder.
Status export_zero(const std::string& path, const std::string& folder,
                   const ZeroExportOptions& options);

}  // namespace tessera::exchange
