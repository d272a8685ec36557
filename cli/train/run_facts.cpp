// SPDX-License-Identifier: Apache-2.0
#include "cli/train/run_facts.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <string_view>

#include "cli/command.h"
#include "tessera/assert.h"

namespace tessera::cli {
namespace {

/// Options that a rank may have for itself: its output, its threads, paths of its machine. What
/// lies behind a path of an input is compared by content.
constexpr std::array may_differ = {
    "--help",       "--threads",    "--deadline",      "--quiet",        "--json",    "--log-every",
    "--peak-flops", "--trace",      "--data",          "--validation",   "--load",    "--resume",
    "--save",       "--export",     "--deepspeed",     "--profile-nccl", "--cluster", "--tokenizer",
    "--weights",    "--checkpoint", "--export-adapter"};

bool is_own(const std::string& name) {
  return std::any_of(may_differ.begin(), may_differ.end(),
                     [&](const char* own) { return name == own; });
}

std::string value_of(const CLI::Option& option) {
  if (option.count() == 0) {
    return option.get_default_str().empty() ? "not given" : option.get_default_str();
  }
  std::string value;
  for (const std::string& part : option.results()) value += (value.empty() ? "" : ",") + part;
  // A flag that was given has no value of its own, or "true".
  return value.empty() ? "given" : value;
}

// FNV-1a, 64 bits.
std::uint64_t text_sum(std::string_view text) {
  std::uint64_t sum = 14695981039346656037ULL;
  for (const char c : text) sum = (sum ^ static_cast<unsigned char>(c)) * 1099511628211ULL;
  return sum;
}

/// The bytes of the model's description, as a checksum: every key of it may change what is
/// computed.
std::string model_fact(const std::string& path, const Model& model) {
  std::ifstream file(path, std::ios::binary);
  const std::string text(std::istreambuf_iterator<char>(file), {});
  return fmt::format("{} parameters by {} bytes with checksum {:016x}",
                     model.parameter_count().value, text.size(), text_sum(text));
}

}  // namespace

std::string corpus_fact(const Corpus& corpus) {
  return fmt::format("{} tokens with checksum {:016x}", corpus.tokens(), corpus.fingerprint());
}

std::string size_fact(const std::string& path) {
  std::error_code error;
  return fmt::format("{} bytes", std::filesystem::file_size(path, error));
}

Facts command_facts(const CLI::App& command, const std::string& model_path, const Model& model) {
  Facts facts = {{"the version of tessera", version()},
                 {"the model", model_fact(model_path, model)}};
  for (const CLI::Option* option : command.get_options()) {
    const std::string name = option->get_name();
    if (option->get_positional() || is_own(name)) continue;
    facts.emplace_back(name, value_of(*option));
  }
  return facts;
}

Facts facts_of(const TrainArguments& arguments, const TrainRun& run, const TrainData& data) {
  TESSERA_ASSERT(arguments.command != nullptr, "options come from a command line");
  Facts facts = command_facts(*arguments.command, arguments.engine.model_path, run.model);
  facts.emplace_back("the scheme", std::string(name_of(run.options.scheme)));
  facts.emplace_back("--data", corpus_fact(data.corpus));
  if (data.validation) facts.emplace_back("--validation", corpus_fact(*data.validation));
  return facts;
}

}  // namespace tessera::cli
