// SPDX-License-Identifier: Apache-2.0
#include "tessera/tokenizer.h"

#include <fmt/format.h>

#include <filesystem>
#include <fstream>
#include <iterator>

#include "engine/text/json_reader.h"
#include "engine/text/text_file.h"
#include "training/tokenizer/added_tokens.h"
#include "training/tokenizer/file_keys.h"
#include "training/tokenizer/piece_model.h"
#include "training/tokenizer/pieces.h"
#include "training/tokenizer/token_decoder.h"
#include "training/tokenizer/unicode_text.h"

namespace tessera {

using Json = nlohmann::json;

struct Tokenizer::State {
  std::string source;
  tokens::Normaliser normaliser;
  tokens::PreTokeniser pre_tokeniser;
  std::unique_ptr<tokens::PieceModel> model;
  tokens::Vocabulary all;  // the model's and those that were added
  tokens::AddedTokens added;
  tokens::TokenDecoder decoder;
  std::vector<std::int32_t> before, behind;  // what a post-processor adds
  std::vector<std::string> warnings;

  static Result<std::shared_ptr<State>> make(std::string_view json, const std::string& source);
  Status read(const Json& json);
  Status read_model(const Json& json);
  Status read_post_processor(const Json& json);
  Status read_template(const Json& json);
  Status surround(const Json& id, bool after);
  Status encode_text(const tokens::Piece& raw, std::vector<std::int32_t>& ids) const;
};

Status Tokenizer::State::read_model(const Json& json) {
  std::string type = json.value("type", std::string());
  if (type.empty()) type = json.contains("merges") ? "BPE" : "";  // files before 2020
  if (type == "BPE") {
    TESSERA_ASSIGN(model, tokens::read_bpe(json));
  } else if (type == "Unigram") {
    TESSERA_ASSIGN(model, tokens::read_unigram(json));
  } else if (type == "WordPiece") {
    TESSERA_ASSIGN(model, tokens::read_word_piece(json));
  } else {
    return Status(
        Code::not_supported,
        fmt::format("model {} is not known: known are BPE, Unigram, WordPiece", in_quotes(type)));
  }
  all = model->vocabulary();
  return {};
}

// Tokens before and behind the sequence A.
Status Tokenizer::State::read_template(const Json& json) {
  int sequences = 0;
  for (const Json& part : json.at("single")) {
    if (part.contains("Sequence")) {
      if (part["Sequence"].at("id") == "A") ++sequences;
      continue;
    }
    const auto name = part.at("SpecialToken").at("id").get<std::string>();
    for (const Json& id : json.at("special_tokens").at(name).at("ids")) {
      TESSERA_TRY(surround(id, sequences > 0));
    }
  }
  if (sequences == 1) return {};
  return Status(Code::not_supported,
                fmt::format("post_processor TemplateProcessing has the text {} times in single: "
                            "once is supported",
                            sequences));
}

Status Tokenizer::State::surround(const Json& id, bool after) {
  if (!id.is_number_integer() || all.text(id.get<std::int32_t>()) == nullptr) {
    return Status(
        Code::invalid_argument,
        fmt::format("post_processor adds token {}, which the vocabulary has not", shown_value(id)));
  }
  (after ? behind : before).push_back(id.get<std::int32_t>());
  return {};
}

Status Tokenizer::State::read_post_processor(const Json& json) {
  if (json.is_null()) return {};
  const auto type = json.at("type").get<std::string>();
  if (type == "ByteLevel") return {};  // moves offsets only
  if (type == "TemplateProcessing") return read_template(json);
  if (type == "Sequence") {
    for (const Json& one : json.at("processors")) TESSERA_TRY(read_post_processor(one));
    return {};
  }
  if (type == "BertProcessing" || type == "RobertaProcessing") {
    TESSERA_TRY(surround(json.at("cls").at(1), false));
    return surround(json.at("sep").at(1), true);
  }
  return Status(Code::not_supported,
                fmt::format("post_processor {} is not known: known are TemplateProcessing, "
                            "ByteLevel, BertProcessing, RobertaProcessing, Sequence",
                            in_quotes(type)));
}

Status Tokenizer::State::read(const Json& json) {
  if (!json.is_object() || !json.contains("model")) {
    return Status(Code::invalid_argument, "has no model: it is no tokenizer.json");
  }
  const auto version = json.value("version", Json("1.0"));
  if (version != "1.0") {
    return Status(Code::not_supported,
                  fmt::format("version {} is not known: known is 1.0", shown_value(version)));
  }
  TESSERA_ASSIGN(normaliser, tokens::read_normaliser(json.value("normalizer", Json())));
  TESSERA_ASSIGN(pre_tokeniser, tokens::read_pre_tokeniser(json.value("pre_tokenizer", Json())));
  TESSERA_TRY(read_model(json.at("model")));
  TESSERA_TRY(added.read(json.value("added_tokens", Json()), normaliser, all));
  TESSERA_TRY(read_post_processor(json.value("post_processor", Json())));
  TESSERA_ASSIGN(decoder, tokens::read_decoder(json.value("decoder", Json())));
  warnings = tokens::unfollowed_keys(json, source);
  if (const std::string& twice = model->vocabulary().twice(); !twice.empty()) {
    warnings.push_back(fmt::format("{}: the vocabulary has {} twice, and its number is the later",
                                   source, in_quotes(twice)));
  }
  return {};
}

Result<std::shared_ptr<Tokenizer::State>> Tokenizer::State::make(std::string_view json,
                                                                 const std::string& source) {
  TESSERA_ASSIGN(const Json parsed, parse_json(json, source));
  auto state = std::make_shared<State>();
  state->source = source;
  // Every key may be missing or of another type; nothing is thrown past this function.
  try {
    const Status status = state->read(parsed);
    if (!status.ok()) return Status(status.code(), source + ": " + status.message());
  } catch (const Json::exception& error) {
    return Status(
        Code::invalid_argument,
        fmt::format("{}: is not as a tokenizer.json should be: {}", source, error.what()));
  }
  return state;
}

Result<Tokenizer> Tokenizer::parse(std::string_view json, const std::string& source) {
  TESSERA_ASSIGN(auto state, State::make(json, source));
  return Tokenizer(std::move(state));
}

Result<Tokenizer> Tokenizer::open(const std::string& path) {
  std::error_code error;
  const bool folder = std::filesystem::is_directory(path, error);
  const std::string name =
      folder ? (std::filesystem::path(path) / "tokenizer.json").string() : path;
  TESSERA_TRY(check_no_stream(name));
  std::ifstream file(name, std::ios::binary);
  if (!file) {
    return Status(
        Code::io_error,
        fmt::format("{}: cannot be read: name a tokenizer.json, or a folder with one", name));
  }
  const std::string text(std::istreambuf_iterator<char>(file), {});
  TESSERA_ASSIGN(auto state, State::make(text, name));
  TESSERA_ASSIGN(const auto around,
                 tokens::other_tokens_around(std::filesystem::path(name).parent_path().string(),
                                             !state->before.empty(), !state->behind.empty()));
  state->warnings.insert(state->warnings.end(), around.begin(), around.end());
  return Tokenizer(std::move(state));
}

Status Tokenizer::State::encode_text(const tokens::Piece& raw,
                                     std::vector<std::int32_t>& ids) const {
  for (const tokens::Section& part : added.in_normalised(normaliser ? normaliser(raw) : raw)) {
    if (part.token >= 0) {
      ids.push_back(part.token);
      continue;
    }
    for (const tokens::Piece& piece : tokens::cut(pre_tokeniser, {part.piece})) {
      TESSERA_TRY(model->encode(piece.text, ids));
    }
  }
  return {};
}

Result<std::vector<std::int32_t>> Tokenizer::encode(std::string_view text,
                                                    SpecialTokens special) const {
  const State& s = *state_;
  const std::size_t mistake = tokens::utf8_mistake(text);
  if (mistake != std::string_view::npos) {
    return Status(Code::invalid_argument, fmt::format("byte {} of the text is no UTF-8", mistake));
  }
  const bool adds = special == SpecialTokens::added;
  std::vector<std::int32_t> ids;
  if (adds) ids = s.before;
  for (const tokens::Section& section : s.added.in_raw(text)) {
    if (section.token >= 0) {
      ids.push_back(section.token);
    } else {
      TESSERA_TRY(s.encode_text(section.piece, ids));
    }
  }
  if (adds) ids.insert(ids.end(), s.behind.begin(), s.behind.end());
  return ids;
}

Result<std::string> Tokenizer::decode(std::span<const std::int32_t> ids,
                                      SpecialTokens special) const {
  tokens::Texts texts;
  for (const std::int32_t id : ids) {
    const std::string* const text = state_->all.text(id);
    if (text == nullptr) {
      return Status(Code::invalid_argument,
                    fmt::format("{}: no token has the number {}", state_->source, id));
    }
    if (special == SpecialTokens::left_out && state_->added.is_special(id)) continue;
    texts.push_back(*text);
  }
  std::string out;
  for (const std::string& text : state_->decoder(std::move(texts))) out += text;
  return out;
}

std::vector<std::string> Tokenizer::warnings() const { return state_->warnings; }
std::int32_t Tokenizer::unknown() const { return state_->model->unknown(); }
std::int32_t Tokenizer::size() const { return state_->all.size(); }
bool Tokenizer::has(std::int32_t token) const { return state_->all.text(token) != nullptr; }
std::int32_t Tokenizer::find(std::string_view text) const { return state_->all.find(text); }

}  // namespace tessera
