// SPDX-License-Identifier: Apache-2.0
// A checkpoint of ours as the files that DeepSpeed's ZeRO stages 1 to 3 save: a flat partition of
// the optimizer's values and states per rank, and the model's state beside them. Format:
// deepspeed/runtime/engine.py (save_checkpoint), zero/stage_1_and_2.py and stage3.py (state_dict).
#include <fmt/format.h>

#include <algorithm>

#include "engine/checkpoint/checkpoint_reader.h"
#include "exchange/checkpoints/archive_writer.h"
#include "exchange/checkpoints/deepspeed_facts.h"
#include "exchange/checkpoints/new_folder.h"
#include "tessera/exchange/checkpoints.h"

namespace tessera::exchange {
namespace {

constexpr std::int64_t archive_numel_max = std::int64_t{1} << 30;  // 4 GiB of float32

void write_flag(ObjectPickle& pickle, std::string_view key, bool value) {
  pickle.text(key);
  pickle.boolean(value);
}

void write_real(ObjectPickle& pickle, std::string_view key, double value) {
  pickle.text(key);
  pickle.real(value);
}

// Elements [first, first + numel) of a parameter, at `at` of a rank's partition.
struct ZeroSlice {
  std::size_t parameter = 0;
  Numel first{}, numel{}, at{};
};

class ZeroExport {
 public:
  ZeroExport(CheckpointReader& reader, FileSystem& files, std::string folder,
             const ZeroExportOptions& options)
      : reader_(reader), files_(files), folder_(std::move(folder)), options_(options) {}

  Status check() const {
    if (options_.stage < 1 || options_.stage > 3 || options_.ranks < 1) {
      return Status(Code::invalid_argument,
                    fmt::format("ZeRO has stages 1 to 3 and a rank or more, found stage {} and {} "
                                "ranks",
                                options_.stage, options_.ranks));
    }
    for (const CheckpointParameter& p : parameters()) {
      if (says_steps_of(p, step())) continue;
      return Status(Code::not_supported,
                    fmt::format("{} was stepped {} times, {} {} times: DeepSpeed has one number "
                                "for all, and its files cannot say so",
                                p.name, p.steps, parameters()[0].name, step()));
    }
    const Numel all = total();
    const bool whole = options_.stage < 3;  // a file with all values
    const std::int64_t most = std::max(3 * partition(all).value, whole ? all.value : 0);
    if (most < archive_numel_max) return {};
    return Status(Code::not_supported,
                  fmt::format("a file would have more than 4 GiB ({} elements): export for stage 3 "
                              "and more than {} ranks, or a universal checkpoint",
                              most, options_.ranks));
  }

  Status write() {
    const std::string tag = fmt::format("global_step{}", step());
    const std::string inside = folder_ + "/" + tag;
    for (const std::string& made : {folder_, inside}) TESSERA_TRY(files_.make_folder(made));
    for (std::int64_t rank = 0; rank < options_.ranks; ++rank) {
      TESSERA_ASSIGN(const std::string states, optimizer_states(rank));
      TESSERA_TRY(write_text(
          files_, fmt::format("{}/zero_pp_rank_{}_mp_rank_00_optim_states.pt", inside, rank),
          states));
      if (options_.stage < 3 && rank > 0) continue;
      TESSERA_ASSIGN(const std::string model, model_states());
      const std::string name =
          options_.stage < 3 ? "mp_rank_00_model_states.pt"
                             : fmt::format("zero_pp_rank_{}_mp_rank_00_model_states.pt", rank);
      TESSERA_TRY(write_text(files_, inside + "/" + name, model));
    }
    TESSERA_TRY(write_text(files_, folder_ + "/latest", tag));
    return files_.sync_folder(folder_);
  }

 private:
  const std::vector<CheckpointParameter>& parameters() const {
    return reader_.manifest().parameters;
  }
  std::int64_t step() const { return parameters()[0].steps; }
  std::string name_of_parameter(std::size_t p) const {
    return options_.prefix + parameters()[p].name;
  }

