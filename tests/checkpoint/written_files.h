// SPDX-License-Identifier: Apache-2.0
// Checkpoints without an engine: what two ranks write, and whether it can be read.
#pragma once

#include <catch2/catch.hpp>
#include <string>
#include <vector>

#include "engine/checkpoint/checkpoint_reader.h"

namespace tessera::test {

/// Numbers that depend on step, tensor and element.
inline float number(std::int64_t step, StateTensor tensor, std::int64_t i) {
  return static_cast<float>(1000 * step + 100 * static_cast<int>(tensor) + i);
}

inline const std::vector<CheckpointParameter>& written_parameters() {
  static const std::vector<CheckpointParameter> all = {{"a.weight", {3, 5}, 2}, {"b.bias", {4}, 0}};
  return all;
}

/// The calls of a Checkpointer of two ranks, in its order.
inline Status write_files(FileSystem& files, std::int64_t step, std::int32_t keep,
                          const std::string& path = "run") {
  CheckpointFolder folder(files, path);
  TESSERA_TRY(files.make_folder(path));
  TESSERA_ASSIGN(const std::int32_t generation, folder.prepare(step));
  Manifest manifest{.step = step, .model = "model", .scheme = "scheme", .world_size = 2};
  manifest.parameters = written_parameters();
  manifest.blobs = {{"sampler", "here"}, {"bytes", std::string("\0\xFF", 2)}};
  for (Rank rank = 0; rank < 2; ++rank) {
    std::vector<std::vector<float>> data;
    std::vector<PieceData> pieces;
    data.reserve(8);
    for (const CheckpointParameter& p : manifest.parameters) {
      for (const auto tensor :
           {StateTensor::value, StateTensor::exp_avg, StateTensor::exp_avg_sq}) {
        if (tensor != StateTensor::value && p.steps == 0) continue;
        const std::int64_t half = (numel_of(p).value + 1) / 2;
        const std::int64_t first = rank * half;
        const std::int64_t end = std::min(numel_of(p).value, first + half);
        data.emplace_back();
        for (std::int64_t i = first; i < end; ++i) data.back().push_back(number(step, tensor, i));
        pieces.push_back({{p.name, tensor, Numel{first}, Numel{end - first}}, data.back()});
      }
    }
    const std::string name = CheckpointFolder::rank_file(rank, generation);
    TESSERA_ASSIGN(const std::uint64_t sum,
                   write_piece_file(files, folder.of_step(step) + "/" + name, pieces));
    manifest.files.push_back({.name = name, .header_sum = sum});
  }
  return folder.complete(std::move(manifest), keep);
}

/// Every element of the newest checkpoint, by parameter and tensor; nothing if it is refused.
inline Result<std::vector<std::vector<float>>> read_files(FileSystem& files) {
  TESSERA_ASSIGN(CheckpointReader reader, CheckpointReader::open(files, "run"));
  TESSERA_TRY(reader.verify());
  std::vector<std::vector<float>> all = {{static_cast<float>(reader.manifest().step)}};
  for (const CheckpointParameter& p : reader.manifest().parameters) {
    for (const auto tensor : {StateTensor::value, StateTensor::exp_avg, StateTensor::exp_avg_sq}) {
      if (tensor != StateTensor::value && p.steps == 0) continue;
      all.emplace_back(static_cast<std::size_t>(numel_of(p).value));
      TESSERA_TRY(reader.read(p.name, tensor, 0, Numel{0}, all.back()));
    }
  }
  return all;
}

inline std::vector<std::vector<float>> expected_files(std::int64_t step) {
  std::vector<std::vector<float>> all = {{static_cast<float>(step)}};
  for (const CheckpointParameter& p : written_parameters()) {
    for (const auto tensor : {StateTensor::value, StateTensor::exp_avg, StateTensor::exp_avg_sq}) {
      if (tensor != StateTensor::value && p.steps == 0) continue;
      all.emplace_back();
      for (std::int64_t i = 0; i < numel_of(p).value; ++i) {
        all.back().push_back(number(step, tensor, i));
      }
    }
  }
  return all;
}

}  // namespace tessera::test
