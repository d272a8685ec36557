// SPDX-License-Identifier: Apache-2.0
// Checkpoints of DeepSpeed's ZeRO stages 1 to 3: per rank flat partitions of the optimizer's
// float32 copies and states, and a file that says which parameters lie in them. Format:
// deepspeed/utils/zero_to_fp32.py, runtime/zero/stage_1_and_2.py and stage3.py (state_dict).
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <optional>
#include <span>

#include "exchange/checkpoints/foreign_checkpoint.h"
#include "exchange/checkpoints/torch_archive.h"

namespace tessera::exchange {
namespace {

constexpr std::string_view optimizer_end = "_mp_rank_00_optim_states.pt";
constexpr std::array<std::string_view, 3> zero_tensors = {"", ".exp_avg", ".exp_avg_sq"};

// Elements of one rank's flat group.
struct ZeroFragment {
  std::size_t rank = 0, group = 0;
  Numel first{}, numel{};
};

struct ZeroParameter {
  std::vector<std::int64_t> shape;
  std::vector<ZeroFragment> fragments;  // one behind another
};

class DeepSpeedCheckpoint final : public ForeignCheckpoint {
 public:
  DeepSpeedCheckpoint(FileSystem& files, std::string path)
      : files_(files), path_(std::move(path)) {}

  Status open() {
    TESSERA_TRY(open_ranks());
    TESSERA_TRY(check_groups());
    TESSERA_ASSIGN(const TorchArchive model, archive(model_file()));
    TESSERA_TRY(check_model(model));
    const TreeValue groups = model.root()["param_shapes"];
    if (groups.size() == 0) return corrupt(model_file(), "has no param_shapes");
    TESSERA_TRY(stage3_ ? lay_out_stage3(groups) : lay_out(groups));
    for (const auto& [name, parameter] : parameters_) {
      shapes_[name] = parameter.shape;
      if (steps_ == 0) continue;
      shapes_["state." + name + ".exp_avg"] = parameter.shape;
      shapes_["state." + name + ".exp_avg_sq"] = parameter.shape;
      shapes_["state." + name + ".step"] = {};
    }
    return {};
  }

  std::string format() const override {
    return fmt::format("DeepSpeed ZeRO-{} of {} ranks", stage3_ ? "3" : "1 or 2", ranks_.size());
  }
  const Shapes& tensors() const override { return shapes_; }

  Result<std::vector<float>> read(const std::string& name) const override {
    if (name.ends_with(".step") && !parameters_.contains(name)) {
      return std::vector<float>{static_cast<float>(steps_)};
    }
    std::size_t kind = 0;
    std::string own = name;
    for (std::size_t k = 1; k < zero_tensors.size() && !parameters_.contains(name); ++k) {
      if (!name.ends_with(zero_tensors[k])) continue;
      kind = k;
      own = name.substr(6, name.size() - 6 - zero_tensors[k].size());  // behind "state."
      if (parameters_.contains(own)) break;
    }
    const ZeroParameter& parameter = parameters_.at(own);
    const std::int64_t numel = elements_of(parameter.shape);
    if (numel < 0) return corrupt(model_file(), "has an odd shape of " + name);
    std::vector<float> values(static_cast<std::size_t>(numel));
    std::size_t at = 0;
    for (const ZeroFragment& f : parameter.fragments) {
      const auto count = static_cast<std::size_t>(f.numel.value);
      if (f.numel < Numel{} || count > values.size() - at) {
        return corrupt(ranks_[f.rank].name, "maps more than all of " + name);
      }
      const Status read =
          ranks_[f.rank].flat[kind][f.group].read(f.first, std::span(values).subspan(at, count));
      if (!read.ok()) return corrupt(ranks_[f.rank].name, read.message() + ": " + name);
      at += count;
    }
    if (at != values.size()) return corrupt(ranks_[0].name, "has only a part of " + name);
    return values;
  }

 private:
  struct RankFile {
    std::string name;
    std::array<std::vector<TorchTensor>, 3> flat;  // value and both moments, by group
    std::optional<TorchArchive> opened;
  };

  Status corrupt(const std::string& file, const std::string& what) const {
    return Status(Code::corrupt, fmt::format("{}/{}: {}", path_, file, what));
  }
  Status unsupported(const std::string& file, const std::string& what) const {
    return Status(Code::not_supported, fmt::format("{}/{}: {}", path_, file, what));
  }

  std::string model_file() const {
    return stage3_ ? "zero_pp_rank_0_mp_rank_00_model_states.pt" : "mp_rank_00_model_states.pt";
  }

