// SPDX-License-Identifier: Apache-2.0
// Checkpoints of torch.distributed.checkpoint: .metadata, a pickle that says which chunk of which
// tensor lies where, and files of many torch.save archives behind one another.
// Format: torch/distributed/checkpoint/metadata.py, filesystem.py.
#include <fmt/format.h>

#include <algorithm>
#include <span>

#include "exchange/checkpoints/foreign_checkpoint.h"
#include "exchange/checkpoints/torch_archive.h"
#include "exchange/parse/pickle.h"

namespace tessera::exchange {
namespace {

constexpr const char* dcp_metadata = ".metadata";

// A box of a tensor, and the bytes of its archive.
struct DcpChunk {
  std::vector<std::int64_t> offsets, sizes;
  std::string file;
  std::int64_t begin = 0, bytes = 0;
};

// Rows of the box, which are contiguous in both, go to their places in the whole.
void place_box(const DcpChunk& chunk, const std::vector<std::int64_t>& shape,
               std::span<const float> box, std::span<float> whole) {
  const std::size_t dims = shape.size();
  const std::int64_t row = dims == 0 ? 1 : chunk.sizes[dims - 1];
  if (box.empty()) return;
  std::vector<std::int64_t> at(dims, 0);
  for (std::size_t from = 0; from < box.size(); from += static_cast<std::size_t>(row)) {
    std::int64_t to = 0;
    for (std::size_t d = 0; d < dims; ++d) to = to * shape[d] + chunk.offsets[d] + at[d];
    std::copy_n(box.begin() + static_cast<std::ptrdiff_t>(from), row,
                whole.begin() + static_cast<std::ptrdiff_t>(to));
    for (std::size_t d = dims < 2 ? 0 : dims - 1; d > 0; --d) {
      if (++at[d - 1] < chunk.sizes[d - 1]) break;
      at[d - 1] = 0;
    }
  }
}

class DcpCheckpoint final : public ForeignCheckpoint {
 public:
  DcpCheckpoint(FileSystem& files, std::string path) : files_(files), path_(std::move(path)) {}

  Status open() {
    const std::string source = path_ + "/" + dcp_metadata;
    TESSERA_ASSIGN(std::string text, read_text(files_, source));
    Result<Tree> tree = parse_pickle(std::move(text));
    if (!tree.ok()) {
      return Status(tree.status().code(), fmt::format("{}: {}", source, tree.status().message()));
    }
    const TreeValue root = tree->root();
    if (!root.name().ends_with("checkpoint.metadata.Metadata")) {
      return corrupt("is no metadata of torch.distributed.checkpoint");
    }
    for (TreeItems items(root["state_dict_metadata"]); items.next();) {
      if (!items.value().name().ends_with("TensorStorageMetadata")) continue;
      shapes_[std::string(items.key().text())] = integers_of(items.value()["size"]);
    }
    TESSERA_TRY(read_places(root["storage_data"]));
    if (tree->exhausted()) return corrupt("has more entries than its size allows");
    return read_sizes(root["state_dict_metadata"]);
  }

  std::string format() const override { return "PyTorch DCP"; }
  const Shapes& tensors() const override { return shapes_; }

  Result<std::vector<float>> read(const std::string& name) const override {
    const std::vector<std::int64_t>& shape = shapes_.at(name);
    if (elements_of(shape) < 0) return corrupt(fmt::format("has an odd shape of {}", name));
    std::vector<float> whole(static_cast<std::size_t>(elements_of(shape)));
    const auto chunks = chunks_.find(name);
    std::int64_t covered = 0;
    for (const DcpChunk& chunk : chunks == chunks_.end() ? none_ : chunks->second) {
      TESSERA_ASSIGN(const std::vector<float> box, read(name, chunk));
      covered += static_cast<std::int64_t>(box.size());
      place_box(chunk, shape, box, whole);
    }
    if (covered == static_cast<std::int64_t>(whole.size())) return whole;
    return corrupt(fmt::format("has {} elements of {}, which has {}", covered, name, whole.size()));
  }

 private:
  Status corrupt(const std::string& what) const {
    return Status(Code::corrupt, fmt::format("{}/{}: {}", path_, dcp_metadata, what));
  }

