// SPDX-License-Identifier: Apache-2.0
#include "cli/train/named_files.h"

#include <fmt/format.h>

#include <filesystem>

#include "cli/train/export_folder.h"
#include "cli/train/train_log.h"
#include "engine/text/text_file.h"
#include "tessera/safetensors.h"

namespace tessera::cli {
namespace {

// A folder of several files is none that a run reads as one; devices are not written over.
bool is_file_to_be(const std::string& path) {
  std::error_code error;
  return !path.empty() &&
         (!std::filesystem::exists(path, error) || std::filesystem::is_regular_file(path, error));
}

std::string wrap_plan_of(const TrainArguments& a) {
  const auto plan = a.engine.scheme.given.find("--plan");
  return plan == a.engine.scheme.given.end() ? "" : plan->second;
}

std::vector<NamedFile> inputs_of(const TrainArguments& a) {
  std::vector<NamedFile> all = {{"the model", a.engine.model_path},
                                {"--tokenizer", a.data.tokenizer},
                                {"--load", a.files.load},
                                {"--deepspeed", a.engine.deepspeed},
                                {"--plan", wrap_plan_of(a)}};
  for (const std::string& file : a.data.files) all.push_back({"--data", corpus_file(file).path});
  all.push_back({"--validation", a.validation.file});
  return all;
}

// A file cannot be where a folder will be: found at the end, that costs the file.
Status check_no_folder(const NamedFile& out, const std::vector<NamedFile>& folders) {
  for (const NamedFile& folder : folders) {
    if (folder.path.empty() || !same_file(out.path + "/", folder.path + "/")) continue;
    return Status(
        Code::invalid_argument,
        fmt::format("{} and {} both name {}, which is a file for one and a folder for the "
                    "other: choose two",
                    out.name, folder.name, out.path));
  }
  return {};
}

Status check_outputs(const TrainArguments& a) {
  const std::vector<NamedFile> outputs = {{"--export", exported_file(a.files.export_to)},
                                          {"--json", a.log.json},
                                          {"--csv", a.log.csv},
                                          {"--trace", a.trace}};
  const std::vector<NamedFile> folders = {{"--save", a.files.save},
                                          {"--tensorboard", a.log.tensorboard},
                                          {"--export-adapter", a.files.export_adapter}};
  // The log and the table are written where they are, a pipe perhaps.
  for (const NamedFile* whole : {&outputs[0], &outputs[3]}) {
    TESSERA_TRY(check_replaceable(whole->path));
  }
  for (std::size_t k = 0; k < outputs.size(); ++k) {
    const NamedFile& out = outputs[k];
    if (!is_file_to_be(out.path)) continue;
    TESSERA_TRY(check_no_folder(out, folders));
    // A trace replaces nothing but traces.
    if (out.name != "--trace") TESSERA_TRY(check_apart(out, inputs_of(a)));
    for (std::size_t other = k + 1; other < outputs.size(); ++other) {
      if (outputs[other].path.empty() || !same_file(out.path, outputs[other].path)) continue;
      return Status(Code::invalid_argument,
                    fmt::format("{} and {} name the same file {}: choose two", out.name,
                                outputs[other].name, out.path));
    }
  }
  TESSERA_TRY(check_logs(a.log));
  return check_safetensors_place(outputs[0].path);
}

}  // namespace

bool same_file(const std::string& a, const std::string& b) {
  std::error_code error;
  if (std::filesystem::equivalent(a, b, error)) return true;
  namespace fs = std::filesystem;
  return fs::absolute(a, error).lexically_normal() == fs::absolute(b, error).lexically_normal();
}

Status check_apart(const NamedFile& output, const std::vector<NamedFile>& inputs) {
  for (const NamedFile& in : inputs) {
    if (in.path.empty() || !same_file(in.path, output.path)) continue;
    return Status(Code::invalid_argument, fmt::format("{} {} is read as {}: choose another name",
                                                      output.name, output.path, in.name));
  }
  return {};
}

Status check_named_files(const TrainArguments& a) {
  for (const NamedFile& in : inputs_of(a)) TESSERA_TRY(check_no_stream(in.path));
  const TrainFileOptions& files = a.files;
  if (!files.export_to.empty() && !files.export_adapter.empty() &&
      same_file(files.export_to + "/", files.export_adapter + "/")) {
    return Status(Code::invalid_argument,
                  fmt::format("--export and --export-adapter both name {}: choose two, or whoever "
                              "reads it puts the adapter onto weights that have it",
                              files.export_to));
  }
  return check_outputs(a);
}

}  // namespace tessera::cli