  Result<TorchArchive> archive(const std::string& name) const {
    TESSERA_ASSIGN(auto opened, files_.open(path_ + "/" + name));
    std::shared_ptr<const ReadableFile> file = std::move(opened);
    const std::int64_t size = file->size().value;
    return TorchArchive::open(std::move(file), path_ + "/" + name, 0, size);
  }

  // [bf16_]zero_pp_rank_3_mp_rank_00_optim_states.pt
  Status open_ranks() {
    TESSERA_ASSIGN(const auto names, files_.list(path_));
    std::map<int, std::string> by_rank;
    for (const std::string& name : names) {
      if (!name.ends_with("_optim_states.pt")) continue;
      const std::size_t at = name.find("zero_pp_rank_");
      if (at == std::string::npos || !name.ends_with(optimizer_end)) {
        return unsupported(name, "is of tensor or expert parallelism, or of a run without ZeRO");
      }
      by_rank[std::atoi(name.c_str() + at + 13)] = name;
    }
    for (const auto& [rank, name] : by_rank) {
      if (rank != static_cast<int>(ranks_.size())) {
        return corrupt(name, fmt::format("the file of rank {} is missing", ranks_.size()));
      }
      TESSERA_TRY(open_rank(name));
    }
    return {};
  }

  Status open_rank(const std::string& name) {
    TESSERA_ASSIGN(const TorchArchive file, archive(name));
    const TreeValue state = file.root()["optimizer_state_dict"];
    const TreeValue values3 = state["fp32_flat_groups"];
    const TreeValue values2 = state["single_partition_of_fp32_groups"];
    if (ranks_.empty()) {
      stage3_ = values3.present();
      if (const auto count = state["partition_count"]; count.is(TreeKind::integer)) {
        partitions_ = count.integer();
      }
    }
    if (state["ds_zero_partition_groups"].present() ||
        state["universal_checkpoint_info"].present()) {
      return unsupported(name, "has partitions of several groups of ranks");
    }
    const TreeValue values = stage3_ ? values3 : values2;
    if (!values.present()) return corrupt(name, "has no partitions of parameters");
    RankFile rank{.name = name, .flat = {}, .opened = file};
    TESSERA_TRY(add_flat(file, values, "float32 partitions", rank.flat[0]));
    const TreeValue base = state[stage3_ ? "optimizer_state_dict" : "base_optimizer_state"];
    const TreeValue states = base.is(TreeKind::list) ? base : base["state"];
    for (TreeItems items(states); items.next();) {
      const TreeValue one = items.value();
      for (const auto& [key, kind] : {std::pair{"exp_avg", 1}, {"exp_avg_sq", 2}}) {
        TESSERA_ASSIGN(TorchTensor moment, file.tensor(one[key], key));
        rank.flat[static_cast<std::size_t>(kind)].push_back(std::move(moment));
      }
      TESSERA_TRY(take_step(file, one["step"], name));
    }
    ranks_.push_back(std::move(rank));
    return {};
  }

  Status add_flat(const TorchArchive& file, TreeValue list, const char* what,
                  std::vector<TorchTensor>& into) {
    for (TreeItems items(list); items.next();) {
      TESSERA_ASSIGN(TorchTensor tensor, file.tensor(items.value(), what));
      into.push_back(std::move(tensor));
    }
    return {};
  }

  Status take_step(const TorchArchive& file, TreeValue value, const std::string& name) {
    std::int64_t step = value.integer();
    if (value.is(TreeKind::object)) {
      TESSERA_ASSIGN(const TorchTensor tensor, file.tensor(value, "step"));
      float number = 0;
      TESSERA_TRY(tensor.read(Numel{0}, {&number, 1}));
      step = number >= 1 && number <= 16777216.0F ? static_cast<std::int64_t>(number) : 0;
    }
    if (step < 1) return corrupt(name, "has states of no step");
    if (steps_ != 0 && steps_ != step) {
      return unsupported(name, "has parameters that were stepped at different times");
    }
    steps_ = step;
    return {};
  }

  // Known only at the end: the first ranks may have no states where a later one has.
  Status check_groups() const {
    for (const RankFile& rank : ranks_) {
      const std::size_t groups = rank.flat[0].size(), states = steps_ == 0 ? 0 : groups;
      if (groups != ranks_[0].flat[0].size()) {
        return corrupt(rank.name, fmt::format("has {} groups of parameters, rank 0 has {}", groups,
                                              ranks_[0].flat[0].size()));
      }
      if (rank.flat[1].size() == states && rank.flat[2].size() == states) continue;
      return corrupt(rank.name, "has other groups of states than of values");
    }
    return {};
  }

