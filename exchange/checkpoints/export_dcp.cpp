// SPDX-License-Identifier: Apache-2.0
// A checkpoint of ours as one of torch.distributed.checkpoint, in one file: each tensor is a
// torch.save archive (a zip without compression), .metadata says where.
#include <fmt/format.h>

#include <span>

#include "engine/checkpoint/checkpoint_reader.h"
#include "exchange/checkpoints/archive_writer.h"
#include "exchange/checkpoints/new_folder.h"
#include "tessera/exchange/checkpoints.h"

namespace tessera::exchange {
namespace {

constexpr const char* dcp_module = "torch.distributed.checkpoint.metadata";
constexpr const char* data_file = "__0_0.distcp";

// A tensor of the new checkpoint.
struct DcpEntry {
  std::vector<std::string> path;  // {"optim", "state", "wte.weight", "exp_avg"}
  std::vector<std::int64_t> shape;
  std::int64_t begin = 0, bytes = 0;  // in the file

  std::string name() const {
    std::string all;
    for (const std::string& part : path) all += (all.empty() ? "" : ".") + part;
    return all;
  }
};

void write_tensor_metadata(ObjectPickle& out, const DcpEntry& entry) {
  const std::vector<std::int64_t> begin(entry.shape.size(), 0);
  out.name(dcp_module, "TensorStorageMetadata");
  out.make();
  out.begin_dict();
  out.text("properties");
  out.name(dcp_module, "TensorProperties");
  out.mark();
  out.name("torch", "float32");
  out.tuple();
  out.call();
  out.text("size");
  out.torch_size(entry.shape);
  out.text("chunks");
  out.begin_list();
  out.name(dcp_module, "ChunkStorageMetadata");
  out.make();
  out.begin_dict();
  out.text("offsets");
  out.torch_size(begin);
  out.text("sizes");
  out.torch_size(entry.shape);
  out.end_dict();
  out.attributes();
  out.end_list();
  out.end_dict();
  out.attributes();
}

void write_place(ObjectPickle& out, const DcpEntry& entry) {
  out.name(dcp_module, "MetadataIndex");
  out.make();
  out.begin_dict();
  out.text("fqn");
  out.text(entry.name());
  out.text("offset");
  out.torch_size(std::vector<std::int64_t>(entry.shape.size(), 0));
  out.text("index");
  out.number(0);
  out.end_dict();
  out.attributes();
  out.name("torch.distributed.checkpoint.filesystem", "_StorageInfo");
  out.make();
  out.begin_dict();
  out.text("relative_path");
  out.text(data_file);
  out.text("offset");
  out.number(entry.begin);
  out.text("length");
  out.number(entry.bytes);
  out.end_dict();
  out.attributes();
}

std::string metadata_of(const std::vector<DcpEntry>& entries) {
  ObjectPickle out;
  out.name(dcp_module, "Metadata");
  out.make();
  out.begin_dict();
  out.text("state_dict_metadata");
  out.begin_dict();
  for (const DcpEntry& entry : entries) {
    out.text(entry.name());
    write_tensor_metadata(out, entry);
  }
  out.end_dict();
  out.text("planner_data");  // by which flat names become nested dicts again
  out.begin_dict();
  for (const DcpEntry& entry : entries) {
    out.text(entry.name());
    out.mark();
    for (const std::string& part : entry.path) out.text(part);
    out.tuple();
  }
  out.end_dict();
  out.text("storage_data");
  out.begin_dict();
  for (const DcpEntry& entry : entries) write_place(out, entry);
  out.end_dict();
  out.text("version");
  out.text("1.0.0");
  out.end_dict();
  out.attributes();
  out.finish();
  return out.take();
}

class DcpExport {
 public:
  DcpExport(CheckpointReader& reader, WrittenFile& file, std::string prefix)
      : reader_(reader), file_(file), prefix_(std::move(prefix)) {}

  Status write(const CheckpointParameter& parameter) {
    const std::string name = prefix_ + parameter.name;
    TESSERA_TRY(write(parameter, StateTensor::value, {"model", name}));
    if (parameter.steps == 0) return {};
    const std::vector<std::string> state = {"optim", "state", name};
    const auto in_state = [&](const char* what) {
      std::vector<std::string> path = state;
      path.emplace_back(what);
      return path;
    };
    TESSERA_TRY(write(parameter, StateTensor::exp_avg, in_state("exp_avg")));
    TESSERA_TRY(write(parameter, StateTensor::exp_avg_sq, in_state("exp_avg_sq")));
    const auto step = static_cast<float>(parameter.steps);
    return add(in_state("step"), {}, std::span(&step, 1));
  }
  std::string metadata() const { return metadata_of(entries_); }

 private:
  Status write(const CheckpointParameter& parameter, StateTensor tensor,
               std::vector<std::string> path) {
    const Numel numel = numel_of(parameter);
    if (numel.value >= (std::int64_t{1} << 30)) {
      return Status(Code::not_supported,
                    fmt::format("{} has more than 4 GiB, which is not written to DCP yet: export "
                                "safetensors",
                                parameter.name));
    }
    std::vector<float> values(static_cast<std::size_t>(numel.value));
    TESSERA_TRY(reader_.read(parameter.name, tensor, 0, Numel{0}, values));
    return add(std::move(path), parameter.shape, values);
  }

  Status add(std::vector<std::string> path, const std::vector<std::int64_t>& shape,
             std::span<const float> values) {
    TorchArchiveWriter writer;
    writer.tensor(shape, values);
    const std::string archive = writer.finish();
    const auto bytes = static_cast<std::int64_t>(archive.size());
    entries_.push_back({std::move(path), shape, at_, bytes});
    at_ += bytes;
    return file_.write(std::as_bytes(std::span(archive)));
  }

  CheckpointReader& reader_;
  WrittenFile& file_;
  const std::string prefix_;
  std::int64_t at_ = 0;
  std::vector<DcpEntry> entries_;
};

}  // namespace

Status export_dcp(const std::string& path, const std::string& folder, const std::string& prefix) {
  FileSystem& files = system_files();
  return fill_new_folder(folder, "a DCP checkpoint", [&]() -> Status {
    TESSERA_ASSIGN(CheckpointReader reader, CheckpointReader::open(files, path));
    TESSERA_TRY(files.make_folder(folder));
    TESSERA_ASSIGN(const auto data, files.create(folder + "/" + data_file));
    DcpExport out(reader, *data, prefix);
    for (const CheckpointParameter& parameter : reader.manifest().parameters) {
      TESSERA_TRY(out.write(parameter));
    }
    TESSERA_TRY(data->sync());
    // The folder is a checkpoint from here on.
    const std::string partial = folder + "/.metadata.partial";
    TESSERA_TRY(write_text(files, partial, out.metadata()));
    TESSERA_TRY(files.rename(partial, folder + "/.metadata"));
    return files.sync_folder(folder);
  });
}

}  // namespace tessera::exchange
