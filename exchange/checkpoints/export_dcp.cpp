// SPDX-License-Identifier: Apache-2.0
// A checkpoint of ours as one of torch.distributed.checkpoint, in one file: each tensor is a
// torch.save archive (a zip without compression), .metadata says where.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <filesystem>
#include <span>

#include "engine/checkpoint/checkpoint_reader.h"
#include "exchange/checkpoints/object_pickle.h"
#include "tessera/exchange/checkpoints.h"

namespace tessera::exchange {
namespace {

constexpr const char* dcp_module = "torch.distributed.checkpoint.metadata";
constexpr const char* data_file = "__0_0.distcp";

// CRC-32 as zip has it (ISO 3309).
std::uint32_t crc32_of(std::string_view bytes) {
  static const auto table = [] {
    std::array<std::uint32_t, 256> all{};
    for (std::uint32_t i = 0; i < 256; ++i) {
      std::uint32_t c = i;
      for (int k = 0; k < 8; ++k) c = (c & 1U) != 0 ? 0xEDB88320U ^ (c >> 1) : c >> 1;
      all[i] = c;
    }
    return all;
  }();
  std::uint32_t crc = 0xFFFFFFFFU;
  for (const char byte : bytes) {
    crc = table[(crc ^ static_cast<unsigned char>(byte)) & 0xFFU] ^ (crc >> 8);
  }
  return crc ^ 0xFFFFFFFFU;
}

void put(std::string& out, std::uint64_t value, int bytes) {
  for (int i = 0; i < bytes; ++i) out += static_cast<char>(value >> (8 * i) & 0xFF);
}

// Sizes and places of entries below 4 GiB, as tensors of up to 2^30 floats are.
class ZipWriter {
 public:
  void add(const std::string& name, std::string_view data) {
    const std::uint32_t crc = crc32_of(data);
    const std::size_t at = out_.size();
    out_ += "PK\3\4";
    head(out_, name, crc, data.size());
    out_ += name;
    out_ += data;
    directory_ += "PK\1\2";
    put(directory_, 20, 2);
    head(directory_, name, crc, data.size());
    directory_.append(10, '\0');  // comment, disk and attributes
    put(directory_, at, 4);
    directory_ += name;
    ++entries_;
  }
  std::string finish() {
    const std::size_t at = out_.size();
    out_ += directory_;
    out_ += "PK\5\6";
    put(out_, 0, 4);
    put(out_, entries_, 2);
    put(out_, entries_, 2);
    put(out_, directory_.size(), 4);
    put(out_, at, 4);
    put(out_, 0, 2);
    return std::move(out_);
  }

 private:
  // Version, flags, no compression, no time; checksum, both sizes, the lengths of name and extra.
  static void head(std::string& out, const std::string& name, std::uint32_t crc,
                   std::uint64_t size) {
    put(out, 20, 2);
    put(out, 0, 4);
    put(out, 0x00210000, 4);  // the first day of 1980
    put(out, crc, 4);
    put(out, size, 4);
    put(out, size, 4);
    put(out, name.size(), 2);
    put(out, 0, 2);
  }

  std::string out_, directory_;
  std::uint64_t entries_ = 0;
};

std::string tensor_archive(const std::vector<std::int64_t>& shape, std::span<const float> values) {
  ObjectPickle pickle;
  pickle.name("torch._utils", "_rebuild_tensor_v2");
  pickle.mark();
  pickle.mark();
  pickle.text("storage");
  pickle.name("torch", "FloatStorage");
  pickle.text("0");
  pickle.text("cpu");
  pickle.number(static_cast<std::int64_t>(values.size()));
  pickle.tuple();
  pickle.persistent();
  pickle.number(0);
  pickle.numbers(shape);
  std::vector<std::int64_t> strides(shape.size(), 1);
  for (std::size_t d = shape.size(); d > 1; --d) {
    strides[d - 2] = strides[d - 1] * std::max<std::int64_t>(shape[d - 1], 1);
  }
  pickle.numbers(strides);
  pickle.boolean(false);
  pickle.name("collections", "OrderedDict");
  pickle.empty_tuple();
  pickle.call();
  pickle.tuple();
  pickle.call();
  ZipWriter zip;
  pickle.finish();
  zip.add("archive/data.pkl", pickle.take());
  zip.add("archive/byteorder", "little");
  const auto bytes = std::as_bytes(values);
  zip.add("archive/data/0", {reinterpret_cast<const char*>(bytes.data()), bytes.size()});
  zip.add("archive/version", "3\n");
  return zip.finish();
}

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
  DcpExport(CheckpointReader& reader, WrittenFile& file) : reader_(reader), file_(file) {}

  Status write(const CheckpointParameter& parameter) {
    TESSERA_TRY(write(parameter, StateTensor::value, {"model", parameter.name}));
    if (parameter.steps == 0) return {};
    const std::vector<std::string> state = {"optim", "state", parameter.name};
    const auto in_state = [&](const char* name) {
      std::vector<std::string> path = state;
      path.emplace_back(name);
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
    const std::string archive = tensor_archive(shape, values);
    const auto bytes = static_cast<std::int64_t>(archive.size());
    entries_.push_back({std::move(path), shape, at_, bytes});
    at_ += bytes;
    return file_.write(std::as_bytes(std::span(archive)));
  }

  CheckpointReader& reader_;
  WrittenFile& file_;
  std::int64_t at_ = 0;
  std::vector<DcpEntry> entries_;
};

}  // namespace

Status export_dcp(const std::string& path, const std::string& folder) {
  FileSystem& files = system_files();
  std::error_code error;
  if (std::filesystem::exists(folder, error)) {
    return Status(Code::invalid_argument,
                  fmt::format("{} exists: a DCP checkpoint gets a folder of its own", folder));
  }
  TESSERA_ASSIGN(CheckpointReader reader, CheckpointReader::open(files, path));
  TESSERA_TRY(files.make_folder(folder));
  const auto write = [&]() -> Status {
    TESSERA_ASSIGN(const auto data, files.create(folder + "/" + data_file));
    DcpExport out(reader, *data);
    for (const CheckpointParameter& parameter : reader.manifest().parameters) {
      TESSERA_TRY(out.write(parameter));
    }
    TESSERA_TRY(data->sync());
    // The folder is a checkpoint from here on.
    const std::string partial = folder + "/.metadata.partial";
    TESSERA_ASSIGN(const auto metadata, files.create(partial));
    const std::string text = out.metadata();
    TESSERA_TRY(metadata->write(std::as_bytes(std::span(text))));
    TESSERA_TRY(metadata->sync());
    TESSERA_TRY(files.rename(partial, folder + "/.metadata"));
    return files.sync_folder(folder);
  };
  const Status written = write();
  if (!written.ok()) std::filesystem::remove_all(folder, error);
  return written;
}

}  // namespace tessera::exchange
