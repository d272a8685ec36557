// SPDX-License-Identifier: Apache-2.0
// A checkpoint of ours as published weights of several files: model-00001-of-00003.safetensors and
// an index that says which tensor is where, as transformers shards what is large; AdamW's state
// beside them in files of its own.
#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "engine/checkpoint/checkpoint_reader.h"
#include "engine/checkpoint/weights_file.h"
#include "exchange/checkpoints/new_folder.h"
#include "tessera/exchange/checkpoints.h"

namespace tessera::exchange {
namespace {

// A tensor of the new files, and where its elements are.
struct ShardTensor {
  CheckpointParameter stored;
  const CheckpointParameter* parameter = nullptr;
  StateTensor tensor = StateTensor::value;
  bool is_step = false;
};

std::int64_t bytes_of_tensor(const ShardTensor& tensor, DType dtype) {
  return numel_of(tensor.stored).value * size_of(dtype).value;
}

class ShardExport {
 public:
  ShardExport(CheckpointReader& reader, FileSystem& files, std::string folder, Bytes most)
      : reader_(reader), files_(files), folder_(std::move(folder)), most_(most) {}

  Status write(const std::string& name, const std::vector<ShardTensor>& tensors, DType dtype) {
    const auto shards = shards_of(tensors, dtype);
    nlohmann::json index = {{"metadata", {{"total_size", 0}}},
                            {"weight_map", nlohmann::json::object()}};
    std::int64_t total = 0;
    for (std::size_t k = 0; k < shards.size(); ++k) {
      const std::string file =
          fmt::format("{}-{:05}-of-{:05}.safetensors", name, k + 1, shards.size());
      TESSERA_TRY(write_shard(folder_ + "/" + file, shards[k], dtype));
      for (const ShardTensor& tensor : shards[k]) {
        index["weight_map"][tensor.stored.name] = file;
        total += bytes_of_tensor(tensor, dtype);
      }
    }
    index["metadata"]["total_size"] = total;
    return write_text(files_, folder_ + "/" + name + ".safetensors.index.json",
                      index.dump(2) + "\n");
  }

 private:
  using Shard = std::vector<ShardTensor>;

  // In order, each file as full as it may be; a tensor is never cut.
  std::vector<Shard> shards_of(const std::vector<ShardTensor>& tensors, DType dtype) const {
    std::vector<Shard> out(1);
    std::int64_t filled = 0;
    for (const ShardTensor& tensor : tensors) {
      const std::int64_t bytes = bytes_of_tensor(tensor, dtype);
      if (!out.back().empty() && filled + bytes > most_.value) {
        out.emplace_back();
        filled = 0;
      }
      out.back().push_back(tensor);
      filled += bytes;
    }
    return out;
  }

  Status write_shard(const std::string& file, const Shard& shard, DType dtype) {
    std::vector<CheckpointParameter> stored;
    for (const ShardTensor& tensor : shard) stored.push_back(tensor.stored);
    TESSERA_ASSIGN(WeightsFile out, WeightsFile::create(file, stored, dtype));
    for (const ShardTensor& tensor : shard) TESSERA_TRY(write_tensor(out, tensor));
    return out.finish();
  }

  Status write_tensor(WeightsFile& out, const ShardTensor& tensor) {
    if (tensor.is_step) {
      const auto step = static_cast<float>(tensor.parameter->steps);
      return out.write(tensor.stored.name, Numel{0}, {&step, 1});
    }
    const Numel numel = numel_of(tensor.stored);
    std::vector<float> values;
    for (Numel first{}; first < numel; first += piece_numel_max) {
      values.resize(static_cast<std::size_t>(std::min(piece_numel_max, numel - first).value));
      TESSERA_TRY(reader_.read(tensor.parameter->name, tensor.tensor, 0, first, values));
      TESSERA_TRY(out.write(tensor.stored.name, first, values));
    }
    return {};
  }

  CheckpointReader& reader_;
  FileSystem& files_;
  const std::string folder_;
  const Bytes most_;
};

std::vector<ShardTensor> values_of(const std::vector<CheckpointParameter>& parameters) {
  std::vector<ShardTensor> out;
  for (const CheckpointParameter& p : parameters) out.push_back({p, &p});
  return out;
}

std::vector<ShardTensor> states_of(const std::vector<CheckpointParameter>& parameters) {
  std::vector<ShardTensor> out;
  for (const CheckpointParameter& p : parameters) {
    if (p.steps == 0) continue;
    const std::string name = "state." + p.name;
    out.push_back({{name + ".exp_avg", p.shape, 0}, &p, StateTensor::exp_avg});
    out.push_back({{name + ".exp_avg_sq", p.shape, 0}, &p, StateTensor::exp_avg_sq});
    out.push_back({{name + ".step", {}, 0}, &p, StateTensor::value, true});
  }
  return out;
}

}  // namespace

Status export_shards(const std::string& path, const std::string& folder,
                     const ShardExportOptions& options) {
  FileSystem& files = system_files();
  return fill_new_folder(folder, "weights in several files", [&]() -> Status {
    TESSERA_ASSIGN(CheckpointReader reader, CheckpointReader::open(files, path));
    TESSERA_TRY(files.make_folder(folder));
    ShardExport out(reader, files, folder, options.most);
    const auto& parameters = reader.manifest().parameters;
    TESSERA_TRY(out.write("model", values_of(parameters), options.dtype));
    const auto states = states_of(parameters);
    if (options.with_state && !states.empty()) {
      TESSERA_TRY(out.write("optimizer", states, DType::float32));
    }
    return files.sync_folder(folder);
  });
}

}  // namespace tessera::exchange
