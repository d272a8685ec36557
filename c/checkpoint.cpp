// SPDX-License-Identifier: Apache-2.0
#include "tessera/checkpoint.h"

#include <fmt/format.h>

#include "c/handles.h"

namespace tessera::c {
namespace {

constexpr const char* program_state = "program";

Status save(tessera_engine& engine, const char* directory, std::int64_t step,
            const tessera_save_options& options) {
  CheckpointOptions how{.directory = directory, .scheme = engine.scheme, .asynchronous = false};
  if (options.keep < -1 || step < 0) {
    return Status(Code::invalid_argument,
                  options.keep < -1
                      ? fmt::format("keep: {}, but must be -1 or more", options.keep)
                      : fmt::format("a checkpoint of step {}: must be at least 0", step));
  }
  if (options.keep != 0) how.keep = std::max(options.keep, 0);
  CheckpointBlobs blobs;
  if (options.state != nullptr) blobs[program_state] = options.state;
  TESSERA_ASSIGN(const auto checkpoints, Checkpointer::create(*engine.engine, how));
  return checkpoints->save(step, blobs);
}

Status load(tessera_engine& engine, const char* path, std::int64_t* step, const char** state) {
  TESSERA_ASSIGN(const CheckpointInfo info, load_checkpoint(*engine.engine, path));
  const auto found = info.blobs.find(program_state);
  engine.loaded_state = found == info.blobs.end() ? "" : found->second;
  if (step != nullptr) *step = info.step;
  if (state != nullptr) *state = engine.loaded_state.c_str();
  return {};
}

}  // namespace
}  // namespace tessera::c

using tessera::c::guarded;

int tessera_save(tessera_engine* engine, const char* directory, int64_t step,
                 const tessera_save_options* options) {
  return guarded(
      [&]() -> tessera::Status {
        TESSERA_ASSIGN(const auto given, tessera::c::taken(options));
        return tessera::c::save(*engine, directory, step, given);
      },
      engine, directory);
}

int tessera_load(tessera_engine* engine, const char* path, int64_t* step, const char** state) {
  return guarded([&] { return tessera::c::load(*engine, path, step, state); }, engine, path);
}
