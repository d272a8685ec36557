// SPDX-License-Identifier: Apache-2.0
// `tessera tokenize`: texts become a file of token numbers, document by document.
#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>

#include "cli/command.h"
#include "cli/options/checks.h"
#include "cli/report/counted.h"
#include "cli/report/table.h"
#include "cli/stop_signal.h"
#include "cli/text_file.h"
#include "cli/train/held_pipe.h"
#include "cli/train/named_files.h"
#include "engine/text/json_reader.h"
#include "engine/text/text_file.h"
#include "tessera/documents.h"
#include "tessera/tokenizer.h"

namespace tessera::cli {
namespace {

constexpr const char* tokenize_examples = R"(Examples:
  tessera tokenize Llama-3/tokenizer.json book.txt -o book.bin
  tessera tokenize tokenizer.json a.jsonl b.jsonl -o web.bin --end-of-text "<|endoftext|>"

Exit codes: 0 done, 1 a fault of tessera, 2 bad input.)";

struct TokenizeArguments {
  std::string tokenizer;
  std::vector<std::string> inputs;
  std::string output;
  std::string documents = "auto";
  std::string key = "text";
  std::string end_of_text;
  std::string special = "off";
  bool print = false;
  bool key_given = false;

  bool lines_of_json(const std::string& path) const {
    return documents == "json" ||
           (documents == "auto" && std::filesystem::path(path).extension() == ".jsonl");
  }
};

std::string in_line(const std::string& path, std::int64_t line) {
  return fmt::format("{}: line {}", path, line);
}

// Tokens take the place of tokens alone, as far as the beginning of a file tells.
Status check_tokens_place(const std::string& path) {
  TESSERA_TRY(check_replaceable(path));
  return check_overwrites("--output", path, [&](std::string_view text) {
    const std::string_view beginning = text.substr(0, 4096);
    const std::string other = other_than_tokens(beginning);
    return other.empty() && beginning.starts_with('{') ? other_than_text(path, beginning) : other;
  });
}

// Writes what it is given; nothing is left behind under the output's name before all is well.
class TokenWriter {
 public:
  TokenWriter(const TokenizeArguments& arguments, const Tokenizer& tokenizer)
      : arguments_(arguments), tokenizer_(tokenizer) {}
  ~TokenWriter() {
    std::error_code error;
    if (!partial_.empty()) std::filesystem::remove(partial_, error);
    remove_when_stopped("");
  }

  Status begin() {
    if (!arguments_.end_of_text.empty() && arguments_.end_of_text != "none") {
      end_ = tokenizer_.find(arguments_.end_of_text);
      if (end_ < 0) {
        return Status(Code::invalid_argument,
                      fmt::format("--end-of-text {}: {} has no such token", arguments_.end_of_text,
                                  arguments_.tokenizer));
      }
    }
    width_ = tokenizer_.size() <= 65536 ? 2 : 4;
    if (arguments_.output.empty()) return {};
    TESSERA_TRY(check_tokens_place(arguments_.output));
    place_ = behind_links(arguments_.output);
    partial_ = place_ + ".partial";
    remove_when_stopped(partial_);
    file_.open(partial_, std::ios::binary | std::ios::trunc);
    return file_ ? Status() : unwritable();
  }

  Status document(std::string_view text, const std::string& where) {
    if (documents_ == 1 && arguments_.end_of_text.empty()) {
      return Status(Code::invalid_argument,
                    fmt::format("{}: a second document begins: name the token between documents "
                                "with --end-of-text, or none",
                                where));
    }
    const auto special =
        arguments_.special == "on" ? SpecialTokens::added : SpecialTokens::left_out;
    auto encoded = tokenizer_.encode(text, special);
    if (!encoded.ok()) {
      return Status(encoded.status().code(),
                    fmt::format("{}: {}", where, encoded.status().message()));
    }
    if (text.empty()) ++empty_;
    if (end_ >= 0) encoded->push_back(end_);
    ++documents_;
    note_tokens(*encoded, tokenizer_, notes_);
    if (arguments_.print) fmt::print("{}\n", fmt::join(*encoded, " "));
    return write(*encoded);
  }

  Status finish() {
    if (empty_ == documents_ && !arguments_.output.empty()) {
      return Status(Code::invalid_argument, fmt::format("{}: there is no text to encode",
                                                        fmt::join(arguments_.inputs, ", ")));
    }
    if (empty_ > 0) {
      print_warnings({fmt::format("{} of {} documents have no text", with_separators(empty_),
                                  with_separators(documents_))});
    }
    print_warnings(warnings_of(notes_, arguments_.tokenizer));
    if (arguments_.output.empty()) return {};
    file_.close();
    std::error_code error;
    if (!file_) return unwritable();
    std::filesystem::rename(partial_, place_, error);
    if (error) return unwritable();
    partial_.clear();
    if (arguments_.print) return {};
    fmt::print("{}: {} of {}, uint{}\n", arguments_.output, counted(notes_.tokens, "token"),
               counted(documents_, "document"), 8 * width_);
    if (width_ == 4) fmt::print("train with --data-format uint32\n");
    return {};
  }

 private:
  Status unwritable() const {
    return Status(Code::io_error,
                  fmt::format("{}: cannot be written: is there the folder, and room?", partial_));
  }

  Status write(const std::vector<std::int32_t>& tokens) {
    if (arguments_.output.empty()) return {};
    std::string bytes;
    for (const std::int32_t token : tokens) {
      for (int k = 0; k < width_; ++k) {
        bytes += static_cast<char>(static_cast<std::uint32_t>(token) >> (8 * k) & 0xFF);
      }
    }
    file_.write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
    return file_ ? Status() : unwritable();
  }

