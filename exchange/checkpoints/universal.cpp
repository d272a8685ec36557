// SPDX-License-Identifier: Apache-2.0
// DeepSpeed's universal checkpoints, which any number of ranks of any ZeRO stage loads: a folder
// per parameter with its value, its moments and its step. Format: deepspeed/checkpoint/
// ds_to_universal.py, universal_checkpoint.py, and what 0.19.8's load_checkpoint asks for.
#include <fmt/format.h>

#include <array>

#include "engine/checkpoint/checkpoint_reader.h"
#include "exchange/checkpoints/archive_writer.h"
#include "exchange/checkpoints/deepspeed_facts.h"
#include "exchange/checkpoints/foreign_checkpoint.h"
#include "exchange/checkpoints/new_folder.h"
#include "exchange/checkpoints/torch_archive.h"
#include "tessera/exchange/checkpoints.h"

namespace tessera::exchange {
namespace {

constexpr const char* universal_latest = "latest_universal";
constexpr std::pair<const char*, StateTensor> universal_tensors[] = {
    {"fp32", StateTensor::value},
    {"exp_avg", StateTensor::exp_avg},
    {"exp_avg_sq", StateTensor::exp_avg_sq}};

class UniversalCheckpoint final : public ForeignCheckpoint {
 public:
  UniversalCheckpoint(FileSystem& files, std::string path)
      : files_(files), path_(std::move(path)) {}

  Status open() {
    TESSERA_ASSIGN(const auto names, files_.list(path_ + "/zero"));
    for (const std::string& name : names) {
      if (!files_.exists(file_of(name, "fp32"))) continue;
      TESSERA_TRY(open_tensor(name, name, "fp32"));
      const std::string state = "state." + name;
      if (!files_.exists(file_of(name, "exp_avg"))) continue;
      TESSERA_TRY(open_tensor(name, state + ".exp_avg", "exp_avg"));
      TESSERA_TRY(open_tensor(name, state + ".exp_avg_sq", "exp_avg_sq"));
      TESSERA_TRY(open_step(name, state + ".step"));
    }
    return {};
  }

  std::string format() const override { return "DeepSpeed universal"; }
  const Shapes& tensors() const override { return shapes_; }

  Result<std::vector<float>> read(const std::string& name) const override {
    if (const auto step = steps_.find(name); step != steps_.end()) {
      return std::vector<float>{step->second};
    }
    const TorchTensor& tensor = tensors_.at(name);
    std::vector<float> values(static_cast<std::size_t>(tensor.numel().value));
    TESSERA_TRY(tensor.read(Numel{0}, values));
    return values;
  }

 private:
  std::string file_of(const std::string& parameter, const char* what) const {
    return fmt::format("{}/zero/{}/{}.pt", path_, parameter, what);
  }
  Result<TorchArchive> archive(const std::string& name) const {
    TESSERA_ASSIGN(auto opened, files_.open(name));
    std::shared_ptr<const ReadableFile> file = std::move(opened);
    const std::int64_t size = file->size().value;
    return TorchArchive::open(std::move(file), name, 0, size);
  }
  Status open_tensor(const std::string& parameter, const std::string& name, const char* what) {
    TESSERA_ASSIGN(const TorchArchive file, archive(file_of(parameter, what)));
    TESSERA_ASSIGN(TorchTensor tensor, file.tensor(file.root()["param"], what));
    shapes_[name] = tensor.shape;
    tensors_.emplace(name, std::move(tensor));
    return {};
  }
  // An int, or a tensor of one number.
  Status open_step(const std::string& parameter, const std::string& name) {
    const std::string path = file_of(parameter, "step");
    TESSERA_ASSIGN(const TorchArchive file, archive(path));
    auto step = static_cast<float>(file.root().integer());
    if (file.root().is(TreeKind::object)) {
      TESSERA_ASSIGN(const TorchTensor tensor, file.tensor(file.root(), "the step"));
      TESSERA_TRY(tensor.read(Numel{0}, {&step, 1}));
    }
    shapes_[name] = {};
    steps_[name] = step;
    return {};
  }

  FileSystem& files_;
  const std::string path_;
  Shapes shapes_;
  std::map<std::string, TorchTensor> tensors_;
  std::map<std::string, float> steps_;
};

bool has_universal(FileSystem& files, const std::string& path) {
  return files.exists(path + "/zero/optimizer_state.pt");
}

class UniversalExport {
 public:
  UniversalExport(CheckpointReader& reader, FileSystem& files, std::string folder,
                  std::string prefix)
      : reader_(reader), files_(files), folder_(std::move(folder)), prefix_(std::move(prefix)) {}

  Status check() const {
    for (const CheckpointParameter& p : reader_.manifest().parameters) {
      const std::string name = prefix_ + p.name;
      if (name.find('/') != std::string::npos || name.starts_with(".")) {
        return refuse(fmt::format("the parameter '{}' would be no folder", name));
      }
      if (numel_of(p).value >= (std::int64_t{1} << 30)) {
        return refuse(fmt::format("{} has more than 4 GiB", p.name));
      }
      if (!says_steps_of(p, step())) {
        return refuse(
            fmt::format("{} was stepped {} times, {} {} times, and DeepSpeed has one "
                        "number for all",
                        p.name, p.steps, reader_.manifest().parameters[0].name, step()));
      }
    }
    return {};
  }