  Numel total() const {
    Numel all{};
    for (const CheckpointParameter& p : parameters()) all += numel_of(p);
    return all;
  }
  // Of all parameters one behind another; stage 3 cuts each of them by itself.
  Numel partition(Numel all) const {
    if (options_.stage == 3) {
      Numel own{};
      for (const CheckpointParameter& p : parameters()) own += part_of(p);
      return own;
    }
    const std::int64_t aligned = 2 * options_.ranks;  // nccl_start_alignment_factor
    return Numel{(all.value + aligned - 1) / aligned * aligned / options_.ranks};
  }
  Numel part_of(const CheckpointParameter& p) const {
    return Numel{(numel_of(p).value + options_.ranks - 1) / options_.ranks};
  }

  std::vector<ZeroSlice> slices_of(std::int64_t rank) const {
    std::vector<ZeroSlice> out;
    const Numel all = total();
    const Numel size = partition(all);
    Numel begin{};  // of the parameter, among all or in the partition
    for (std::size_t p = 0; p < parameters().size(); ++p) {
      const Numel numel = numel_of(parameters()[p]);
      if (options_.stage == 3) {
        const Numel part = part_of(parameters()[p]);
        const Numel first = std::min(part * rank, numel);
        out.push_back({p, first, std::min(part, numel - first), begin});
        begin += part;
        continue;
      }
      const Numel from = std::max(size * rank, begin);
      const Numel to = std::min(size * (rank + 1), begin + numel);
      if (from < to) out.push_back({p, from - begin, to - from, from - size * rank});
      begin += numel;
    }
    return out;
  }

  Result<std::vector<float>> flat(std::int64_t rank, StateTensor tensor) {
    const Numel all = total();
    Numel size = partition(all);
    // Stages 1 and 2 save values without what was added to the last partition.
    const Numel used = std::min(size, std::max(all - size * rank, Numel{}));
    if (options_.stage < 3 && tensor == StateTensor::value) size = used;
    std::vector<float> values(static_cast<std::size_t>(size.value));
    for (const ZeroSlice& slice : slices_of(rank)) {
      const auto into = std::span(values).subspan(static_cast<std::size_t>(slice.at.value),
                                                  static_cast<std::size_t>(slice.numel.value));
      TESSERA_TRY(reader_.read(parameters()[slice.parameter].name, tensor, 0, slice.first, into));
    }
    return values;
  }

  Status write_flat(TorchArchiveWriter& archive, std::int64_t rank, StateTensor tensor) {
    TESSERA_ASSIGN(const std::vector<float> values, flat(rank, tensor));
    archive.tensor({static_cast<std::int64_t>(values.size())}, values);
    return {};
  }

  // torch's Optimizer.state_dict of one group with one parameter, the partition.
  Status write_base_optimizer(TorchArchiveWriter& archive, std::int64_t rank) {
    ObjectPickle& pickle = archive.pickle();
    pickle.begin_dict();
    pickle.text("state");
    pickle.begin_dict();
    pickle.number(0);
    pickle.begin_dict();
    pickle.text("step");
    const auto steps = static_cast<float>(step());
    archive.tensor({}, {&steps, 1});
    pickle.text("exp_avg");
    TESSERA_TRY(write_flat(archive, rank, StateTensor::exp_avg));
    pickle.text("exp_avg_sq");
    TESSERA_TRY(write_flat(archive, rank, StateTensor::exp_avg_sq));
    pickle.end_dict();
    pickle.end_dict();
    pickle.text("param_groups");
    pickle.begin_list();
    pickle.begin_dict();
    write_real(pickle, "lr", options_.learning_rate);
    pickle.text("betas");
    pickle.mark();
    pickle.real(options_.beta1);
    pickle.real(options_.beta2);
    pickle.tuple();
    write_real(pickle, "eps", options_.epsilon);
    write_real(pickle, "weight_decay", options_.weight_decay);
    pickle.member("step", step());  // where an optimizer of DeepSpeed has it
    write_flag(pickle, "bias_correction", true);
    pickle.text("params");
    pickle.begin_list();
    pickle.number(0);
    pickle.end_list();
    pickle.end_dict();
    pickle.end_list();
    pickle.end_dict();
    return {};
  }

  void write_slices(ObjectPickle& pickle, std::int64_t rank) {
    pickle.text("param_slice_mappings");
    pickle.begin_list();
    pickle.begin_dict();
    for (const ZeroSlice& slice : slices_of(rank)) {
      pickle.text(name_of_parameter(slice.parameter));
      pickle.name("deepspeed.utils.tensor_fragment", "fragment_address");
      pickle.make();
      pickle.begin_dict();
      pickle.member("numel", slice.numel.value);
      pickle.member("start", slice.at.value);
      pickle.end_dict();
      pickle.attributes();
    }
    pickle.end_dict();
    pickle.end_list();
  }