  const TokenizeArguments& arguments_;
  const Tokenizer& tokenizer_;
  std::string place_, partial_;
  std::ofstream file_;
  std::int32_t end_ = -1;
  int width_ = 2;  // bytes of a token
  std::int64_t documents_ = 0, empty_ = 0;
  DocumentNotes notes_;
};

// The text of one line of JSON, or why it has none.
Result<std::string> text_of(const std::string& line, const std::string& key,
                            const std::string& where) {
  TESSERA_ASSIGN(const auto json, parse_json(line, where));
  if (!json.is_object()) {
    return Status(Code::invalid_argument, fmt::format("{}: is no JSON object", where));
  }
  const auto found = json.find(key);
  if (found != json.end() && found->is_string()) return found->get<std::string>();
  std::vector<std::string> keys;
  for (const auto& [name, value] : json.items()) keys.push_back(name);
  return Status(Code::invalid_argument,
                fmt::format("{}: has no text under the key {}, but {}: name it with --key; chats "
                            "and their templates are not supported",
                            where, key, fmt::join(keys, ", ")));
}

Status tokenize_file(const TokenizeArguments& a, const std::string& path, TokenWriter& writer) {
  std::error_code error;
  std::ifstream file;
  {
    HeldPipe pipe(path);
    TESSERA_TRY(pipe.check());
    file.open(path, std::ios::binary);
  }
  if (!file || std::filesystem::is_directory(path, error)) {
    return Status(Code::io_error, fmt::format("{}: cannot be read: name a file of text", path));
  }
  const bool json = a.lines_of_json(path);
  if (!json && a.documents != "line") {
    std::string text(std::istreambuf_iterator<char>(file), {});
    text.erase(0, utf8_mark(text));
    const std::string other = a.documents == "auto" ? other_than_text(path, text) : "";
    if (!other.empty()) {
      return Status(Code::invalid_argument,
                    fmt::format("{}: {}: convert it, or say --documents json if each line is a "
                                "document, file if it is to be encoded as it stands",
                                path, other));
    }
    return writer.document(text, path);
  }
  std::int64_t number = 0;
  for (std::string line; std::getline(file, line);) {
    const std::string where = in_line(path, ++number);
    if (number == 1) line.erase(0, utf8_mark(line));
    if (!json && line.ends_with('\r')) line.pop_back();
    if (json && line.find_first_not_of(" \t\r") == std::string::npos) continue;
    if (json) {
      TESSERA_ASSIGN(line, text_of(line, a.key, where));
    }
    TESSERA_TRY(writer.document(line, where));
  }
  return {};
}

Status check_options(const TokenizeArguments& a) {
  if (a.output.empty() && !a.print) {
    return Status(Code::invalid_argument, "name the file of tokens with --output, or --print them");
  }
  const bool json = std::any_of(a.inputs.begin(), a.inputs.end(),
                                [&](const std::string& one) { return a.lines_of_json(one); });
  if (a.key_given && !json) {
    return Status(Code::invalid_argument,
                  "--key means nothing without JSON lines among the files: leave it out");
  }
  if (a.output.empty()) return {};
  std::error_code error;
  const bool folder = std::filesystem::is_directory(a.tokenizer, error);
  std::vector<NamedFile> inputs = {
      {"the tokenizer", folder ? a.tokenizer + "/tokenizer.json" : a.tokenizer}};
  for (const std::string& input : a.inputs) inputs.push_back({"a text", input});
  return check_apart({"--output", a.output}, inputs);
}

Status tokenize(const TokenizeArguments& a) {
  TESSERA_TRY(check_options(a));
  TESSERA_ASSIGN(const Tokenizer tokenizer, Tokenizer::open(a.tokenizer));
  print_warnings(tokenizer.warnings());
  const auto around = tokenizer.encode("", SpecialTokens::added);
  if (a.special == "on" && around.ok() && around->empty()) {
    print_warnings({fmt::format("--special on: {} adds no tokens around a text", a.tokenizer)});
  }
  TokenWriter writer(a, tokenizer);
  TESSERA_TRY(writer.begin());
  for (const std::string& input : a.inputs) TESSERA_TRY(tokenize_file(a, input, writer));
  return writer.finish();
}

}  // namespace

void add_tokenize(CLI::App& app, int& exit_code) {
  auto a = std::make_shared<TokenizeArguments>();
  CLI::App* command = app.add_subcommand("tokenize", "Make a file of tokens out of texts");
  command->footer(tokenize_examples);
  command->add_option("TOKENIZER", a->tokenizer, "tokenizer.json, or a folder with one")
      ->required();
  command->add_option("TEXT", a->inputs, "Files of text, or of JSON lines")->required();
  command->add_option("-o,--output", a->output, "File that gets the tokens, little endian")
      ->default_str("");
  command
      ->add_option("--documents", a->documents,
                   "What a document is: file, line, json (a line of JSON); auto: json for .jsonl")
      ->check(CLI::IsMember({"auto", "file", "line", "json"}));
  command->add_option("--key", a->key, "json: the key of the text")->each([a](const std::string&) {
    a->key_given = true;
  });
  command
      ->add_option("--end-of-text", a->end_of_text,
                   "The token behind each document, or none; needed for several")
      ->default_str("");
  command
      ->add_option("--special", a->special,
                   "on: with the tokens that the tokenizer adds around a text")
      ->check(CLI::IsMember({"on", "off"}));
  command->add_flag("--print", a->print, "Prints the numbers, a line for each document");
  command->callback([a, command, &exit_code] {
    const Status given = check_not_empty(*command);
    const Status status = given.ok() ? tokenize(*a) : given;
    if (!status.ok()) exit_code = complain(status);
  });
}

}  // namespace tessera::cli
