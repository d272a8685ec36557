// SPDX-License-Identifier: Apache-2.0
#include "engine/checkpoint/checkpointer.h"

#include <fmt/format.h>

#include <algorithm>

namespace tessera {

EngineCheckpointer::EngineCheckpointer(EngineState state, const CheckpointOptions& options,
                                       FileSystem& files)
    : state_(std::move(state)),
      options_(options),
      files_(files),
      folder_(files, options.directory),
      background_(options.asynchronous) {}

std::string EngineCheckpointer::what() const {
  TESSERA_ASSERT(saved_ != nullptr, "a save has begun");
  return fmt::format("checkpoint of step {} in {}", saved_->manifest.step, folder_.path());
}

// Saving removes old checkpoints of the folder, which must not happen to those of another model.
// What cannot be removed, as it is no folder, would be found at the first save, and cost the steps
// until then.
Status EngineCheckpointer::check_folder() const {
  TESSERA_TRY(files_.make_folder(folder_.path()));
  TESSERA_ASSIGN(const CheckpointFolder::Content found, folder_.content());
  for (const std::int64_t step : found.unfinished) {
    if (files_.list(folder_.of_step(step)).ok()) continue;
    return Status(Code::invalid_argument,
                  fmt::format("{} is no folder, as checkpoints are: remove it, or give another "
                              "folder",
                              folder_.of_step(step)));
  }
  if (found.steps.empty()) return {};
  std::string path = folder_.of_step(found.steps.back());
  TESSERA_ASSIGN(const Manifest newest, read_manifest(files_, path));
  if (newest.model == state_.model().name) return {};
  return Status(Code::invalid_argument,
                fmt::format("{} is a checkpoint of {}, not of {}: give another folder", path,
                            newest.model, state_.model().name));
}

Status EngineCheckpointer::setup() {
  Status status;
  if (options_.directory.empty()) {
    status = Status(Code::invalid_argument, "checkpoints need a directory");
  } else if (options_.keep < 0) {
    status = Status(Code::invalid_argument,
                    fmt::format("keep must be at least 0, found {}", options_.keep));
  } else if (state_.is_local(0)) {
    status = check_folder();
  }
  return state_.agree(status, fmt::format("opening {} for checkpoints", folder_.path()));
}

Manifest EngineCheckpointer::manifest_of(std::int64_t step, const CheckpointBlobs& blobs) const {
  Manifest manifest{.step = step, .model = state_.model().name, .scheme = options_.scheme};
  manifest.world_size = state_.world_size();
  const auto& parameters = state_.model().parameters;
  for (std::size_t p = 0; p < parameters.size(); ++p) {
    const ParameterId id{static_cast<std::int32_t>(p)};
    manifest.parameters.push_back(
        {parameters[p].name, parameters[p].shape, state_.steps_taken(id)});
  }
  manifest.blobs = blobs;
  return manifest;
}

// Removes the leftovers of earlier saves on rank 0 and returns the generation of the new files. The
// exchanges make it a barrier as well: no rank may write before the leftovers are gone, or its file
// would be removed with them.
Result<std::int32_t> EngineCheckpointer::prepare(std::int64_t step) {
  const auto low_bits = static_cast<float>(step % (1 << 24));
  TESSERA_ASSIGN(const auto steps, state_.exchange([=](Rank) { return low_bits; }));
  for (std::size_t rank = 0; rank < steps.size(); ++rank) {
    if (steps[rank] == low_bits) continue;
    return Status(Code::divergent,
                  fmt::format("rank {} saves a checkpoint of another step than {}", rank, step));
  }
  Status status;
  std::int32_t generation = 0;
  if (step < 0) {
    status = Status(Code::invalid_argument, fmt::format("step must be at least 0, found {}", step));
  } else if (state_.is_local(0)) {
    auto prepared = folder_.prepare(step);
    status = prepared.status();
    if (prepared.ok()) generation = *prepared;
  }
  TESSERA_TRY(state_.agree(
      status, fmt::format("making room for a checkpoint of step {} in {}", step, folder_.path())));
  const auto own = static_cast<float>(generation);
  TESSERA_ASSIGN(const auto all, state_.exchange([=](Rank) { return own; }));
  return static_cast<std::int32_t>(all[0]);
}

Status EngineCheckpointer::save(std::int64_t step, const CheckpointBlobs& blobs) {
  TESSERA_TRY(state_.expect_idle("save"));
  TESSERA_TRY(finish());  // one save at a time: the snapshot's host memory is used again
  TESSERA_ASSERT(phase_ == Phase::idle, "the save before is over");
  TESSERA_ASSIGN(const std::int32_t generation, prepare(step));
  // After all that can be refused: copies take host memory of every rank.
  snapshot_.emplace(state_.state());
  TESSERA_TRY(snapshot_->take());
  saved_ = std::make_shared<Files>();
  saved_->generation = generation;
  saved_->manifest = manifest_of(step, blobs);
  for (const Rank rank : state_.local_ranks()) {
    saved_->pieces.emplace_back(rank, snapshot_->pieces(rank));
  }
  phase_ = Phase::writing;
  // The thread owns a share of `saved_` and touches nothing else of this object. It must not see
  // the engine, which trains on meanwhile; the snapshot keeps the values alive until it has
  // finished.
  background_.start([files = &files_, folder = folder_.of_step(step), saved = saved_]() -> Status {
    for (const auto& [rank, pieces] : saved->pieces) {
      const std::string path = folder + "/" + CheckpointFolder::rank_file(rank, saved->generation);
      TESSERA_ASSIGN(const std::uint64_t sum, write_piece_file(*files, path, pieces));
      saved->sums.push_back(sum);
    }
    return {};
  });
  return options_.asynchronous ? Status{} : finish();
}

// Phases change on all ranks in the same call, although their threads finish at different times:
// each call asks all ranks, and only when none is pending the phase ends. Ranks that decided alone
// would call different collectives.
Status EngineCheckpointer::advance(bool to_the_end) {
  while (phase_ != Phase::idle) {
    // The wait is short, because the other ranks wait for this rank's answer and have deadlines.
    const bool done = to_the_end ? background_.wait_a_moment() : background_.done();
    TESSERA_ASSIGN(const auto pending,
                   state_.exchange([done](Rank) { return done ? 0.0F : 1.0F; }));
    if (std::any_of(pending.begin(), pending.end(), [](float p) { return p != 0; })) {
      if (to_the_end) continue;
      return {};
    }
    const Status result = background_.take();
    if (phase_ == Phase::completing) {
      phase_ = Phase::idle;
      return state_.agree(result, "completing the " + what());
    }
    TESSERA_TRY(end_of_writing(result));
  }
  return {};
}

// Every rank's file is on its disk. Their header checksums go into the manifest, which therefore
// vouches for every byte; rank 0 writes it in the background while training goes on.
Status EngineCheckpointer::end_of_writing(const Status& written) {
  TESSERA_ASSERT(phase_ == Phase::writing && snapshot_.has_value(), "a save is being written");
  // Idle first: whatever fails below has ended this save on all ranks, and the next one may begin.
  phase_ = Phase::idle;
  TESSERA_TRY(snapshot_->give_back());
  TESSERA_TRY(state_.agree(written, "writing the " + what()));
  TESSERA_ASSIGN(const auto sums, state_.exchange_wide([&](Rank rank) {
    TESSERA_ASSERT(saved_->sums.size() == saved_->pieces.size(), "a checksum per written file");
    for (std::size_t k = 0; k < saved_->pieces.size(); ++k) {
      if (saved_->pieces[k].first == rank) return saved_->sums[k];
    }
    return std::uint64_t{0};
  }));
  for (Rank rank = 0; rank < state_.world_size(); ++rank) {
    saved_->manifest.files.push_back({.name = CheckpointFolder::rank_file(rank, saved_->generation),
                                      .header_sum = sums[static_cast<std::size_t>(rank)]});
  }
  phase_ = Phase::completing;
  if (!state_.is_local(0)) return {};
  background_.start([folder = folder_, saved = saved_, keep = options_.keep]() mutable {
    return folder.complete(saved->manifest, keep);
  });
  return {};
}

Result<std::unique_ptr<Checkpointer>> make_checkpointer(Engine& engine,
                                                        const CheckpointOptions& options,
                                                        FileSystem& files) {
  TESSERA_ASSIGN(const EngineState state, EngineState::of(engine));
  auto checkpointer = std::make_unique<EngineCheckpointer>(state, options, files);
  TESSERA_TRY(checkpointer->setup());
  return std::unique_ptr<Checkpointer>(std::move(checkpointer));
}

Result<std::unique_ptr<Checkpointer>> Checkpointer::create(Engine& engine,
                                                           const CheckpointOptions& options) {
  return make_checkpointer(engine, options, system_files());
}

}  // namespace tessera
