// SPDX-License-Identifier: Apache-2.0
#include "tessera/documents.h"

#include <fmt/format.h>

#include <array>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "engine/text/json_reader.h"
#include "engine/text/text_file.h"

namespace tessera {
namespace {

using nlohmann::json;

// The strings around a message of a template.
struct Turns {
  std::string begin;           // of a chat
  std::string before, middle;  // around the role
  std::string end;             // of the message, learned with it
  std::string behind;
  std::vector<std::string> tokens;  // that the vocabulary must have
  bool trims = false;
};

Turns turns_of(ChatTemplate chat) {
  switch (chat) {
    case ChatTemplate::chatml:
      return {.before = "<|im_start|>",
              .middle = "\n",
              .end = "<|im_end|>",
              .behind = "\n",
              .tokens = {"<|im_start|>", "<|im_end|>"}};
    case ChatTemplate::llama3:
      return {
          .begin = "<|begin_of_text|>",
          .before = "<|start_header_id|>",
          .middle = "<|end_header_id|>\n\n",
          .end = "<|eot_id|>",
          .behind = "",
          .tokens = {"<|begin_of_text|>", "<|start_header_id|>", "<|end_header_id|>", "<|eot_id|>"},
          .trims = true};
    case ChatTemplate::plain:
    case ChatTemplate::none: break;
  }
  return {.before = "", .middle = ": ", .end = "\n", .behind = ""};
}

Status wrong(const std::string& where, const std::string& what) {
  return Status(Code::invalid_argument, fmt::format("{}: {}", where, what));
}

std::string trimmed(const std::string& text) {
  constexpr const char* spaces = " \t\r\n\v\f";
  const std::size_t first = text.find_first_not_of(spaces);
  if (first == std::string::npos) return "";
  return text.substr(first, text.find_last_not_of(spaces) + 1 - first);
}

// Collects texts that are learned or not, and encodes each stretch of them at once.
class DocumentMaker {
 public:
  DocumentMaker(const DocumentOptions& options, const std::string& where)
      : options_(options), where_(where) {}

  void token(std::int32_t id, bool learned) {
    if (id < 0) return;
    flush();
    put(id, learned);
  }
  void text(const std::string& part, bool learned) {
    if (learned != learned_) flush();
    learned_ = learned;
    stretch_ += part;
  }
  Result<Document> finish() {
    flush();
    TESSERA_TRY(failed_);
    return std::move(document_);
  }

 private:
  void put(std::int32_t id, bool learned) {
    document_.tokens.push_back(id);
    document_.learned.push_back(learned);
  }
  void flush() {
    const std::string part = std::exchange(stretch_, "");
    if (part.empty() || !failed_.ok()) return;
    if (!options_.tokenizer) {
      for (const char byte : part) put(static_cast<unsigned char>(byte), learned_);
      return;
    }
    const auto encoded = options_.tokenizer->encode(part, SpecialTokens::left_out);
    if (!encoded.ok()) {
      failed_ = Status(encoded.status().code(),
                       fmt::format("{}: {}", where_, encoded.status().message()));
      return;
    }
    for (const std::int32_t id : *encoded) put(id, learned_);
  }