  Status read_places(TreeValue storage) {
    for (TreeItems items(storage); items.next();) {
      const TreeValue key = items.key(), place = items.value();
      const auto tensor = shapes_.find(std::string(key["fqn"].text()));
      if (tensor == shapes_.end()) continue;  // bytes, as those of options
      if (place["transform_descriptors"].present()) {
        return Status(Code::not_supported,
                      fmt::format("{}: {} is compressed", path_, tensor->first));
      }
      DcpChunk chunk{.offsets = integers_of(key["offset"]),
                     .sizes = {},
                     .file = std::string(place["relative_path"].text()),
                     .begin = place["offset"].integer(),
                     .bytes = place["length"].integer()};
      if (!is_file_name(chunk.file)) {
        return corrupt(fmt::format("names no file for {}", tensor->first));
      }
      chunks_[tensor->first].push_back(std::move(chunk));
    }
    return {};
  }

  // The metadata say how large a chunk is, by its offsets; a chunk must lie in its tensor.
  Status read_sizes(TreeValue metadata) {
    for (TreeItems items(metadata); items.next();) {
      const auto chunks = chunks_.find(std::string(items.key().text()));
      if (chunks == chunks_.end()) continue;
      std::map<std::vector<std::int64_t>, std::vector<std::int64_t>> sizes;
      for (TreeItems all(items.value()["chunks"]); all.next();) {
        sizes[integers_of(all.value()["offsets"])] = integers_of(all.value()["sizes"]);
      }
      const auto& shape = shapes_[chunks->first];
      for (DcpChunk& chunk : chunks->second) {
        chunk.sizes = sizes[chunk.offsets];
        bool inside = chunk.sizes.size() == shape.size() && chunk.offsets.size() == shape.size();
        for (std::size_t d = 0; inside && d < shape.size(); ++d) {
          inside = chunk.offsets[d] >= 0 && chunk.sizes[d] >= 0 && shape[d] >= chunk.sizes[d] &&
                   chunk.offsets[d] <= shape[d] - chunk.sizes[d];
        }
        if (!inside) return corrupt(fmt::format("has a chunk outside of {}", chunks->first));
      }
    }
    return {};
  }

  Result<std::vector<float>> read(const std::string& name, const DcpChunk& chunk) const {
    const std::string source = path_ + "/" + chunk.file;
    TESSERA_ASSIGN(auto opened, files_.open(source));
    const std::shared_ptr<const ReadableFile> file = std::move(opened);
    if (chunk.begin < 0 || chunk.bytes < 0 || chunk.begin > file->size().value ||
        chunk.bytes > file->size().value - chunk.begin) {
      return Status(Code::corrupt, fmt::format("{}: is cut short", source));
    }
    TESSERA_ASSIGN(const TorchArchive archive,
                   TorchArchive::open(file, source, chunk.begin, chunk.begin + chunk.bytes));
    TESSERA_ASSIGN(const TorchTensor tensor, archive.tensor(archive.root(), name));
    if (tensor.numel().value != elements_of(chunk.sizes)) {
      return Status(Code::corrupt,
                    fmt::format("{}: a chunk of {} has {} elements, not {}", source, name,
                                tensor.numel().value, elements_of(chunk.sizes)));
    }
    std::vector<float> values(static_cast<std::size_t>(tensor.numel().value));
    TESSERA_TRY(tensor.read(Numel{0}, values));
    return values;
  }

  FileSystem& files_;
  const std::string path_;
  Shapes shapes_;
  std::map<std::string, std::vector<DcpChunk>> chunks_;
  const std::vector<DcpChunk> none_;
};

}  // namespace

bool is_dcp(FileSystem& files, const std::string& path) {
  return files.exists(path + "/" + dcp_metadata);
}

Result<std::unique_ptr<ForeignCheckpoint>> open_dcp(FileSystem& files, const std::string& path) {
  auto made = std::make_unique<DcpCheckpoint>(files, path);
  TESSERA_TRY(made->open());
  return std::unique_ptr<ForeignCheckpoint>(std::move(made));
}

}  // namespace tessera::exchange
