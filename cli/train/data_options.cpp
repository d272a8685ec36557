// SPDX-License-Identifier: Apache-2.0
#include "cli/train/data_options.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <filesystem>
#include <map>

#include "cli/options/checks.h"
#include "cli/options/names_of.h"

namespace tessera::cli {
namespace {

const std::map<std::string, TokenFormat> formats = {
    {"auto", TokenFormat::by_name},    {"bytes", TokenFormat::bytes},
    {"uint16", TokenFormat::uint16},   {"uint32", TokenFormat::uint32},
    {"llm.c", TokenFormat::llm_c},     {"megatron", TokenFormat::megatron},
    {"jsonl", TokenFormat::json_lines}};
const std::map<std::string, ChatTemplate> templates = {{"none", ChatTemplate::none},
                                                       {"chatml", ChatTemplate::chatml},
                                                       {"llama3", ChatTemplate::llama3},
                                                       {"plain", ChatTemplate::plain}};

// A token of the tokenizer; without one, a number.
Result<std::int32_t> token_of(const char* option, const std::string& text, const DataArguments& a,
                              const CorpusOptions& options) {
  if (text.empty()) return -1;
  std::int32_t id = -1;
  if (options.documents.tokenizer) {
    id = options.documents.tokenizer->find(text);
    if (id >= 0) return id;
    return Status(Code::invalid_argument,
                  fmt::format("{} {}: {} has no such token", option, text, a.tokenizer));
  }
  const char* const end = text.data() + text.size();
  const auto [at, wrong] = std::from_chars(text.data(), end, id);
  if (wrong == std::errc{} && at == end && id >= 0 && id < options.vocabulary) return id;
  return Status(Code::invalid_argument,
                fmt::format("{} {}: is no number of a token below {}: give one, or name the "
                            "tokenizer with --tokenizer",
                            option, text, options.vocabulary));
}

}  // namespace

void add_text_options(CLI::App& command, DataArguments& a) {
  const char* group = "Data";
  command
      .add_option("--data-format", a.format,
                  "A token is a byte, or 2 or 4 of them, behind llm.c's header, or as Megatron's "
                  "index says; jsonl: a document per line; auto: .jsonl is that, .bin is one of "
                  "llm.c's or Megatron's if it looks so or has an .idx beside it, else uint16; all "
                  "others are bytes")
      ->check(names_of(formats))
      ->group(group);
  command
      .add_option(
          "--tokenizer", a.tokenizer,
          "tokenizer.json of the model, or a folder with one: encodes texts and JSON lines; "
          "without it a token is a byte")
      ->default_str("")
      ->group(group);
  command
      .add_option("--chat-template", a.chat_template,
                  "jsonl: how messages are written; only the assistant's are learned")
      ->check(names_of(templates))
      ->group(group);
  command
      .add_option("--begin-of-text", a.begin_of_text,
                  "jsonl: token before every text and prompt, or its number")
      ->default_str("")
      ->group(group);
  command
      .add_option("--end-of-text", a.end_of_text,
                  "jsonl: token behind every text and completion, or its number; in other files it "
                  "begins a document, and attention does not look across")
      ->default_str("")
      ->group(group);
  command.add_option("--text-key", a.text_key, "jsonl: the key of a text")->group(group);
}

Result<CorpusOptions> corpus_options(const DataArguments& a, const std::string& model_path,
                                     const Model& model) {
  const ParameterId embedding = model.parameters.empty() ? ParameterId{} : ParameterId{0};
  if (!embedding.valid() || model.parameter(embedding).shape.size() != 2) {
    return Status(
        Code::not_supported,
        fmt::format("{}: is no language model: its first parameter is no embedding", model_path));
  }
  CorpusOptions options{.format = formats.at(a.format),
                        .vocabulary = model.parameter(embedding).shape[0]};
  DocumentOptions& documents = options.documents;
  if (!a.tokenizer.empty()) {
    TESSERA_ASSIGN(documents.tokenizer, Tokenizer::open(a.tokenizer));
  }
  documents.chat = templates.at(a.chat_template);
  documents.key = a.text_key;
  TESSERA_ASSIGN(documents.begin_of_text, token_of("--begin-of-text", a.begin_of_text, a, options));
  TESSERA_ASSIGN(documents.end_of_text, token_of("--end-of-text", a.end_of_text, a, options));
  return options;
}

Status check_text_options(const CLI::App& command, const DataArguments& a, const Corpus& corpus) {
  const bool lines = corpus.has_documents();
  const bool texts = formats.at(a.format) == TokenFormat::bytes ||
                     (a.format == "auto" &&
                      std::any_of(a.files.begin(), a.files.end(), [](const std::string& file) {
                        const auto name = corpus_file(file).path;
                        return !name.ends_with(".bin") && !name.ends_with(".idx");
                      }));
  const char* const otherwise = "without JSON lines as data";
  const bool begins = lines && a.chat_template != "llama3";
  const bool ends = !lines || a.chat_template == "none" || a.chat_template == "plain";
  return check_acting(
      command, {{"--chat-template", lines, otherwise},
                {"--text-key", lines, otherwise},
                {"--begin-of-text", begins,
                 lines ? "with --chat-template llama3, which has a token of its own" : otherwise},
                {"--tokenizer", lines || texts || !a.end_of_text.empty(), "with files of tokens"},
                {"--end-of-text", ends, "with a chat template that ends messages itself"}});
}

CorpusFile corpus_file(const std::string& text) {
  const std::size_t colon = text.rfind(':');
  std::error_code error;
  if (colon == std::string::npos || std::filesystem::exists(text, error)) return {text, 1};
  double weight = 0;
  const char* const end = text.data() + text.size();
  const auto [at, wrong] = std::from_chars(text.data() + colon + 1, end, weight);
  if (wrong != std::errc{} || at != end) return {text, 1};
  return {text.substr(0, colon), weight};
}

}  // namespace tessera::cli
