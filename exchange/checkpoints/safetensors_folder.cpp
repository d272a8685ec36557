// SPDX-License-Identifier: Apache-2.0
// Published weights with an index, and AdamW's state beside them (export_shards.cpp).
#include <fmt/format.h>

#include "engine/checkpoint/weight_files.h"
#include "engine/checkpoint/weights_file.h"
#include "engine/numbers/number.h"
#include "exchange/checkpoints/foreign_checkpoint.h"

namespace tessera::exchange {
namespace {

constexpr const char* weights_index = "/model.safetensors.index.json";
constexpr const char* states_index = "/optimizer.safetensors.index.json";

class SafetensorsFolder final : public ForeignCheckpoint {
 public:
  Status open(FileSystem& files, const std::string& path) {
    TESSERA_TRY(add(path + weights_index));
    return files.exists(path + states_index) ? add(path + states_index) : Status{};
  }

  std::string format() const override { return "safetensors with an index"; }
  const Shapes& tensors() const override { return shapes_; }

  Result<std::vector<float>> read(const std::string& name) const override {
    const Place& place = places_.at(name);
    const StoredTensor& stored = *place.tensor.stored;
    std::vector<std::byte> bytes(static_cast<std::size_t>((stored.end - stored.begin).value));
    TESSERA_TRY(opened_[place.index]->read(place.tensor, Numel{0}, bytes));
    std::vector<float> values(static_cast<std::size_t>(stored.numel().value));
    for (std::size_t i = 0; i < values.size(); ++i) {
      values[i] = static_cast<float>(load_number(bytes, stored.dtype, i));
    }
    return values;
  }

 private:
  struct Place {
    std::size_t index = 0;
    PublishedTensor tensor;
  };

  Status add(const std::string& path) {
    TESSERA_ASSIGN(WeightFiles weights, WeightFiles::open(path));
    opened_.push_back(std::make_unique<WeightFiles>(std::move(weights)));
    for (const PublishedTensor& tensor : opened_.back()->tensors()) {
      if (!is_weight_dtype(tensor.stored->dtype)) continue;
      shapes_[tensor.stored->name] = tensor.stored->shape;
      places_[tensor.stored->name] = {opened_.size() - 1, tensor};
    }
    return {};
  }

  std::vector<std::unique_ptr<WeightFiles>> opened_;
  Shapes shapes_;
  std::map<std::string, Place> places_;
};

}  // namespace

bool is_safetensors_folder(FileSystem& files, const std::string& path) {
  return files.exists(path + weights_index);
}

Result<std::unique_ptr<ForeignCheckpoint>> open_safetensors_folder(FileSystem& files,
                                                                   const std::string& path) {
  auto made = std::make_unique<SafetensorsFolder>();
  TESSERA_TRY(made->open(files, path));
  return std::unique_ptr<ForeignCheckpoint>(std::move(made));
}

}  // namespace tessera::exchange