  Status write() {
    const std::string tag = fmt::format("global_step{}", step());
    const std::string inside = folder_ + "/" + tag;
    for (const std::string& made : {folder_, inside, inside + "/zero"}) {
      TESSERA_TRY(files_.make_folder(made));
    }
    for (const CheckpointParameter& p : reader_.manifest().parameters) {
      TESSERA_TRY(write_parameter(p, inside + "/zero/" + prefix_ + p.name));
    }
    TESSERA_TRY(write_text(files_, inside + "/zero/optimizer_state.pt", optimizer_state()));
    // Stages 1 and 2 look for the first, stage 3 for the second.
    for (const char* name :
         {"mp_rank_00_model_states.pt", "zero_pp_rank_0_mp_rank_00_model_states.pt"}) {
      TESSERA_TRY(write_text(files_, inside + "/" + name, model_states()));
    }
    TESSERA_TRY(write_text(files_, folder_ + "/" + universal_latest, tag));
    return files_.sync_folder(folder_);
  }

 private:
  std::int64_t step() const { return reader_.manifest().parameters[0].steps; }
  static Status refuse(const std::string& why) {
    return Status(Code::not_supported,
                  fmt::format("{}: a universal checkpoint cannot say so", why));
  }

  Status write_parameter(const CheckpointParameter& p, const std::string& inside) {
    TESSERA_TRY(files_.make_folder(inside));
    std::vector<float> values(static_cast<std::size_t>(numel_of(p).value));
    for (const auto& [name, tensor] : universal_tensors) {
      TESSERA_TRY(reader_.read(p.name, tensor, 0, Numel{0}, values));
      TorchArchiveWriter archive;
      archive.pickle().begin_dict();
      archive.pickle().text("param");
      archive.tensor(p.shape, values);
      archive.pickle().end_dict();
      TESSERA_TRY(write_text(files_, fmt::format("{}/{}.pt", inside, name), archive.finish()));
    }
    TorchArchiveWriter archive;
    archive.scalar(static_cast<std::int32_t>(p.steps));
    return write_text(files_, inside + "/step.pt", archive.finish());
  }

  // Groups without a key keep the numbers that the run that loads has; a spare one harms nobody.
  static void write_groups(ObjectPickle& pickle, int groups) {
    pickle.text("param_groups");
    pickle.begin_list();
    for (int g = 0; g < groups; ++g) {
      pickle.begin_dict();
      pickle.end_dict();
    }
    pickle.end_list();
  }

  std::string optimizer_state() const {
    TorchArchiveWriter archive;
    ObjectPickle& pickle = archive.pickle();
    pickle.begin_dict();
    pickle.text("optimizer_state_dict");  // stage 3
    pickle.begin_dict();
    pickle.text("state");
    pickle.begin_dict();
    pickle.number(0);
    pickle.begin_dict();
    pickle.text("step");
    archive.scalar(static_cast<std::int32_t>(step()));
    pickle.end_dict();
    pickle.end_dict();
    write_groups(pickle, 1);
    pickle.end_dict();
    write_groups(pickle, 64);
    pickle.member("ds_version", deepspeed_version);
    pickle.end_dict();
    return archive.finish();
  }

  std::string model_states() const {
    TorchArchiveWriter archive;
    ObjectPickle& pickle = archive.pickle();
    pickle.begin_dict();
    pickle.text("module");
    pickle.begin_dict();
    pickle.end_dict();
    write_run_facts(pickle, 1, step());
    pickle.end_dict();
    return archive.finish();
  }

  CheckpointReader& reader_;
  FileSystem& files_;
  const std::string folder_, prefix_;
};

}  // namespace

bool is_universal(FileSystem& files, const std::string& path) {
  return has_universal(files, path) ||
         has_universal(files, folder_named_in(files, path, universal_latest));
}

Result<std::unique_ptr<ForeignCheckpoint>> open_universal(FileSystem& files, std::string path) {
  if (!has_universal(files, path)) path = folder_named_in(files, path, universal_latest);
  auto made = std::make_unique<UniversalCheckpoint>(files, std::move(path));
  TESSERA_TRY(made->open());
  return std::unique_ptr<ForeignCheckpoint>(std::move(made));
}

Status export_universal(const std::string& path, const std::string& folder,
                        const std::string& prefix) {
  FileSystem& files = system_files();
  return fill_new_folder(folder, "a universal checkpoint", [&]() -> Status {
    TESSERA_ASSIGN(CheckpointReader reader, CheckpointReader::open(files, path));
    UniversalExport out(reader, files, folder, prefix);
    TESSERA_TRY(out.check());
    return out.write();
  });
}

}  // namespace tessera::exchange