  Status check_model(const TorchArchive& model) const {
    if (partitions_ != 0 && partitions_ != static_cast<std::int64_t>(ranks_.size())) {
      return corrupt(ranks_.back().name,
                     fmt::format("is of {} ranks, there are {} files", partitions_, ranks_.size()));
    }
    if (model.root()["frozen_param_shapes"].size() > 0) {
      return unsupported(model_file(), "has frozen parameters, which are not read yet");
    }
    return {};
  }

  // Stage 3: rank r holds elements [r * ceil(n / ranks), ...) of every parameter, one parameter
  // behind another through all groups.
  Status lay_out_stage3(TreeValue groups) {
    const auto ranks = static_cast<std::int64_t>(ranks_.size());
    std::size_t group = 0;
    Numel at{};
    for (TreeItems all(groups); all.next();) {
      for (TreeItems items(all.value()); items.next();) {
        ZeroParameter parameter{.shape = integers_of(items.value()), .fragments = {}};
        const std::int64_t numel = elements_of(parameter.shape);
        if (numel < 0) return corrupt(model_file(), "has an odd shape");
        const Numel part{(numel + ranks - 1) / ranks};
        const auto& flat = ranks_[0].flat[0];
        while (group < flat.size() && at >= flat[group].numel()) {
          at = Numel{};
          ++group;
        }
        if (group == flat.size() || at + part > flat[group].numel()) {
          return corrupt(ranks_[0].name, "has fewer elements than param_shapes says");
        }
        for (std::int64_t r = 0; r < ranks; ++r) {
          const Numel left = std::max(Numel{numel} - part * r, Numel{});
          parameter.fragments.push_back(
              {static_cast<std::size_t>(r), group, at, std::min(part, left)});
        }
        at += part;
        parameters_[std::string(items.key().text())] = std::move(parameter);
      }
    }
    return {};
  }

  // Stages 1 and 2: every rank says which elements of which parameters its partition has.
  Status lay_out(TreeValue groups) {
    for (TreeItems all(groups); all.next();) {
      for (TreeItems items(all.value()); items.next();) {
        parameters_[std::string(items.key().text())].shape = integers_of(items.value());
      }
    }
    for (std::size_t r = 0; r < ranks_.size(); ++r) {
      const TreeValue mappings =
          ranks_[r].opened->root()["optimizer_state_dict"]["param_slice_mappings"];
      if (!mappings.present()) {
        return unsupported(ranks_[r].name,
                           "has no param_slice_mappings: it is of a DeepSpeed "
                           "before 0.7.5, load and save it with a newer one");
      }
      std::size_t group = 0;
      for (TreeItems of_group(mappings); of_group.next(); ++group) {
        for (TreeItems items(of_group.value()); items.next();) {
          const auto found = parameters_.find(std::string(items.key().text()));
          if (found == parameters_.end() || group >= ranks_[r].flat[0].size()) {
            return corrupt(ranks_[r].name, "maps a parameter that param_shapes does not have");
          }
          found->second.fragments.push_back({r, group, Numel{items.value()["start"].integer()},
                                             Numel{items.value()["numel"].integer()}});
        }
      }
    }
    return {};
  }

  FileSystem& files_;
  const std::string path_;
  bool stage3_ = false;
  std::int64_t partitions_ = 0;
  std::int64_t steps_ = 0;  // 0: no states
  std::vector<RankFile> ranks_;
  std::map<std::string, ZeroParameter> parameters_;
  Shapes shapes_;
};

bool has_optimizer_files(FileSystem& files, const std::string& path) {
  const auto names = files.list(path);
  return names.ok() && std::any_of(names->begin(), names->end(), [](const std::string& name) {
           return name.ends_with("_optim_states.pt");
         });
}

}  // namespace

bool is_deepspeed(FileSystem& files, const std::string& path) {
  return has_optimizer_files(files, path) ||
         has_optimizer_files(files, folder_named_in(files, path, "latest"));
}

Result<std::unique_ptr<ForeignCheckpoint>> open_deepspeed(FileSystem& files, std::string path) {
  if (!has_optimizer_files(files, path)) path = folder_named_in(files, path, "latest");
  auto made = std::make_unique<DeepSpeedCheckpoint>(files, std::move(path));
  TESSERA_TRY(made->open());
  return std::unique_ptr<ForeignCheckpoint>(std::move(made));
}

}  // namespace tessera::exchange
