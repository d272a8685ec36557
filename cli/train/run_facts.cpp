// SPDX-License-Identifier: Apache-2.0
#include "cli/train/run_facts.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>
#include <set>
#include <string>
#include <string_view>

#include "cli/command.h"
#include "tessera/assert.h"

namespace tessera::cli {
namespace {

/// Options that a rank may have for itself: its output and its threads. --cluster is for the
/// simulator, whose ranks are one program.
constexpr std::array may_differ = {"--help",    "--threads",    "--deadline",    "--quiet",
                                   "--json",    "--log-every",  "--csv",         "--tensorboard",
                                   "--cluster", "--peak-flops", "--profile-nccl"};
/// Paths of inputs, which are compared by content.
constexpr std::array by_content = {"--data",    "--validation", "--load",
                                   "--resume",  "--deepspeed",  "--tokenizer",
                                   "--weights", "--checkpoint", "--plan"};
/// Paths of a machine, which all ranks have or none.
constexpr std::array by_presence = {"--save",  "--export",    "--export-adapter",
                                    "--trace", "--nvme-path", "--optimizer-nvme-path"};

template <std::size_t count>
bool is_one_of(const std::array<const char*, count>& names, const std::string& name) {
  return std::any_of(names.begin(), names.end(), [&](const char* one) { return name == one; });
}

constexpr const char* not_given = "not given";

std::string value_of(const CLI::Option& option) {
  if (option.count() == 0) {
    const std::string standard = CLI::detail::trim_copy(option.get_default_str(), "[]");
    return standard.empty() ? not_given : standard;
  }
  std::string value;
  for (const std::string& part : option.results()) value += (value.empty() ? "" : ",") + part;
  // A flag that was given has no value of its own, or "true".
  return value.empty() || value == "true" ? "given" : value;
}

// FNV-1a, 64 bits.
std::uint64_t text_sum(std::string_view text) {
  std::uint64_t sum = 14695981039346656037ULL;
  for (const char c : text) sum = (sum ^ static_cast<unsigned char>(c)) * 1099511628211ULL;
  return sum;
}

}  // namespace

std::string model_fact(const std::string& path, const Model& model) {
  std::ifstream file(path, std::ios::binary);
  const std::string text(std::istreambuf_iterator<char>(file), {});
  return fmt::format("{} parameters by {} bytes with checksum {:016x}",
                     model.parameter_count().value, text.size(), text_sum(text));
}

std::string corpus_fact(const Corpus& corpus) {
  return fmt::format("{} tokens with checksum {:016x}", corpus.tokens(), corpus.fingerprint());
}

std::string file_fact(const std::string& path) {
  if (path.empty()) return not_given;
  constexpr std::uintmax_t pieces = 64;
  constexpr std::size_t piece = 4096;
  std::error_code error;
  const std::filesystem::path file = std::filesystem::is_directory(path, error)
                                         ? std::filesystem::path(path) / "tokenizer.json"
                                         : std::filesystem::path(path);
  const std::uintmax_t size = std::filesystem::file_size(file, error);
  std::ifstream stream(file, std::ios::binary);
  if (error || !stream) return "a file that cannot be read";
  std::string looked_at;
  for (std::uintmax_t k = 0; k < pieces; ++k) {
    std::string text(piece, '\0');
    stream.clear();
    stream.seekg(static_cast<std::streamoff>(size / pieces * k));
    stream.read(text.data(), piece);
    looked_at.append(text, 0, static_cast<std::size_t>(stream.gcount()));
    if (size <= piece) break;
  }
  return fmt::format("{} bytes with checksum {:016x}", size, text_sum(looked_at));
}

std::string weights_fact(const std::string& path) {
  std::string fact = file_fact(path);
  if (!path.ends_with(".json")) return fact;
  std::ifstream file(path, std::ios::binary);
  const auto index = nlohmann::json::parse(file, nullptr, /*allow_exceptions=*/false);
  if (!index.is_object() || !index.contains("weight_map")) return fact;
  std::set<std::string> names;
  for (const auto& [tensor, where] : index["weight_map"].items()) {
    if (where.is_string()) names.insert(where.get<std::string>());
  }
  for (const std::string& name : names) {
    fact += fmt::format(", {}: {}", name,
                        file_fact((std::filesystem::path(path).parent_path() / name).string()));
  }
  return fact;
}

// The manifest has checksums of everything else.
std::string checkpoint_fact(const std::string& path) {
  if (path.empty()) return "none";
  const auto info = read_checkpoint(path);
  if (!info.ok()) return "one that cannot be read";
  return fmt::format("step {}, whose manifest has {}", info->step,
                     file_fact((std::filesystem::path(info->path) / "manifest.json").string()));
}

Facts command_facts(const CLI::App& command, const std::string& model_path, const Model& model) {
  Facts facts = {{"the version of tessera", version()},
                 {"the model", model_fact(model_path, model)}};
  for (const CLI::Option* option : command.get_options()) {
    const std::string name = option->get_name();
    if (option->get_positional() || is_one_of(may_differ, name)) continue;
    if (is_one_of(by_content, name)) continue;
    const bool path = is_one_of(by_presence, name);
    facts.emplace_back(name, !path ? value_of(*option) : option->count() > 0 ? "given" : not_given);
  }
  return facts;
}

Facts facts_of(const TrainArguments& arguments, const TrainRun& run, const TrainData& data) {
  TESSERA_ASSERT(arguments.command != nullptr, "options come from a command line");
  Facts facts = command_facts(*arguments.command, arguments.engine.model_path, run.model);
  facts.emplace_back("--deepspeed", file_fact(arguments.engine.deepspeed));
  const auto plan = arguments.engine.scheme.given.find("--plan");
  const bool planned = plan != arguments.engine.scheme.given.end();
  facts.emplace_back("--plan", file_fact(planned ? plan->second : std::string()));
  facts.emplace_back("--tokenizer", file_fact(arguments.data.tokenizer));
  facts.emplace_back("--load", weights_fact(arguments.files.load));
  const auto from = checkpoint_to_resume(arguments.files);
  facts.emplace_back("--resume", checkpoint_fact(from.ok() ? *from : arguments.files.resume));
  facts.emplace_back("--data", corpus_fact(data.corpus));
  facts.emplace_back("--validation", data.validation ? corpus_fact(*data.validation) : not_given);
  return facts;
}

}  // namespace tessera::cli
