// SPDX-License-Identifier: Apache-2.0
// Published weights: one safetensors file, or several and an index that says which tensor is where
// (model.safetensors.index.json, as transformers shards what is large).
//
//   TESSERA_ASSIGN(WeightFiles weights, WeightFiles::open("model.safetensors.index.json"));
//   for (const PublishedTensor& t : weights.tensors()) TESSERA_TRY(weights.read(t, first, bytes));
#pragma once

#include <string>
#include <vector>

#include "tessera/assert.h"
#include "tessera/safetensors.h"

namespace tessera {

struct PublishedTensor {
  std::size_t file = 0;
  const StoredTensor* stored = nullptr;  // of the WeightFiles
};

class WeightFiles {
 public:
  /// `path` is an index if it ends in ".json". Fails: as SafetensorsFile::open; corrupt (an index
  /// that is none, or names a tensor that its file does not have), naming file and tensor.
  static Result<WeightFiles> open(const std::string& path);

  const std::vector<PublishedTensor>& tensors() const { return tensors_; }
  /// As SafetensorsFile::read.
  Status read(const PublishedTensor& tensor, Numel first, std::span<std::byte> into) {
    TESSERA_ASSERT(tensor.file < files_.size() && tensor.stored != nullptr,
                   "a tensor of these files");
    return files_[tensor.file].read(*tensor.stored, first, into);
  }

 private:
  WeightFiles() = default;
  Status open_index(const std::string& path);

  std::vector<SafetensorsFile> files_;
  std::vector<PublishedTensor> tensors_;
};

}  // namespace tessera
