// SPDX-License-Identifier: Apache-2.0
// `tessera checkpoint`: what is in checkpoints, whether they are whole, their weights as one file.
#include "tessera/checkpoint.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "cli/command.h"
#include "cli/options/checks.h"
#include "cli/options/engine_options.h"
#include "cli/report/counted.h"
#include "cli/report/table.h"
#include "cli/train/export_folder.h"
#include "cli/train/named_files.h"
#include "cli/train/resumed_run.h"
#include "tessera/exchange/checkpoints.h"
#include "tessera/lora.h"

namespace tessera::cli {
namespace {

struct CheckpointArguments {
  std::string path;
  std::string file;
  std::string model;
  std::string adapter;
  std::string dtype = "float32";
  std::string format = "safetensors";
  bool dtype_given = false;
  std::string into;
  std::optional<std::string> prefix;
  std::optional<std::int64_t> step;
  exchange::ZeroExportOptions zero;
  bool zero_given = false;
  double shard_size = 5;
  bool shard_size_given = false;
  bool json = false;
};

constexpr const char* checkpoint_examples = R"(Examples:
  tessera checkpoint info run
  tessera checkpoint verify run/step-000500
  tessera checkpoint export run model.safetensors --dtype bfloat16
  tessera checkpoint export run zero-folder --format zero3 --ranks 8 --lr 3e-4
  tessera checkpoint import dcp-folder config.json run
  tessera checkpoint merge run config.json merged.safetensors --adapter adapter

Exit codes: 0 done, 2 bad input, damage included.)";

std::string dump(const nlohmann::json& json) {
  return json.dump(2, ' ', false, nlohmann::json::error_handler_t::replace) + "\n";
}

std::int64_t elements_of(const CheckpointParameter& parameter) {
  std::int64_t numel = 1;
  for (const std::int64_t size : parameter.shape) numel *= size;
  return numel;
}

std::int64_t elements_of(const CheckpointInfo& info) {
  std::int64_t numel = 0;
  for (const CheckpointParameter& parameter : info.parameters) numel += elements_of(parameter);
  return numel;
}

std::string info_json(const CheckpointInfo& info, const std::vector<std::string>& others) {
  nlohmann::json parameters = nlohmann::json::array();
  for (const CheckpointParameter& p : info.parameters) {
    parameters.push_back({{"name", p.name}, {"shape", p.shape}, {"steps", p.steps}});
  }
  nlohmann::json files = nlohmann::json::array();
  for (const CheckpointFile& f : info.files) {
    files.push_back({{"name", f.name}, {"bytes", f.bytes.value}});
  }
  return dump({{"path", info.path},
               {"step", info.step},
               {"model", info.model},
               {"scheme", info.scheme},
               {"ranks", info.world_size},
               {"elements", elements_of(info)},
               {"bytes", info.bytes().value},
               {"parameters", parameters},
               {"files", files},
               {"blobs", info.blobs},
               {"checkpoints", others}});
}

std::string info_text(const CheckpointInfo& info, const std::vector<std::string>& others,
                      bool bold) {
  Table about(info.path, {});
  about.align_left();
  about.row({"step", std::to_string(info.step)});
  about.row({"model", info.model});
  about.row({"saved by", fmt::format("{} on {}", info.scheme, counted(info.world_size, "rank"))});
  about.row({"elements", with_separators(elements_of(info))});
  about.row({"bytes", with_separators(info.bytes().value)});
  about.row({"files", std::to_string(info.files.size())});
  for (const auto& [name, bytes] : info.blobs) {
    about.row({"blob " + name, fmt::format("{} bytes", bytes.size())});
  }
  if (others.size() > 1) {
    about.note(fmt::format("Checkpoints there: {}.", fmt::join(others, ", ")));
  }
  Table parameters("Parameters", {"name", "shape", "elements", "steps"});
  for (const CheckpointParameter& p : info.parameters) {
    parameters.row({p.name, fmt::format("[{}]", fmt::join(p.shape, ", ")),
                    with_separators(elements_of(p)), std::to_string(p.steps)});
  }
  return about.text(bold) + parameters.text(bold);
}

Status print_info(const CheckpointArguments& a) {
  TESSERA_ASSIGN(const CheckpointInfo info, read_checkpoint(a.path));
  print_warnings(passed_warnings(a.path));
  TESSERA_ASSIGN(const auto others, list_checkpoints(a.path));
  const bool bold = isatty(STDOUT_FILENO) == 1 && std::getenv("NO_COLOR") == nullptr;
  fmt::print("{}", a.json ? info_json(info, others) : info_text(info, others, bold));
  return {};
}

Status verify(const CheckpointArguments& a) {
  TESSERA_ASSIGN(const CheckpointInfo info, read_checkpoint(a.path));
  print_warnings(passed_warnings(a.path));
  TESSERA_TRY(verify_checkpoint(info.path));
  if (a.json) {
    fmt::print("{}", dump({{"path", info.path}, {"step", info.step}, {"whole", true}}));
  } else {
    fmt::print("{} is whole: {} in {}\n", info.path, counted(info.bytes().value, "byte"),
               counted(std::ssize(info.files), "file"));
  }
  return {};
}

Status export_foreign(const CheckpointArguments& a, const std::string& from) {
  const std::string prefix = a.prefix.value_or("");
  if (a.format == "dcp") return exchange::export_dcp(from, a.file, prefix);
  if (a.format == "shards") {
    return exchange::export_shards(from, a.file,
                                   {.dtype = exported_dtypes.at(a.dtype),
                                    .most = Bytes{static_cast<std::int64_t>(a.shard_size * 1e9)}});
  }
  if (a.format == "universal") return exchange::export_universal(from, a.file, prefix);
  exchange::ZeroExportOptions zero = a.zero;
  zero.stage = a.format.back() - '0';
  zero.prefix = prefix;
  TESSERA_TRY(exchange::export_zero(from, a.file, zero));
  fmt::print("ZeRO-{} of {}; AdamW: lr {}, betas {} and {}, eps {}, weight decay {}\n", zero.stage,
             counted(zero.ranks, "rank"), zero.learning_rate, zero.beta1, zero.beta2, zero.epsilon,
             zero.weight_decay);
  return {};
}

// Nothing is written over what is read.
Status check_output(const CheckpointArguments& a, const CheckpointInfo& info) {
  const std::string folder = info.path + "/";
  std::vector<NamedFile> inputs = {{"the model", a.model},
                                   {"the checkpoint's manifest", folder + "manifest.json"}};
  for (const CheckpointFile& file : info.files) {
    inputs.push_back({"a part of the checkpoint", folder + file.name});
  }
  TESSERA_TRY(check_apart({"FILE", a.file}, inputs));
  std::error_code error;
  if (a.adapter.empty() || !std::filesystem::is_regular_file(a.adapter, error)) {
    return check_apart({"FILE", a.file}, {{"the folder of --adapter", a.adapter}});
  }
  return Status(Code::invalid_argument,
                fmt::format("--adapter {}: is a file: name a folder", a.adapter));
}

// What only some formats have.
Status check_format_options(const CheckpointArguments& a) {
  if (a.format != "shards" && a.shard_size_given) {
    return Status(Code::invalid_argument,
                  fmt::format("--shard-size means nothing to --format {}: leave it out", a.format));
  }
  if (a.format == "shards" && a.prefix) {
    return Status(Code::invalid_argument,
                  "--prefix means nothing to --format shards, which has published names: leave it "
                  "out");
  }
  const bool zero = a.format.starts_with("zero");
  if (zero && a.zero.ranks == 0) {
    return Status(Code::invalid_argument,
                  fmt::format("--format {} needs --ranks and --lr: DeepSpeed loads its files on as "
                              "many ranks as they are of, and takes the learning rate from them",
                              a.format));
  }
  if (zero || !a.zero_given) return {};
  return Status(
      Code::invalid_argument,
      fmt::format("--ranks, --lr, --beta1, --beta2, --eps and --weight-decay mean nothing "
                  "to --format {}: leave them out",
                  a.format));
}

Status export_weights(const CheckpointArguments& a) {
  TESSERA_TRY(check_format_options(a));
  TESSERA_ASSIGN(const CheckpointInfo info, read_checkpoint(a.path));
  print_warnings(passed_warnings(a.path));
  TESSERA_TRY(check_output(a, info));
  if (a.format != "safetensors") {
    if (a.dtype_given && a.format != "shards") {
      return Status(Code::invalid_argument,
                    fmt::format("--dtype means nothing to --format {}, which has float32: leave it "
                                "out",
                                a.format));
    }
    TESSERA_TRY(export_foreign(a, info.path));
    fmt::print("{}: {} elements of step {} with the optimizer's state\n", a.file,
               with_separators(elements_of(info)), info.step);
    return {};
  }
  if (a.prefix) {
    return Status(
        Code::invalid_argument,
        "--prefix means nothing to --format safetensors, which has published names: leave "
        "it out");
  }
  TESSERA_TRY(export_checkpoint(info.path, a.file, exported_dtypes.at(a.dtype)));
  fmt::print("{}: {} elements of step {} as {}\n", a.file, with_separators(elements_of(info)),
             info.step, a.dtype);
  return {};
}

Status import_foreign(const CheckpointArguments& a) {
  TESSERA_ASSIGN(const Model model, load_model(a.model));
  TESSERA_ASSIGN(
      const exchange::CheckpointImport done,
      exchange::import_checkpoint(a.path, model, a.into, {.prefix = a.prefix, .step = a.step}));
  print_warnings(done.warnings);
  fmt::print("{}: {}, {} parameters, {} of them with AdamW's state, step {}\n", done.checkpoint,
             done.format, done.parameters, done.with_state, done.step);
  return {};
}

// Through a file of all weights, which goes when that is done.
Status merge(const CheckpointArguments& a) {
  TESSERA_ASSIGN(const CheckpointInfo info, read_checkpoint(a.path));
  TESSERA_TRY(check_output(a, info));
  const auto blob = info.blobs.find("lora");
  if (blob == info.blobs.end()) {
    return Status(Code::invalid_argument,
                  fmt::format("{}: has no adapters: tessera checkpoint export writes its weights",
                              info.path));
  }
  TESSERA_ASSIGN(const LoraOptions lora, parse_lora(blob->second));
  TESSERA_ASSIGN(const Model model, load_model(a.model));
  print_warnings(model_warnings(a.model, model));
  TESSERA_ASSIGN(const Model adapted, with_lora(model, lora));
  print_warnings(checkpoint_warnings(a.path, a.model, adapted));
  const std::string all = a.file + ".all";
  TESSERA_TRY(export_checkpoint(info.path, all, DType::float32));
  Status done = merge_lora(all, model, lora, a.file);
  if (done.ok() && !a.adapter.empty()) done = export_lora(all, model, lora, a.adapter);
  std::error_code error;
  std::filesystem::remove(all, error);
  TESSERA_TRY(done);
  fmt::print("{}: {} merged into the weights of step {}\n", a.file, blob->second, info.step);
  return {};
}

CLI::App* add(CLI::App& parent, const char* name, const char* description,
              const std::shared_ptr<CheckpointArguments>& arguments, int& exit_code,
              Status (*run)(const CheckpointArguments&)) {
  CLI::App* command = parent.add_subcommand(name, description);
  command->add_option("DIR", arguments->path, "A checkpoint, or a folder with some: the newest")
      ->required();
  command->callback([arguments, run, &exit_code] {
    const Status status = run(*arguments);
    if (!status.ok()) exit_code = complain(status);
  });
  return command;
}

void add_zero_options(CLI::App& command, const std::shared_ptr<CheckpointArguments>& arguments) {
  exchange::ZeroExportOptions& zero = arguments->zero;
  zero.ranks = 0;
  const auto given = [arguments](const std::string&) { arguments->zero_given = true; };
  CLI::Option* lr = command.add_option("--lr", zero.learning_rate, "zero1 to zero3: learning rate")
                        ->check(within(0.0, 1e6))
                        ->each(given);
  command.add_option("--ranks", zero.ranks, "zero1 to zero3: ranks that will load it")
      ->check(within(1, 65'536))
      ->each(given)
      ->needs(lr);
  const std::tuple<const char*, double*, const char*> numbers[] = {
      {"--beta1", &zero.beta1, "zero1 to zero3: of AdamW"},
      {"--beta2", &zero.beta2, "zero1 to zero3: of AdamW"},
      {"--eps", &zero.epsilon, "zero1 to zero3: of AdamW"},
      {"--weight-decay", &zero.weight_decay, "zero1 to zero3: of AdamW"}};
  for (const auto& [name, value, help] : numbers) {
    command.add_option(name, *value, help)->check(within(0.0, 1.0))->each(given);
  }
}

}  // namespace

void add_checkpoint(CLI::App& app, int& exit_code) {
  auto arguments = std::make_shared<CheckpointArguments>();
  CheckpointArguments& a = *arguments;
  CLI::App* command =
      app.add_subcommand("checkpoint", "Describe, check and export checkpoints of training");
  command->footer(checkpoint_examples);
  command->require_subcommand(1);
  CLI::App* info = add(*command, "info", "What is in it", arguments, exit_code, print_info);
  info->add_flag("--json", a.json, "Print one JSON object");
  CLI::App* whole =
      add(*command, "verify", "Read everything and check it", arguments, exit_code, verify);
  whole->add_flag("--json", a.json, "Print one JSON object");
  CLI::App* out = add(*command, "export", "Write the weights as one safetensors file", arguments,
                      exit_code, export_weights);
  out->add_option("FILE", a.file, "The safetensors file, or the new folder")->required();
  out->add_option("--format", a.format,
                  "shards: safetensors files with an index, dcp: torch.distributed.checkpoint, "
                  "universal and zero1 to zero3: DeepSpeed; with "
                  "AdamW's state")
      ->check(
          CLI::IsMember({"safetensors", "shards", "dcp", "universal", "zero1", "zero2", "zero3"}));
  out->add_option("--prefix", a.prefix,
                  "dcp, universal, zero1 to zero3: what is put in front of names");
  add_zero_options(*out, arguments);
  out->add_option("--shard-size", a.shard_size, "shards: the largest file, in GB")
      ->check(within(1e-6, 1e6))
      ->each([arguments](const std::string&) { arguments->shard_size_given = true; });
  CLI::App* merged =
      add(*command, "merge", "Write the weights of a run with --lora without adapters", arguments,
          exit_code, merge);
  merged->add_option("MODEL", a.model, "Hugging Face config.json")->required();
  merged->add_option("FILE", a.file, "The safetensors file")->required();
  merged
      ->add_option("--adapter", a.adapter, "Folder that gets the adapters by themselves, for PEFT")
      ->default_str("");
  CLI::App* in = command->add_subcommand(
      "import", "Make a checkpoint of one that PyTorch (DCP) or DeepSpeed (ZeRO) has saved");
  in->add_option("FROM", a.path, "Their folder")->required();
  in->add_option("MODEL", a.model, "Hugging Face config.json, or a module tree")->required();
  in->add_option("DIR", a.into, "The folder that gets the checkpoint, for train --resume")
      ->required();
  in->add_option("--prefix", a.prefix, "What stands in front of the parameters' names, if several");
  in->add_option("--step", a.step, "Its number, instead of the optimizer's steps")
      ->check(within(0, 1'000'000'000));
  in->callback([arguments, &exit_code] {
    const Status status = import_foreign(*arguments);
    if (!status.ok()) exit_code = complain(status);
  });
  std::vector<std::string> known;
  for (const auto& [name, dtype] : exported_dtypes) known.push_back(name);
  out->add_option("--dtype", a.dtype, "Of the weights in the file")
      ->check(CLI::IsMember(known))
      ->each([arguments](const std::string&) { arguments->dtype_given = true; });
}

}  // namespace tessera::cli