  Result<std::string> optimizer_states(std::int64_t rank) {
    TorchArchiveWriter archive;
    ObjectPickle& pickle = archive.pickle();
    const bool whole = options_.stage == 3;
    pickle.begin_dict();
    pickle.text("optimizer_state_dict");
    pickle.begin_dict();
    pickle.member("zero_stage", options_.stage);
    pickle.text("loss_scaler");  // without one, as training in bfloat16 has it
    pickle.name("deepspeed.runtime.fp16.loss_scaler", "LossScaler");
    pickle.make();
    pickle.begin_dict();
    write_real(pickle, "cur_scale", 1.0);
    write_flag(pickle, "dynamic", false);
    pickle.end_dict();
    pickle.attributes();
    write_flag(pickle, "dynamic_loss_scale", false);
    write_flag(pickle, "overflow", false);
    pickle.text(whole ? "optimizer_state_dict" : "base_optimizer_state");
    TESSERA_TRY(write_base_optimizer(archive, rank));
    pickle.text(whole ? "fp32_flat_groups" : "single_partition_of_fp32_groups");
    pickle.begin_list();
    TESSERA_TRY(write_flat(archive, rank, StateTensor::value));
    pickle.end_list();
    if (whole) {
      pickle.member("partition_count", options_.ranks);
    } else {
      pickle.text("partition_count");
      pickle.begin_list();
      pickle.number(options_.ranks);
      pickle.end_list();
      pickle.text("group_paddings");
      pickle.begin_list();
      pickle.number(padding(rank));
      pickle.end_list();
      write_slices(pickle, rank);
    }
    pickle.member("ds_version", deepspeed_version);
    pickle.end_dict();
    pickle.member("ds_version", deepspeed_version);
    pickle.end_dict();
    return archive.finish();
  }

  std::int64_t padding(std::int64_t rank) const {
    const Numel all = total();
    return rank + 1 == options_.ranks ? (partition(all) * options_.ranks - all).value : 0;
  }

  // Stage 3 has empty tensors in the place of values, which are in the partitions.
  Result<std::string> model_states() {
    TorchArchiveWriter archive;
    ObjectPickle& pickle = archive.pickle();
    pickle.begin_dict();
    pickle.text("module");
    pickle.begin_dict();
    for (std::size_t p = 0; p < parameters().size(); ++p) {
      pickle.text(name_of_parameter(p));
      if (options_.stage == 3) {
        archive.tensor({0}, {});
        continue;
      }
      std::vector<float> values(static_cast<std::size_t>(numel_of(parameters()[p]).value));
      TESSERA_TRY(reader_.read(parameters()[p].name, StateTensor::value, 0, Numel{0}, values));
      archive.tensor(parameters()[p].shape, values);
    }
    pickle.end_dict();
    pickle.text("param_shapes");
    pickle.begin_list();
    pickle.begin_dict();
    for (std::size_t p = 0; p < parameters().size(); ++p) {
      pickle.text(name_of_parameter(p));
      pickle.torch_size(parameters()[p].shape);
    }
    pickle.end_dict();
    pickle.end_list();
    for (const char* none : {"buffer_names", "shared_params", "frozen_param_shapes",
                             "frozen_param_fragments", "sparse_tensor_module_names"}) {
      pickle.text(none);
      pickle.begin_list();
      pickle.end_list();
    }
    write_run_facts(pickle, options_.ranks, step());
    pickle.end_dict();
    return archive.finish();
  }

  CheckpointReader& reader_;
  FileSystem& files_;
  const std::string folder_;
  const ZeroExportOptions options_;
};

}  // namespace

Status export_zero(const std::string& path, const std::string& folder,
                   const ZeroExportOptions& options) {
  FileSystem& files = system_files();
  return fill_new_folder(folder, "a DeepSpeed checkpoint", [&]() -> Status {
    TESSERA_ASSIGN(CheckpointReader reader, CheckpointReader::open(files, path));
    ZeroExport out(reader, files, folder, options);
    TESSERA_TRY(out.check());
    return out.write();
  });
}

}  // namespace tessera::exchange
