// SPDX-License-Identifier: Apache-2.0
#include "training/tokenizer/file_keys.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <filesystem>
#include <set>

#include "engine/text/json_reader.h"
#include "engine/text/text_file.h"
#include "engine/text/words.h"

namespace tessera::tokens {
namespace {

using Json = nlohmann::json;

// What steps of a type may have besides their type, wherever they stand.
struct TypeKeys {
  std::string_view type, keys;
};
constexpr TypeKeys steps[] = {
    {"BPE",
     "dropout unk_token continuing_subword_prefix end_of_word_suffix fuse_unk byte_fallback "
     "ignore_merges vocab merges"},
    {"BPEDecoder", "suffix"},
    {"BertNormalizer", "clean_text handle_chinese_chars strip_accents lowercase"},
    {"BertProcessing", "sep cls"},
    {"ByteLevel", "add_prefix_space trim_offsets use_regex"},
    {"Digits", "individual_digits"},
    {"Metaspace", "replacement add_prefix_space prepend_scheme split str_rep"},
    {"Prepend", "prepend"},
    {"Punctuation", "behavior"},
    {"Replace", "pattern content"},
    {"RobertaProcessing", "sep cls trim_offsets add_prefix_space"},
    {"Sequence", "normalizers pretokenizers processors decoders"},
    {"Split", "pattern behavior invert"},
    {"Strip", "strip_left strip_right content start stop"},
    {"TemplateProcessing", "single pair special_tokens"},
    {"Unigram", "unk_id vocab byte_fallback"},
    {"WordPiece",
     "unk_token continuing_subword_prefix max_input_chars_per_word vocab prefix cleanup"}};
constexpr std::string_view of_file =
    "version truncation padding added_tokens normalizer pre_tokenizer post_processor decoder model";
constexpr std::string_view of_added_token =
    "id content single_word lstrip rstrip normalized special";

class UnreadKeys {
 public:
  void look(const Json& object, std::string_view known, const std::string& where) {
    for (const auto& [key, value] : object.items()) {
      if (!value.is_null() && !lists(known, key)) add(where + key);
    }
  }

  // A step, and those that it consists of. Files of before 2020 have models without a type.
  void look_at_step(const Json& step, const std::string& where) {
    if (!step.is_object()) return;
    const auto type = step.value("type", std::string("BPE"));
    const auto* const found = std::find_if(std::begin(steps), std::end(steps),
                                           [&](const TypeKeys& one) { return one.type == type; });
    const std::string_view known = found == std::end(steps) ? "" : found->keys;
    look(step, fmt::format("type {}", known), where + ".");
    if (type != "Sequence") return;
    for (const char* all : {"normalizers", "pretokenizers", "processors", "decoders"}) {
      for (const Json& one : step.value(all, Json::array())) look_at_step(one, where);
    }
  }

  std::vector<std::string> names() const {
    constexpr std::size_t shown = 12;
    std::vector<std::string> out(names_.begin(), names_.end());
    if (out.size() <= shown) return out;
    const std::string rest = fmt::format("and {} more", out.size() - shown);
    out.resize(shown);
    out.push_back(rest);
    return out;
  }

 private:
  void add(const std::string& name) {
    constexpr std::size_t most = 1000, longest = 60;
    if (names_.size() < most) names_.insert(name.substr(0, longest));
  }

  std::set<std::string> names_;
};

}  // namespace

std::vector<std::string> unfollowed_keys(const Json& json, const std::string& source) {
  std::vector<std::string> warnings;
  std::vector<const char*> set;
  for (const char* key : {"truncation", "padding"}) {
    if (json.contains(key) && !json[key].is_null()) set.push_back(key);
  }
  if (!set.empty()) {
    warnings.push_back(
        fmt::format("{}: {} {} not followed: a text becomes as many tokens as it has", source,
                    fmt::join(set, " and "), set.size() == 1 ? "is" : "are"));
  }
  UnreadKeys unread;
  unread.look(json, of_file, "");
  for (const char* step : {"normalizer", "pre_tokenizer", "post_processor", "decoder", "model"}) {
    unread.look_at_step(json.value(step, Json()), step);
  }
  for (const Json& token : json.value("added_tokens", Json::array())) {
    unread.look(token, of_added_token, "added_tokens.");
  }
  if (!unread.names().empty()) {
    warnings.push_back(
        fmt::format("{}: has keys that are not read: {}", source, fmt::join(unread.names(), ", ")));
  }
  return warnings;
}

Result<std::vector<std::string>> other_tokens_around(const std::string& folder, bool before,
                                                     bool behind) {
  std::vector<std::string> warnings;
  const std::string file = (std::filesystem::path(folder) / "tokenizer_config.json").string();
  std::error_code error;
  if (!std::filesystem::is_regular_file(file, error)) return warnings;
  TESSERA_ASSIGN(const std::string text, text_of_file(file));
  TESSERA_ASSIGN(const Json json, parse_json(text, file));
  JsonReader keys(json, file);
  if (!json.is_object()) keys.fail("", "is no JSON object");
  TESSERA_TRY(keys.status());
  const auto compare = [&](const char* key, bool adds, const char* where) {
    if (!keys.has(key) || keys.boolean(key, adds) == adds) return;
    warnings.push_back(
        fmt::format("{}: {} is {}, but by the tokenizer.json beside it {} token comes {} a text, "
                    "which is what is done: make them agree",
                    file, key, !adds, adds ? "a" : "no", where));
  };
  compare("add_bos_token", before, "before");
  compare("add_eos_token", behind, "behind");
  TESSERA_TRY(keys.status());
  return warnings;
}

}  // namespace tessera::tokens