  const DocumentOptions& options_;
  const std::string& where_;
  Document document_;
  std::string stretch_;
  bool learned_ = false;
  Status failed_;
};

Result<std::string> text_at(const json& object, const char* key, const std::string& where) {
  const auto found = object.find(key);
  if (found != object.end() && found->is_string()) return found->get<std::string>();
  return wrong(where, fmt::format("{} is {}, but must be a text", key,
                                  found == object.end() ? "missing" : found->type_name()));
}

struct Message {
  std::string role, content;
  bool learned = false;
};

// null, [], {} and "".
bool says_nothing(const json& value) { return value.empty() || value == ""; }

// Whatever else stands in a message would change what a model reads or learns.
Status check_keys(const json& message, const std::string& where) {
  for (const auto& [key, value] : message.items()) {
    constexpr std::array known = {"role", "content", "weight"};
    if (says_nothing(value) || std::find(known.begin(), known.end(), key) != known.end()) continue;
    const bool calls = key == "tool_calls" || key == "function_call";
    return wrong(where, calls ? "calls of tools are not supported"
                              : fmt::format("a message has the key {}: known are role, content and "
                                            "weight, leave others out",
                                            key));
  }
  return {};
}

// 1, or 0 for what the assistant wrote and shall not learn.
Result<bool> is_learned(const json& message, const std::string& role, const std::string& where) {
  const auto weight = message.find("weight");
  if (weight == message.end() || weight->is_null()) return role == "assistant";
  if (*weight != 0 && *weight != 1) return wrong(where, "the weight of a message must be 0 or 1");
  if (role != "assistant" && *weight == 1) {
    return wrong(
        where, fmt::format("a message of the role {} is not learned: its weight must be 0", role));
  }
  return *weight == 1;
}

Result<std::vector<Message>> messages_of(const json& given, const std::string& where) {
  if (!given.is_array() || given.empty()) return wrong(where, "messages is no list of messages");
  std::vector<Message> out;
  for (const json& one : given) {
    if (!one.is_object()) return wrong(where, "a message is no object with role and content");
    Message message;
    TESSERA_ASSIGN(message.role, text_at(one, "role", where));
    constexpr std::array roles = {"system", "user", "assistant"};
    if (std::find(roles.begin(), roles.end(), message.role) == roles.end()) {
      return wrong(where,
                   fmt::format("the role {} is none of system, user and assistant", message.role));
    }
    TESSERA_TRY(check_keys(one, where));
    TESSERA_ASSIGN(message.learned, is_learned(one, message.role, where));
    TESSERA_ASSIGN(message.content, text_at(one, "content", where));
    out.push_back(std::move(message));
  }
  return out;
}

// Of the templates that models bring with them most refuse any other order.
bool take_turns(const std::vector<Message>& messages) {
  const std::size_t first = messages.front().role == "system" ? 1 : 0;
  for (std::size_t k = first; k < messages.size(); ++k) {
    if (messages[k].role != ((k - first) % 2 == 0 ? "user" : "assistant")) return false;
  }
  return true;
}

void note_messages(const std::vector<Message>& messages, const Turns& turns, DocumentNotes& notes) {
  const auto is_empty = [&](const Message& message) {
    return message.learned && (turns.trims ? trimmed(message.content) : message.content).empty();
  };
  const auto has_marks = [&](const Message& message) {
    return std::any_of(turns.tokens.begin(), turns.tokens.end(), [&](const std::string& token) {
      return message.content.find(token) != std::string::npos;
    });
  };
  notes.without_answer += std::any_of(messages.begin(), messages.end(), is_empty) ? 1 : 0;
  notes.out_of_turn += take_turns(messages) ? 0 : 1;
  notes.with_marks += std::any_of(messages.begin(), messages.end(), has_marks) ? 1 : 0;
}

void note_unread(const json& line, const std::vector<std::string_view>& read,
                 DocumentNotes& notes) {
  constexpr std::size_t most = 1000;  // names of keys, however many a file has
  for (const auto& [key, value] : line.items()) {
    if (says_nothing(value) || std::find(read.begin(), read.end(), key) != read.end()) continue;
    if (notes.unread.size() < most || notes.unread.contains(key)) ++notes.unread[key];
  }
}

Result<Document> chat(const std::vector<Message>& messages, const DocumentOptions& options,
                      const std::string& where, DocumentNotes& notes) {
  const Turns turns = turns_of(options.chat);
  ++notes.chats;
  note_messages(messages, turns, notes);
  DocumentMaker maker(options, where);
  if (turns.begin.empty()) maker.token(options.begin_of_text, false);
  maker.text(turns.begin, false);
  for (const Message& message : messages) {
    maker.text(turns.before + message.role + turns.middle, false);
    maker.text((turns.trims ? trimmed(message.content) : message.content) + turns.end,
               message.learned);
    maker.text(turns.behind, false);
  }
  if (options.chat == ChatTemplate::plain) maker.token(options.end_of_text, true);
  return maker.finish();
}

// A question and its answer: as they are, or as a chat of two.
Result<Document> pair(const std::string& question, const std::string& answer,
                      const DocumentOptions& options, const std::string& where,
                      DocumentNotes& notes) {
  if (options.chat != ChatTemplate::none) {
    return chat({{"user", question, false}, {"assistant", answer, true}}, options, where, notes);
  }
  notes.without_answer += answer.empty() && options.end_of_text >= 0 ? 1 : 0;
  DocumentMaker maker(options, where);
  maker.token(options.begin_of_text, false);
  maker.text(question, false);
  maker.text(answer, true);
  maker.token(options.end_of_text, true);
  return maker.finish();
}

Result<Document> instruction(const json& line, const DocumentOptions& options,
                             const std::string& where, DocumentNotes& notes) {
  if (options.chat == ChatTemplate::none) {
    return wrong(where,
                 "an instruction needs a chat template: choose chatml, llama3 or plain with "
                 "--chat-template");
  }
  TESSERA_ASSIGN(std::string question, text_at(line, "instruction", where));
  if (line.contains("input") && !line["input"].is_null()) {
    TESSERA_ASSIGN(const std::string input, text_at(line, "input", where));
    if (!input.empty()) question += "\n\n" + input;
  }
  TESSERA_ASSIGN(const std::string answer, text_at(line, "output", where));
  note_unread(line, {"instruction", "input", "output"}, notes);
  return pair(question, answer, options, where, notes);
}

Status unknown_keys(const json& line, const DocumentOptions& options, const std::string& where) {
  if (line.contains("messages")) {
    return wrong(where,
                 "a chat needs a template: choose chatml, llama3 or plain with --chat-template");
  }
  std::vector<std::string> keys;
  for (const auto& [name, value] : line.items()) keys.push_back(name);
  return wrong(where, fmt::format("has the keys {}: known are {}, messages, prompt with "
                                  "completion, instruction with output",
                                  fmt::join(keys, ", "), options.key));
}

}  // namespace

Status check(const DocumentOptions& options) {
  for (const std::string& token : turns_of(options.chat).tokens) {
    if (options.tokenizer && options.tokenizer->find(token) >= 0) continue;
    return Status(
        Code::invalid_argument,
        fmt::format("the chat template needs the token {}, which {}: choose another "
                    "template or tokenizer",
                    token, options.tokenizer ? "the tokenizer has not" : "bytes do not have"));
  }
  return {};
}

namespace {

Result<Document> messages_document(const json& line, const DocumentOptions& options,
                                   const std::string& where, DocumentNotes& notes) {
  for (const char* key : {"tools", "functions"}) {
    const bool some = line.contains(key) && !says_nothing(line[key]);
    if (some) return wrong(where, fmt::format("has {}, which are not supported", key));
  }
  TESSERA_ASSIGN(const auto messages, messages_of(line["messages"], where));
  note_unread(line, {"messages"}, notes);
  return chat(messages, options, where, notes);
}

Result<Document> document_of(const json& line, const DocumentOptions& options,
                             const std::string& where, DocumentNotes& notes) {
  const bool chats = options.chat != ChatTemplate::none;
  if (chats && line.contains("messages")) return messages_document(line, options, where, notes);
  if (line.contains("prompt") && line.contains("completion")) {
    TESSERA_ASSIGN(const std::string question, text_at(line, "prompt", where));
    TESSERA_ASSIGN(const std::string answer, text_at(line, "completion", where));
    note_unread(line, {"prompt", "completion"}, notes);
    return pair(question, answer, options, where, notes);
  }
  if (line.contains("instruction") && line.contains("output")) {
    return instruction(line, options, where, notes);
  }
  if (!line.contains(options.key)) return unknown_keys(line, options, where);
  TESSERA_ASSIGN(const std::string all, text_at(line, options.key.c_str(), where));
  note_unread(line, {options.key}, notes);
  ++notes.texts;
  DocumentMaker maker(options, where);
  maker.token(options.begin_of_text, false);
  maker.text(all, true);
  maker.token(options.end_of_text, true);
  return maker.finish();
}

}  // namespace

Result<Document> parse_document(std::string_view text, const DocumentOptions& options,
                                const std::string& where, DocumentNotes* notes) {
  TESSERA_ASSIGN(const json line, parse_json(text, where));
  if (!line.is_object()) {
    return wrong(where, line.is_array() ? "is a list, no JSON object: give each document a line"
                                        : "is no JSON object");
  }
  DocumentNotes unwanted;
  return document_of(line, options, where, notes == nullptr ? unwanted : *notes);
}

Result<std::vector<Document>> read_documents(const std::string& path,
                                             const DocumentOptions& options, DocumentNotes* notes) {
  TESSERA_TRY(check(options));
  TESSERA_TRY(check_no_stream(path));
  std::error_code error;
  std::ifstream file(path, std::ios::binary);
  if (!file || std::filesystem::is_directory(path, error)) {
    return Status(Code::io_error,
                  fmt::format("{}: cannot be read: name a file of JSON lines", path));
  }
  std::vector<Document> documents;
  std::int64_t number = 0;
  for (std::string line; std::getline(file, line);) {
    ++number;
    if (line.find_first_not_of(" \t\r") == std::string::npos) continue;
    TESSERA_ASSIGN(documents.emplace_back(),
                   parse_document(line, options, fmt::format("{}: line {}", path, number), notes));
    if (!options.tokenizer || notes == nullptr) continue;
    note_tokens(documents.back().tokens, *options.tokenizer, *notes);
  }
  return documents;
}

}  // namespace tessera
