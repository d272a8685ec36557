// SPDX-License-Identifier: Apache-2.0
// Sharded checkpoints: everything that a training run needs to go on, bit by bit, under any scheme
// and with any number of ranks.
//
// The idea: stored data are named by what they are, a range of elements of one tensor (value,
// exp_avg, exp_avg_sq) of one parameter, and not by the rank that held them. Every rank writes what
// it holds, replicas share the work, and a rank that loads reads the ranges that it needs. A
// checkpoint exists from the moment its manifest does, which is written last and atomically: if any
// process is killed at any time, the previous checkpoint stays loadable.
//
//   TESSERA_ASSIGN(auto checkpoints, Checkpointer::create(*engine, {.directory = "run"}));
//   for (...) {
//     TESSERA_TRY(run_training_step(*engine, model, options));
//     if (step % 100 == 0) TESSERA_TRY(checkpoints->save(step, {{"sampler", sampler.state()}}));
//     TESSERA_TRY(checkpoints->poll());
//   }
//   TESSERA_TRY(checkpoints->finish());
//   ...
//   TESSERA_ASSIGN(const std::string newest, latest_checkpoint("run"));   // another run
//   TESSERA_ASSIGN(const CheckpointInfo saved, load_checkpoint(*other, newest));
//   sampler.resume(saved.blobs.at("sampler"));
//
// A folder has one folder per checkpoint, step-000123, with a manifest.json and files that are
// safetensors (docs/checkpoint-format.md). It must be the same folder for all ranks.
//
// Saved are values and optimizer state in float32, how often each parameter was stepped, and the
// host program's own blobs. Not saved: gradients, the errors that gradient compression keeps
// (PowerSGD), Model::buffers.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "tessera/engine.h"

namespace tessera {

/// Data of the host program, any bytes by name, which loading gives back. Rank 0's are stored.
using CheckpointBlobs = std::map<std::string, std::string>;

struct CheckpointParameter {
  std::string name;
  std::vector<std::int64_t> shape;
  std::int64_t steps = 0;  // 0: no optimizer state
};

struct CheckpointFile {
  std::string name;
  Bytes bytes{};
};

/// The contents of a manifest.
struct CheckpointInfo {
  std::string path;  // the checkpoint's own folder
  std::int64_t step = 0;
  std::string model;
  std::string scheme;   // the scheme that wrote it; for people only
  Rank world_size = 1;  // the number of ranks that wrote it; for people only
  std::vector<CheckpointParameter> parameters;
  std::vector<CheckpointFile> files;
  CheckpointBlobs blobs;

  Bytes bytes() const;
};

struct CheckpointOptions {
  std::string directory = {};
  std::string scheme = {};   // kept in the manifest
  std::int32_t keep = 2;     // the newest so many; 0: all
  bool asynchronous = true;  // false: `save` returns when the checkpoint exists
};

/// Saves checkpoints of one engine. Every rank calls the same functions at the same time, between
/// two steps. When a call fails because of files, it fails on all ranks, training may go on, and
/// the next `save` tries anew.
class Checkpointer {
 public:
  /// Makes the folder. The engine must outlive it.
  /// Fails: invalid_argument (no directory, a negative keep; the folder has checkpoints of another
  /// model, or a file that is called as a checkpoint's folder), not_supported (an engine of
  /// independent process groups; an Engine from elsewhere; a runtime without numbers), io_error,
  /// all naming what.
  static Result<std::unique_ptr<Checkpointer>> create(Engine& engine,
                                                      const CheckpointOptions& options);
  /// Waits for files that are being written. A checkpoint that was not finished is not there.
  virtual ~Checkpointer() = default;

  /// Copies what this process holds to host memory, on the compute stream, and returns; a thread
  /// writes it while training goes on. Waits for the save before. A checkpoint of the same step is
  /// replaced. Fails: invalid_argument (in forward or backward, a negative step), out_of_memory,
  /// io_error (of this save or of the one before, naming rank and file).
  virtual Status save(std::int64_t step, const CheckpointBlobs& blobs) = 0;
  /// Asks the other ranks whether all have written, and completes the checkpoint if so; nothing
  /// where nothing is being saved. Call it after every step. Stops the host as Runtime::read does.
  /// Fails: io_error, as save.
  virtual Status poll() = 0;
  /// Waits until everything is complete. Call it at the end, before the runtime's own finish.
  virtual Status finish() = 0;
};

/// The folders of complete checkpoints in `directory`, oldest first; none if it does not exist.
/// Fails: io_error.
Result<std::vector<std::string>> list_checkpoints(const std::string& directory);
/// Folders in a directory that whoever asks for its newest checkpoint passes by.
struct PassedCheckpoints {
  std::vector<std::string> renamed;     // complete, but not called by their step
  std::vector<std::string> unfinished;  // of later steps than the newest, without a manifest
};
/// Fails: io_error.
Result<PassedCheckpoints> passed_checkpoints(const std::string& directory);
/// The newest one's folder. Fails: io_error (also if there is none), naming `directory`.
Result<std::string> latest_checkpoint(const std::string& directory);

/// `path` is a checkpoint's folder, or one of several of which the newest is meant.
/// Fails: io_error, corrupt (no checkpoint; damaged), not_supported (a newer format), naming file
/// and key.
Result<CheckpointInfo> read_checkpoint(const std::string& path);

/// Reads every byte of the checkpoint. Fails: as read_checkpoint; corrupt (a checksum or a size
/// does not match, elements are missing or stored twice), naming file and tensor.
Status verify_checkpoint(const std::string& path);

/// Loads a checkpoint: every rank reads the ranges of elements that it holds and no others. Call it
/// between two steps, on all ranks at the same time. Param groups and options are not loaded.
/// Fails: as read_checkpoint; invalid_argument (another model: a name or shape, naming it; in
/// forward or backward; a parameter with optimizer state that is in no param group): nothing has
/// changed then. corrupt or io_error while data are read: what the engine holds is undefined, load
/// another one. If it fails on one rank, it fails on all, naming the rank.
Result<CheckpointInfo> load_checkpoint(Engine& engine, const std::string& path);

/// Writes all parameters into one safetensors file with their published names, without an engine
/// and in little memory. Fails: as read_checkpoint, corrupt, io_error; invalid_argument (no float
/// dtype).
Status export_checkpoint(const std::string& path, const std::string& file,
                         DType dtype = DType::float32);

}  // namespace tessera
